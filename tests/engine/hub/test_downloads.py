"""The queue: order, limits, pausing, restarts, shortage of space, two windows."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.hub import downloads as downloads_module
from engine.hub import partfile
from engine.hub.connection import Connection
from engine.hub.download_status import DownloadStatus, State, total_progress
from engine.hub.downloads import Downloads
from engine.hub.errors import BusyError, DiskFullError, GatedError, VerificationError
from engine.hub.journal import Source, part_path
from engine.hub.library_actions import move_models_folder
from engine.hub.queue_file import local_path
from tests.engine.hub.conftest import publish
from tests.support.hub_content import Noise
from tests.support.hub_faults import Fault
from tests.support.hub_server import FakeHub

Make = Callable[..., Downloads]
MIB = 1 << 20


@pytest.fixture
def make(connect: Callable[..., Connection], tmp_path: Path) -> Iterator[Make]:
    made: list[Downloads] = []

    def create(**options: Any) -> Downloads:
        token = options.pop("token", None)
        created = Downloads(lambda: connect(token), tmp_path / "queue.json", patience=0.001, **options)
        made.append(created)
        return created

    yield create
    for downloads in made:
        downloads.close()


def wait_for(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing happened in time"
        time.sleep(0.003)


def status(downloads: Downloads, id: str) -> DownloadStatus:
    return next(one for one in downloads.snapshot() if one.id == id)


def state(downloads: Downloads, id: str) -> State:
    return status(downloads, id).state


def shards(hub: FakeHub, count: int, size: int = 300_000) -> list[Source]:
    return [publish(hub, Noise(size, seed=index), f"Big-{index + 1:05d}-of-{count:05d}.gguf") for index in range(count)]


def test_one_model_of_three_shards(hub: FakeHub, make: Make, tmp_path: Path) -> None:
    sources = shards(hub, 3)
    hub.every = lambda n: Fault(after=100_000, then="cut")  # every connection breaks early
    downloads = make()
    id = downloads.add("Big", sources, tmp_path / "models")
    seen = [0]

    def finished() -> bool:
        now = status(downloads, id)
        assert now.done >= seen[-1], "progress must not go back"
        assert now.done <= now.size
        seen.append(now.done)
        return now.state is State.DONE

    wait_for(finished)
    assert seen[-1] == 900_000
    for index, source in enumerate(sources):
        assert (tmp_path / "models" / source.path).read_bytes() == Noise(300_000, index).read(0, 300_000)
    assert hub.sent == 900_000  # nothing twice


def test_parallel_limit_and_order(hub: FakeHub, make: Make, tmp_path: Path) -> None:
    hub.every = lambda n: Fault(rate=400_000)
    downloads = make(parallel=1)
    first, second, third = (
        downloads.add(name, [publish(hub, Noise(MIB, seed), f"{name}.gguf")], tmp_path / "models")
        for seed, name in enumerate("abc")
    )
    wait_for(lambda: status(downloads, first).done)
    assert state(downloads, second) is state(downloads, third) is State.QUEUED
    downloads.move(third, 1)
    assert [one.name for one in downloads.snapshot()] == ["a", "c", "b"]
    downloads.pause(first)
    wait_for(lambda: status(downloads, third).done)
    assert state(downloads, second) is State.QUEUED
    downloads.limit(parallel=2)
    wait_for(lambda: status(downloads, second).done)
    assert total_progress(downloads.snapshot()).count == 2


def test_pause_is_immediate_and_resume_fetches_only_the_rest(hub: FakeHub, make: Make, tmp_path: Path) -> None:
    source = publish(hub, Noise(2 * MIB))
    hub.faults.append(Fault(after=MIB, then="stall"))
    downloads = make()
    id = downloads.add("m", [source], tmp_path)
    wait_for(lambda: status(downloads, id).done == MIB)
    begin = time.monotonic()
    downloads.pause(id)
    assert state(downloads, id) is State.PAUSED
    downloads.resume(id)
    wait_for(lambda: state(downloads, id) is State.DONE)
    assert time.monotonic() - begin < 5
    assert hub.sent == 2 * MIB


def test_cancel_removes_what_was_fetched(hub: FakeHub, make: Make, tmp_path: Path) -> None:
    source = publish(hub, Noise(2 * MIB))
    hub.faults.append(Fault(after=MIB, then="stall"))
    downloads = make()
    id = downloads.add("m", [source], tmp_path / "models")
    target = tmp_path / "models" / source.path
    wait_for(lambda: part_path(target).exists() and part_path(target).stat().st_size == MIB)
    downloads.cancel(id)
    assert not downloads.snapshot()
    wait_for(lambda: not part_path(target).exists())


def test_restart_keeps_everything_and_asks_nothing(hub: FakeHub, make: Make, tmp_path: Path) -> None:
    sources = shards(hub, 2, MIB)
    hub.faults.extend([Fault(), Fault(after=MIB * 96 // 100, then="stall")])
    first = make()
    id = first.add("Big", sources, tmp_path / "models")
    wait_for(lambda: status(first, id).done >= MIB + MIB * 96 // 100 - 200)
    first.close()
    asked, sent = len(hub.requests), hub.sent
    second = make()
    (found,) = second.snapshot()
    assert (found.id, found.state) == (id, State.PAUSED)
    assert found.done >= 0.95 * found.size
    assert len(hub.requests) == asked
    second.resume_all()
    wait_for(lambda: state(second, id) is State.DONE)
    assert hub.sent - sent < MIB // 20
    second.close()
    assert not make().snapshot()


def test_second_window_waits_for_the_first(hub: FakeHub, make: Make, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(downloads_module, "BUSY_SECONDS", 0.02)
    source = publish(hub, Noise(2 * MIB))
    hub.faults.append(Fault(rate=4e6))
    first, second = make(), make()
    one = first.add("m", [source], tmp_path / "models")
    wait_for(lambda: status(first, one).done)
    other = second.add("m", [source], tmp_path / "models")
    wait_for(lambda: "another window" in status(second, other).note)
    wait_for(lambda: state(first, one) is state(second, other) is State.DONE)
    assert hub.sent == 2 * MIB


def test_same_model_twice_is_one_download(hub: FakeHub, make: Make, tmp_path: Path) -> None:
    source = publish(hub, Noise(MIB))
    hub.every = lambda n: Fault(rate=1e6)
    downloads = make()
    assert downloads.add("m", [source], tmp_path) == downloads.add("m", [source], tmp_path)
    assert len(downloads.snapshot()) == 1


def test_what_is_there_already_is_not_fetched(hub: FakeHub, make: Make, tmp_path: Path) -> None:
    content = Noise(MIB)
    source = publish(hub, content)
    (tmp_path / source.path).write_bytes(content.read(0, MIB))
    downloads = make()
    id = downloads.add("m", [source], tmp_path)
    wait_for(lambda: state(downloads, id) is State.DONE)
    assert not hub.requests


def test_no_space_is_refused_before_the_first_byte(
    hub: FakeHub, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = publish(hub, Noise(MIB))
    monkeypatch.setattr(downloads_module, "MARGIN", 1 << 60)
    downloads = make()
    id = downloads.add("m", [source], tmp_path)
    wait_for(lambda: state(downloads, id) is State.PAUSED)
    found = status(downloads, id)
    assert isinstance(found.error, DiskFullError)
    assert "more free space" in found.note
    assert not hub.requests


def test_one_that_does_not_fit_takes_no_room_from_one_that_does(hub: FakeHub, make: Make, tmp_path: Path) -> None:
    small = publish(hub, Noise(MIB))
    huge = replace(small, path="huge-Q8_0.gguf", size=1 << 55, sha256="")
    downloads = make(parallel=4)
    refused = [downloads.add(f"huge{number}", [huge], tmp_path / str(number)) for number in range(3)]
    id = downloads.add("m", [small], tmp_path)
    wait_for(lambda: state(downloads, id) is State.DONE)
    wait_for(lambda: all(state(downloads, one) is State.PAUSED for one in refused))
    assert all("TB more free space" in status(downloads, one).note for one in refused)


def test_disk_full_in_the_middle_pauses_and_loses_nothing(
    hub: FakeHub, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = publish(hub, Noise(2 * MIB))
    append = partfile.PartFile.append

    class Full:
        """A file on a volume with a megabyte of space."""

        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, data: memoryview) -> int:
            left = MIB - self.file.tell()
            if left <= 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return int(self.file.write(data[:left]))

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    def on_full_disk(self: partfile.PartFile, block: bytes) -> None:
        if not isinstance(self._file, Full):
            self._file = Full(self._file)  # type: ignore[assignment]
        append(self, block)

    monkeypatch.setattr(partfile.PartFile, "append", on_full_disk)
    downloads = make()
    id = downloads.add("m", [source], tmp_path)
    wait_for(lambda: state(downloads, id) is State.PAUSED)
    assert isinstance(status(downloads, id).error, DiskFullError)
    assert part_path(tmp_path / source.path).stat().st_size == MIB
    monkeypatch.setattr(partfile.PartFile, "append", append)
    downloads.resume(id)
    wait_for(lambda: state(downloads, id) is State.DONE)
    assert hub.sent <= 3 * MIB + (1 << 20)


def test_gate_and_damage_are_told_and_can_be_tried_again(hub: FakeHub, make: Make, tmp_path: Path) -> None:
    source = publish(hub, Noise(MIB), gated=True)
    without = make()
    id = without.add("m", [source], tmp_path)
    wait_for(lambda: state(without, id) is State.FAILED)
    assert isinstance(status(without, id).error, GatedError)
    without.close()
    hub.faults.append(Fault(flip=700_000))
    downloads = make(token=hub.token)
    downloads.resume_all()
    wait_for(lambda: state(downloads, id) is State.FAILED)
    assert isinstance(status(downloads, id).error, VerificationError)
    assert not (tmp_path / source.path).exists()
    downloads.resume(id)
    wait_for(lambda: state(downloads, id) is State.DONE)


def test_speed_limit_holds_over_all_downloads(hub: FakeHub, make: Make, tmp_path: Path) -> None:
    downloads = make(bytes_per_second=2e6, parallel=2)
    begin = time.monotonic()
    ids = [
        downloads.add(name, [publish(hub, Noise(MIB, seed), f"{name}.gguf")], tmp_path)
        for seed, name in enumerate("ab")
    ]
    wait_for(lambda: all(state(downloads, id) is State.DONE for id in ids))
    assert time.monotonic() - begin > 2 * MIB / 2e6 - 0.3  # never faster; slower only by the machine's fault


def test_waiting_says_why(hub: FakeHub, make: Make, tmp_path: Path) -> None:
    source = publish(hub, Noise(MIB))
    hub.hub_faults.append(Fault(status=429, headers={"Retry-After": "7"}))
    downloads = make()
    id = downloads.add("m", [source], tmp_path)
    wait_for(lambda: "7 s" in status(downloads, id).note)
    assert state(downloads, id) is State.RUNNING


def test_models_folder_moves_with_what_is_unfinished(hub: FakeHub, make: Make, tmp_path: Path) -> None:
    source = publish(hub, Noise(2 * MIB))
    hub.faults.append(Fault(after=MIB, then="stall"))
    downloads = make()
    old, new = tmp_path / "old", tmp_path / "new"
    id = downloads.add("m", [source], old / "maker")
    wait_for(lambda: status(downloads, id).done == MIB)
    with pytest.raises(BusyError, match="running"):
        downloads.relocate(old, new)
    downloads.pause(id)
    wait_for(lambda: not any(thread.name == "download" for thread in threading.enumerate()))
    downloads.relocate(old, new)
    move_models_folder(old, new)
    downloads.resume(id)
    wait_for(lambda: state(downloads, id) is State.DONE)
    assert (new / "maker" / source.path).stat().st_size == 2 * MIB
    assert hub.sent == 2 * MIB


@pytest.mark.parametrize(
    ("remote", "local"),
    [
        ("m.gguf", "m.gguf"),
        ("Q4/m.gguf", "Q4/m.gguf"),
        ("../../etc/passwd", "etc/passwd"),
        ("/absolute.gguf", "absolute.gguf"),
        ("a\\..\\b:c.gguf", "a/b_c.gguf"),
        ("模型 ü .gguf", "模型 ü .gguf"),
        ("..", "model.gguf"),
        ("con\x00trol?.gguf", "con_trol_.gguf"),
    ],
)
def test_local_names_never_lead_out(remote: str, local: str) -> None:
    assert local_path(remote).as_posix() == local
