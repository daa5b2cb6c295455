"""One file on its way: odd names and folders, locks, renames, endings that the fault matrix does not cover."""

from __future__ import annotations

import errno
import os
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import FileError
from engine.hub import file_download, journal, partfile
from engine.hub.connection import Connection
from engine.hub.errors import BusyError, ChangedError, DiskFullError, NotFoundError, ProtocolError, StoppedError
from engine.hub.file_download import FileDownload
from engine.hub.journal import Source, journal_path, kept_bytes, part_path, save_journal
from engine.hub.partfile import PartFile
from engine.hub.records import read_record
from engine.hub.speed import SpeedMeter
from tests.engine.hub.conftest import FILE, MODEL, fetch, publish
from tests.support.hub_content import Noise
from tests.support.hub_faults import Fault
from tests.support.hub_server import FakeHub

Connect = Callable[..., Connection]
SIZE = 400_000
CONTENT = Noise(SIZE)


@pytest.mark.parametrize(
    "name",
    ["spaces in it.gguf", "山田　太郎 é 🦙.gguf", "a" * 250 + ".gguf", "percent%20+plus&amp.gguf", "#frag?query.gguf"],
)
def test_names(hub: FakeHub, connect: Connect, tmp_path: Path, name: str) -> None:
    source = publish(hub, CONTENT, name)
    target = tmp_path / "山田　太郎" / name
    hub.faults.append(Fault(after=100_000, then="cut"))
    fetch(connect(), source, target)
    assert target.read_bytes() == CONTENT.read(0, SIZE)
    record = read_record(target)
    assert record is not None and record.sha256 == CONTENT.sha256


def test_paths_longer_than_260_characters(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    target = tmp_path.joinpath(*["a folder with a long name" * 4] * 5) / FILE
    assert len(str(target)) > 500
    fetch(connect(), publish(hub, CONTENT), target)
    assert target.stat().st_size == SIZE


def test_folder_behind_a_link(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    fetch(connect(), publish(hub, CONTENT), tmp_path / "link" / FILE)
    assert (tmp_path / "real" / FILE).stat().st_size == SIZE


def test_folder_that_is_a_file(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("")
    with pytest.raises(FileError, match="cannot be made"):
        fetch(connect(), publish(hub, CONTENT), tmp_path / "models" / FILE)
    assert not hub.requests


def test_read_only_folder(hub: FakeHub, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")  # root may write anywhere, so the refusal is played

    monkeypatch.setattr(partfile, "save_journal", refuse)
    with pytest.raises(FileError, match="may not be written to"):
        fetch(connect(), publish(hub, CONTENT), tmp_path / FILE)
    assert not hub.requests


def test_one_writer_per_file(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    source = publish(hub, CONTENT)
    part = PartFile(tmp_path / FILE, source)
    with pytest.raises(BusyError, match="another window"):
        fetch(connect(), source, tmp_path / FILE)
    part.close()
    fetch(connect(), source, tmp_path / FILE)


def test_rename_is_tried_again(hub: FakeHub, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, failures = Path.replace, [3]

    def held(self: Path, target: Path) -> Path:
        if self.name.endswith(".part") and failures[0]:
            failures[0] -= 1
            raise PermissionError(13, "in use by a virus scanner")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", held)
    fetch(connect(), publish(hub, CONTENT), tmp_path / FILE)
    assert failures == [0]
    assert (tmp_path / FILE).exists()


def test_rename_that_never_works_keeps_the_bytes(
    hub: FakeHub, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partfile, "RENAME_SECONDS", 0.1)
    (tmp_path / FILE).mkdir()  # a folder stands in the way
    source = publish(hub, CONTENT)
    with pytest.raises(FileError):
        fetch(connect(), source, tmp_path / FILE)
    (tmp_path / FILE).rmdir()
    sent = hub.sent
    fetch(connect(), source, tmp_path / FILE)
    assert hub.sent == sent


def test_part_removed_meanwhile(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    source = publish(hub, CONTENT)
    hub.faults.append(Fault(rate=1e6))
    running = FileDownload(connect(), source, tmp_path / FILE, patience=0.001)
    failure: list[BaseException] = []

    def run() -> None:
        try:
            running.run()
        except FileError as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while running.done < 100_000:
        time.sleep(0.002)
    part_path(tmp_path / FILE).unlink()
    thread.join(10)
    assert "removed by another program" in str(failure[0])
    fetch(connect(), source, tmp_path / FILE)


def test_abort_while_the_server_is_silent(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    source = publish(hub, CONTENT)
    hub.faults.append(Fault(after=100_000, then="stall"))
    running = FileDownload(connect(stall_seconds=30), source, tmp_path / FILE)
    stopped = threading.Event()

    def run() -> None:
        with pytest.raises(StoppedError):
            running.run()
        stopped.set()

    threading.Thread(target=run).start()
    while running.done < 100_000:
        time.sleep(0.002)
    running.abort()
    assert stopped.wait(3)
    assert part_path(tmp_path / FILE).stat().st_size == 100_000


def test_after_a_power_cut_only_synced_bytes_count(
    hub: FakeHub, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = publish(hub, CONTENT)
    target = tmp_path / FILE
    part_path(target).write_bytes(CONTENT.read(0, 200_000) + bytes(100_000))  # the end never reached the disk
    save_journal(target, source, 200_000)
    assert kept_bytes(target, source) == 300_000
    boot = journal.psutil.boot_time()
    monkeypatch.setattr(journal.psutil, "boot_time", lambda: boot + 60)
    assert kept_bytes(target, source) == 200_000
    fetch(connect(), source, target)
    assert hub.sent == SIZE - 200_000


def test_journal_of_another_file_is_not_continued(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    source, target = publish(hub, CONTENT), tmp_path / FILE
    part_path(target).write_bytes(b"GGUF" + bytes(1000))
    save_journal(target, Source(MODEL, "older", FILE, SIZE, "0" * 64), 1004)
    assert kept_bytes(target, source) == 0
    journal_path(target).write_text('{"source": {}')  # half a journal
    assert kept_bytes(target, source) == 0
    fetch(connect(), source, target)
    assert target.read_bytes() == CONTENT.read(0, SIZE)


def test_other_file_of_that_name_is_replaced_only_when_the_new_one_is_whole(
    hub: FakeHub, connect: Connect, tmp_path: Path
) -> None:
    source, target = publish(hub, CONTENT), tmp_path / FILE
    target.write_bytes(b"GGUF the old one")
    hub.faults.extend([Fault(html=True)] * 4)
    with pytest.raises(ProtocolError):
        fetch(connect(), source, target)
    assert target.read_bytes() == b"GGUF the old one"
    fetch(connect(), source, target)
    assert target.read_bytes() == CONTENT.read(0, SIZE)


def test_changed_and_vanished_files_are_told(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    source = publish(hub, CONTENT)
    hub.repositories[MODEL].files[FILE] = Noise(SIZE, seed=2)
    with pytest.raises(ChangedError, match="has changed"):
        fetch(connect(), source, tmp_path / FILE)
    del hub.repositories[MODEL].files[FILE]
    with pytest.raises(NotFoundError, match="no longer holds"):
        fetch(connect(), source, tmp_path / FILE)


def test_file_without_a_checksum_still_has_to_be_whole(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    source = publish(hub, CONTENT)
    plain = Source(source.repository, source.revision, source.path, source.size)
    hub.faults.append(Fault(after=5000, then="end"))
    fetch(connect(), plain, tmp_path / FILE)
    assert (tmp_path / FILE).read_bytes() == CONTENT.read(0, SIZE)


def test_disk_that_is_full_only_at_the_end(
    hub: FakeHub, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, fsync = publish(hub, CONTENT), os.fsync

    def full(fd: int) -> None:
        if os.fstat(fd).st_size == SIZE:  # the model itself, not its journal
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(partfile.os, "fsync", full)
    with pytest.raises(DiskFullError):
        fetch(connect(), source, tmp_path / FILE)
    monkeypatch.setattr(partfile.os, "fsync", fsync)
    assert not (tmp_path / FILE).exists()
    assert part_path(tmp_path / FILE).stat().st_size == 0  # what the disk did not take does not count as kept
    fetch(connect(), source, tmp_path / FILE)
    assert (tmp_path / FILE).read_bytes() == CONTENT.read(0, SIZE)


def test_a_write_that_fails_behind_the_back_is_noticed(
    hub: FakeHub, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system says only once that it could not write; a later sync succeeds, and the file has a hole."""
    monkeypatch.setattr(partfile, "HAND_OVER_BYTES", 100_000)
    hub.every = lambda n: Fault(rate=2e6)
    fsync, synced = os.fsync, []

    def once(fd: int) -> None:
        if (size := os.fstat(fd).st_size) > 50_000:  # the model itself, not its journal
            synced.append(size)
        if len(synced) == 2:
            raise OSError(errno.EIO, "Input/output error")
        fsync(fd)

    source = publish(hub, CONTENT)
    download = FileDownload(connect(), source, tmp_path / FILE, patience=0.001)
    monkeypatch.setattr("engine.hub.ranged.READ_BYTES", 50_000)
    with monkeypatch.context() as patch, pytest.raises(FileError, match="cannot be written"):
        patch.setattr(partfile.os, "fsync", once)
        download.run()
    kept = part_path(tmp_path / FILE).stat().st_size
    assert 0 < kept <= synced[1]
    fetch(connect(), source, tmp_path / FILE)
    assert (tmp_path / FILE).read_bytes() == CONTENT.read(0, SIZE)


def test_volume_that_holds_no_file_of_this_size(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    """The system itself refuses, in the middle of a block, as FAT32 does at 4 GiB."""
    source = publish(hub, CONTENT)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_001, before[1]))
    try:
        with pytest.raises(FileError, match="of this size"):
            fetch(connect(), source, tmp_path / FILE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert part_path(tmp_path / FILE).stat().st_size == 300_001
    fetch(connect(), source, tmp_path / FILE)
    assert (tmp_path / FILE).read_bytes() == CONTENT.read(0, SIZE)


def test_empty_file_is_refused(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    with pytest.raises(ProtocolError, match="is empty"):
        fetch(connect(), publish(hub, Noise(0)), tmp_path / FILE)
    assert not (tmp_path / FILE).exists()


def test_identity_encoding_is_asked_for_always(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    fetch(connect(), publish(hub, CONTENT), tmp_path / FILE)
    assert {one.headers["accept-encoding"] for one in hub.requests} == {"identity"}


def test_dribbling_server_is_left(
    hub: FakeHub, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_download, "DRIBBLE_BYTES", 50_000)
    source = publish(hub, CONTENT)
    hub.faults.append(Fault(rate=2000))  # a byte now and then: never silent, never done
    begin = time.monotonic()
    fetch(connect(stall_seconds=0.2), source, tmp_path / FILE)
    assert time.monotonic() - begin < 30
    assert hub.file_requests == 2


def test_insecure_redirect_is_refused(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    source = publish(hub, CONTENT)
    hub.hub_faults.extend([Fault(status=302, headers={"Location": "file:///etc/passwd"})] * 4)
    with pytest.raises(ProtocolError, match="not safe"):
        fetch(connect(), source, tmp_path / FILE)
    hub.hub_faults.extend([Fault(status=302, headers={"Location": f"{hub.url}/x"})] * 40)
    with pytest.raises(ProtocolError, match="circle"):
        fetch(connect(), source, tmp_path / FILE)


def test_part_is_private_to_nobody_and_leaves_no_litter(hub: FakeHub, connect: Connect, tmp_path: Path) -> None:
    fetch(connect(), publish(hub, CONTENT), tmp_path / FILE)
    assert [path.name for path in (tmp_path / ".tessera").iterdir()] == [f"{FILE}.json"]


def test_speed_is_a_mean_over_the_last_seconds() -> None:
    meter = SpeedMeter()
    assert meter.update(0, now=0) == 0
    assert meter.update(1000, now=1) == 1000
    for second in range(2, 20):
        speed = meter.update(1000 + second * 500, now=second)
    assert abs(speed - 500) < 1
