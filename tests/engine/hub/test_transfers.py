"""Downloads in a process of their own: as in this one, and whatever becomes of either process."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from engine.errors import EngineError
from engine.hub.connection import Connection
from engine.hub.download_status import State
from engine.hub.downloads import Downloads
from engine.hub.errors import (
    DiskFullError,
    GatedError,
    OfflineError,
    StoppedError,
    UnreachableError,
    VerificationError,
)
from engine.hub.file_download import FileDownload
from engine.hub.journal import Source, part_path
from engine.hub.speed import SpeedLimit
from engine.hub.transfers import MAX_DEATHS, ProcessDownload, TransferProcessError, Transfers
from tests.engine.hub.conftest import publish
from tests.support.certificates import make_certificate
from tests.support.hub_content import Noise, Repository
from tests.support.hub_faults import Fault
from tests.support.hub_server import FakeHub

SIZE = 3_000_000
TARGET = "Model-Q4_K_M.gguf"


@pytest.fixture
def transfers() -> Iterator[Transfers]:
    transfers = Transfers()
    yield transfers
    transfers.close()
    assert transfers.process_id is None


def _wait(condition: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def _make(
    transfers: Transfers, connection: Connection, source: Source, target: Path, limit: float = 0.0
) -> ProcessDownload:
    return transfers.fetch(connection, source, target, SpeedLimit(limit), 0.001)


def _run(download: ProcessDownload) -> tuple[threading.Thread, list[Exception]]:
    errors: list[Exception] = []

    def run() -> None:
        try:
            download.run()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def test_a_file_is_fetched_with_the_token_and_nobody_else_sees_it(
    transfers: Transfers, hub: FakeHub, connect: Callable[..., Connection], tmp_path: Path
) -> None:
    content = Noise(SIZE)
    source = publish(hub, content, gated=True)
    hub.every = lambda n: Fault(rate=4e6)
    download = _make(transfers, connect(hub.token), source, tmp_path / "模型" / TARGET)
    thread, errors = _run(download)
    _wait(lambda: download.done)
    assert transfers.process_id is not None
    child = psutil.Process(transfers.process_id)
    assert hub.token not in " ".join([*child.cmdline(), *child.environ().values()])
    assert child.nice() != psutil.Process().nice()
    thread.join()
    assert not errors
    assert (tmp_path / "模型" / TARGET).read_bytes() == content.read(0, SIZE)
    assert (download.done, download.received, download.waiting) == (SIZE, SIZE, "")


def test_errors_arrive_as_they_were_raised(
    transfers: Transfers, hub: FakeHub, connect: Callable[..., Connection], tmp_path: Path
) -> None:
    source = publish(hub, Noise(SIZE), gated=True)
    with pytest.raises(GatedError) as gated:
        _make(transfers, connect(), source, tmp_path / TARGET).run()
    assert gated.value.page.endswith(source.repository)
    assert gated.value.remedy
    wrong = Source(source.repository, source.revision, source.path, SIZE, "0" * 64)
    hub.repositories[source.repository].gated = False
    hub.same_host = True  # no redirect whose header names the right checksum
    with pytest.raises(VerificationError):
        _make(transfers, connect(), wrong, tmp_path / TARGET).run()
    huge = Source(source.repository, source.revision, source.path, 1 << 60, "")
    with pytest.raises(DiskFullError) as full:
        _make(transfers, connect(), huge, tmp_path / "huge.gguf").run()
    assert full.value.shortfall > 1 << 59


def test_abort_keeps_what_is_here(
    transfers: Transfers, hub: FakeHub, connect: Callable[..., Connection], tmp_path: Path
) -> None:
    source = publish(hub, Noise(SIZE))
    hub.every = lambda n: Fault(rate=3e6)
    download = _make(transfers, connect(), source, tmp_path / TARGET)
    thread, errors = _run(download)
    _wait(lambda: download.done)
    download.abort()
    thread.join()
    assert isinstance(errors[0], StoppedError)
    kept = part_path(tmp_path / TARGET).stat().st_size
    hub.every = None
    again = _make(transfers, connect(), source, tmp_path / TARGET)
    again.run()
    assert again.received == SIZE - kept


def test_a_killed_process_is_started_again_and_goes_on(
    transfers: Transfers, hub: FakeHub, connect: Callable[..., Connection], tmp_path: Path
) -> None:
    content = Noise(SIZE)
    source = publish(hub, content)
    hub.every = lambda n: Fault(rate=3e6)
    download = _make(transfers, connect(), source, tmp_path / TARGET)
    thread, errors = _run(download)
    _wait(lambda: download.done)
    first = transfers.process_id
    assert first is not None
    os.kill(first, signal.SIGKILL)
    _wait(lambda: transfers.process_id not in (None, first))
    thread.join()
    assert not errors
    assert (tmp_path / TARGET).read_bytes() == content.read(0, SIZE)


def test_a_process_that_always_dies_is_given_up(
    transfers: Transfers,
    hub: FakeHub,
    connect: Callable[..., Connection],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts = []

    def command(module: str) -> list[str]:
        starts.append(module)
        return [sys.executable, "-c", "raise SystemExit(1)"]

    monkeypatch.setattr("engine.hub.transfers.child_command", command)
    with pytest.raises(TransferProcessError):
        _make(transfers, connect(), publish(hub, Noise(SIZE)), tmp_path / TARGET).run()
    assert len(starts) == MAX_DEATHS


def test_it_ends_with_the_window(hub: FakeHub, connect: Callable[..., Connection], tmp_path: Path) -> None:
    """Kill -9 of the parent: the child lets go of the file, so that the next window can have it at once."""
    source = publish(hub, Noise(SIZE))
    hub.every = lambda n: Fault(rate=1e6)
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from engine.hub.connection import Connection, HubSettings\n"
        "from engine.hub.journal import Source\n"
        "from engine.hub.speed import SpeedLimit\n"
        "from engine.hub.transfers import Transfers\n"
        "url, *source, size, target = sys.argv[1:]\n"
        "connection = Connection(HubSettings(url, proxy='none'))\n"
        "Transfers().fetch(connection, Source(*source, int(size)), Path(target), SpeedLimit(), 0.001).run()\n"
    )
    arguments = [hub.url, source.repository, source.revision, source.path, str(SIZE), str(tmp_path / TARGET)]
    parent = subprocess.Popen([sys.executable, "-c", script, *arguments])
    part = part_path(tmp_path / TARGET)
    _wait(lambda: part.exists() and part.stat().st_size)
    (child,) = psutil.Process(parent.pid).children()
    parent.kill()
    parent.wait()
    _wait(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    hub.every = None
    kept = part.stat().st_size
    here = FileDownload(connect(), source, tmp_path / TARGET)
    here.run()
    assert kept
    assert here.received == SIZE - kept


def test_the_speed_limit_reaches_it(
    transfers: Transfers, hub: FakeHub, connect: Callable[..., Connection], tmp_path: Path
) -> None:
    source = publish(hub, Noise(SIZE))
    limit = SpeedLimit(1000.0)
    download = transfers.fetch(connect(), source, tmp_path / TARGET, limit, 0.001)
    thread, errors = _run(download)
    _wait(lambda: download.done)
    assert download.done < SIZE  # the first block, which then has to be waited for
    limit.change(0.0)
    thread.join()
    assert not errors
    assert download.done == SIZE


def test_it_takes_the_same_way_out(
    transfers: Transfers,
    hub: FakeHub,
    connect: Callable[..., Connection],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Certificates, offline mode, proxies: what the window was told holds there too."""
    certificate, key = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with FakeHub(tls=context) as secure:
        source = publish(secure, Noise(SIZE))
        with pytest.raises(UnreachableError, match="not trusted") as caught:
            _make(transfers, connect(endpoint=secure.url), source, tmp_path / TARGET).run()
        assert caught.value.permanent
        trusting = connect(endpoint=secure.url, ca_file=str(certificate))
        with pytest.raises(OfflineError):
            offline = connect(endpoint=secure.url, ca_file=str(certificate), offline=True)
            _make(transfers, offline, source, tmp_path / TARGET).run()
        assert not secure.requests
        _make(transfers, trusting, source, tmp_path / TARGET).run()
        assert (tmp_path / TARGET).stat().st_size == SIZE
    hub.same_host = True
    source = publish(hub, Noise(SIZE))
    _make(transfers, connect(endpoint="http://hub.example", proxy=hub.url), source, tmp_path / "proxied.gguf").run()
    assert hub.requests[-1].path.startswith("http://hub.example/")
    transfers.close()
    monkeypatch.setenv("HTTP_PROXY", hub.url)  # the system's own, read by the process that asks
    named = connect(endpoint="http://hub.example", proxy="")
    _make(transfers, named, source, tmp_path / "system.gguf").run()
    assert (tmp_path / "system.gguf").stat().st_size == SIZE


def test_one_that_cannot_begin_stops_no_other(
    transfers: Transfers, hub: FakeHub, connect: Callable[..., Connection], tmp_path: Path
) -> None:
    """The file of certificates is gone since the window read it."""
    certificate, _ = make_certificate(tmp_path)
    trusting = connect(ca_file=str(certificate))
    certificate.unlink()
    source = publish(hub, Noise(SIZE))
    hub.every = lambda n: Fault(rate=3e6)
    running = _make(transfers, connect(), source, tmp_path / TARGET)
    thread, errors = _run(running)
    _wait(lambda: running.done)
    process = transfers.process_id
    with pytest.raises(EngineError, match=certificate.name) as told:
        _make(transfers, trusting, source, tmp_path / "other.gguf").run()
    assert told.value.remedy
    running.abort()
    thread.join()
    assert isinstance(errors[0], StoppedError) and transfers.process_id == process


def test_the_queue_works_over_it(
    transfers: Transfers, hub: FakeHub, connect: Callable[..., Connection], tmp_path: Path
) -> None:
    contents = [Noise(SIZE, seed) for seed in range(2)]
    names = [f"Model-Q8_0-{number:05d}-of-00002.gguf" for number in (1, 2)]
    hub.add(Repository("maker/Two", dict(zip(names, contents, strict=True))))
    sources = [
        Source("maker/Two", "main", name, SIZE, content.sha256) for name, content in zip(names, contents, strict=True)
    ]
    hub.every = lambda n: Fault(rate=4e6)
    downloads = Downloads(connect, tmp_path / "queue.json", patience=0.001, fetch=transfers.fetch)
    id = downloads.add("Two", sources, tmp_path)
    _wait(lambda: downloads.snapshot()[0].done)
    downloads.pause(id)
    assert downloads.snapshot()[0].state is State.PAUSED
    downloads.resume(id)
    _wait(lambda: downloads.snapshot()[0].state is State.DONE)
    downloads.close()
    assert [(tmp_path / name).read_bytes() for name in names] == [content.read(0, SIZE) for content in contents]
