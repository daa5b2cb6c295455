"""Downloads of single files in a process of their own (transfer_child.py), so that the window's frames come in time."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.child_process import child_command
from engine.errors import EngineError
from engine.hub.connection import Connection
from engine.hub.errors import ServerError, StoppedError
from engine.hub.journal import Source
from engine.hub.speed import SpeedLimit
from engine.text.framed_child import read_frame, write_frame

LOOK_SECONDS = 0.2
MAX_DEATHS = 3  # of the process during one file; it is started again meanwhile, and goes on where it was
CLOSE_SECONDS = 3.0


class ProcessDownload:
    """FileDownload's interface over a download that another process does."""

    def __init__(
        self,
        transfers: Transfers,
        connection: Connection,
        source: Source,
        target: Path,
        limit: SpeedLimit,
        patience: float,
    ) -> None:
        self.source, self.target = source, target
        self.done = self.received = 0
        self.waiting = ""
        self.stop = threading.Event()
        self.ended = threading.Event()
        self.failure: Exception | None = None
        self._transfers, self._connection = transfers, connection
        self.limit, self._patience = limit, patience

    def order(self) -> dict[str, Any]:
        return {
            "settings": asdict(self._connection.settings),
            "token": self._connection.token,
            "source": asdict(self.source),
            "target": os.fsencode(self.target).hex(),
            "patience": self._patience,
        }

    def abort(self) -> None:
        self.stop.set()
        self._transfers.abort(self)

    def run(self) -> None:
        for death in range(MAX_DEATHS):
            self.failure = None
            self.ended.clear()
            if self.stop.is_set():
                raise StoppedError
            self._transfers.begin(self)
            while not self.ended.wait(LOOK_SECONDS):
                self._transfers.limit(self.limit.bytes_per_second)
            if not isinstance(self.failure, TransferProcessError) or death + 1 == MAX_DEATHS:
                break
        if self.failure is not None:
            raise self.failure


class TransferProcessError(ServerError):
    """The process that downloads has ended without having been told to."""

    def __init__(self) -> None:
        super().__init__(
            "The process that downloads has ended.", done="What is already here stays.", remedy="Resume the download."
        )


class Transfers:
    """The process as its parent sees it: started when a file is first wanted, and again after each death.

    `fetch` stands for FileDownload's constructor.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._running: dict[int, tuple[subprocess.Popen[bytes], ProcessDownload]] = {}
        self._next = 0
        self._rate = 0.0  # the limit that the process knows

    def fetch(
        self, connection: Connection, source: Source, target: Path, limit: SpeedLimit, patience: float
    ) -> ProcessDownload:
        return ProcessDownload(self, connection, source, target, limit, patience)

    @property
    def process_id(self) -> int | None:
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def begin(self, download: ProcessDownload) -> None:
        with self._lock:
            process = self._started()
            self._send_limit(download.limit.bytes_per_second)
            self._next += 1
            self._running[self._next] = process, download
            self._send({"order": "fetch", "id": self._next, **download.order()})
            if download.stop.is_set():  # meanwhile, when there was nothing to abort yet
                self._send({"order": "abort", "id": self._next})

    def abort(self, download: ProcessDownload) -> None:
        with self._lock:
            for id, (_, one) in self._running.items():
                if one is download:
                    self._send({"order": "abort", "id": id})

    def limit(self, bytes_per_second: float) -> None:
        with self._lock:
            self._send_limit(bytes_per_second)

    def close(self) -> None:
        """End the process; what it was fetching stays as it is."""
        with self._lock:
            process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                child_command("engine.hub.transfer_child"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._rate = 0.0
            threading.Thread(target=self._read, args=(self._process,), name="transfers", daemon=True).start()
        return self._process

    def _send_limit(self, bytes_per_second: float) -> None:
        if bytes_per_second != self._rate:
            self._rate = bytes_per_second
            self._send({"order": "limit", "bytes_per_second": bytes_per_second})

    def _send(self, order: dict[str, Any]) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # a dead process is noticed by its reader
                write_frame(process.stdin, json.dumps(order).encode())

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        with process.stdout as stream:
            try:
                while (frame := read_frame(stream)) is not None:
                    self._take(json.loads(frame))
            except ValueError:
                process.kill()  # what speaks there is not our child any more
        process.wait()
        with contextlib.suppress(OSError):
            process.stdin.close()
        with self._lock:
            left = {id: one for id, (its_process, one) in self._running.items() if its_process is process}
            for id in left:
                del self._running[id]
        for download in left.values():
            download.failure = TransferProcessError()
            download.ended.set()

    def _take(self, report: dict[str, Any]) -> None:
        with self._lock:
            if report["id"] not in self._running:
                return
            _, download = self._running[report["id"]]
            if "failure" in report:
                del self._running[report["id"]]
        if "failure" not in report:
            download.done, download.received, download.waiting = report["done"], report["received"], report["waiting"]
        else:
            download.failure = _error(report["failure"])
            download.ended.set()


def _error(failure: dict[str, Any] | None) -> Exception | None:
    """The error as it was raised in the child."""
    if failure is None:
        return None
    if failure["kind"] == StoppedError.__name__:
        return StoppedError()
    kind = next((one for one in _kinds(EngineError) if one.__name__ == failure["kind"]), None)
    if kind is None:
        return RuntimeError(failure["words"])
    error = kind.__new__(kind)
    Exception.__init__(error, failure["words"])
    vars(error).update(failure["values"])
    return error


def _kinds(base: type[EngineError]) -> Iterator[type[EngineError]]:
    yield base
    for kind in base.__subclasses__():
        yield from _kinds(kind)
