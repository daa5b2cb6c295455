"""`python -m engine.hub.transfer_child`: fetches files for the window, in a process of its own.

A download holds Python's interpreter lock thousands of times a second, and at a low priority it is put aside while it
holds it; in the window's process each of its frames would wait for that. Here the whole process steps back instead.

Orders come in on standard input and reports go out on standard output, as frames of JSON (transfers.py is the other
side). The token comes in an order: no other program sees it. When the input ends the window is gone, and so is this.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import psutil

from engine.hub.connection import Connection, HubSettings
from engine.hub.file_download import FileDownload
from engine.hub.journal import Source
from engine.hub.speed import SpeedLimit
from engine.text.framed_child import read_frame, write_frame

REPORT_SECONDS = 0.1


class _Child:
    def __init__(self) -> None:
        self._limit = SpeedLimit()
        self._running: dict[int, FileDownload] = {}
        self._reported: dict[int, tuple[int, int, str]] = {}
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._sink, sys.stdout = sys.stdout.buffer, sys.stderr  # what a library prints is no report

    def run(self) -> None:
        threading.Thread(target=self._report, name="report", daemon=True).start()
        while (frame := read_frame(sys.stdin.buffer)) is not None:
            order = json.loads(frame)
            match order["order"]:
                case "fetch":
                    try:
                        self._begin(order)
                    except Exception as error:  # the other downloads go on, and orders are still read
                        self._running.pop(order["id"], None)
                        self._send({"id": order["id"], "failure": _told(error)})
                case "abort":
                    if (transfer := self._running.get(order["id"])) is not None:
                        transfer.abort()
                case "limit":
                    self._limit.change(order["bytes_per_second"])
        self._end.set()
        for transfer in list(self._running.values()):
            transfer.abort()  # its thread lets go of the file, and the process ends with the last of them

    def _begin(self, order: dict[str, Any]) -> None:
        connection = _connection(HubSettings(**order["settings"]), order["token"])
        source, target = Source(**order["source"]), Path(os.fsdecode(bytes.fromhex(order["target"])))
        transfer = FileDownload(connection, source, target, self._limit, order["patience"])
        self._running[order["id"]] = transfer
        threading.Thread(target=self._fetch, args=(order["id"], transfer), name="download").start()

    def _fetch(self, id: int, transfer: FileDownload) -> None:
        failure: dict[str, object] | None = None
        try:
            transfer.run()
        except Exception as error:
            failure = _told(error)
        with self._lock:
            del self._running[id]
            self._reported.pop(id, None)
        self._send({"id": id, "done": transfer.done, "received": transfer.received, "waiting": ""})
        self._send({"id": id, "failure": failure})

    def _report(self) -> None:
        while not self._end.wait(REPORT_SECONDS):
            with self._lock:
                running = list(self._running.items())
            for id, transfer in running:
                state = (transfer.done, transfer.received, transfer.waiting)
                if self._reported.get(id) != state:
                    self._reported[id] = state
                    done, received, waiting = state
                    self._send({"id": id, "done": done, "received": received, "waiting": waiting})

    def _send(self, report: dict[str, object]) -> None:
        with self._lock, contextlib.suppress(OSError):  # the window may be gone
            write_frame(self._sink, json.dumps(report, default=str).encode())


def _told(error: Exception) -> dict[str, object]:
    return {"kind": type(error).__name__, "words": str(error), "values": vars(error)}


@functools.lru_cache(maxsize=4)
def _connection(settings: HubSettings, token: str | None) -> Connection:
    return Connection(settings, token)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the window's to answer
    psutil.Process().nice(psutil.BELOW_NORMAL_PRIORITY_CLASS if sys.platform == "win32" else 10)
    _Child().run()


if __name__ == "__main__":
    main()
