"""Download speed on loopback, with hashing, against curl on the same server: python -m tests.bench.download [MB]

Runs alternate and medians are compared, so that other work on the machine weighs on both alike.
"""

from __future__ import annotations

import contextlib
import http.server
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from engine.hub.connection import Connection, HubSettings
from engine.hub.file_download import FileDownload
from engine.hub.journal import Source
from tests.support.hub_content import Noise

ROUNDS = 5


class _Handler(http.server.BaseHTTPRequestHandler):
    """Sends one file with sendfile: the server must not be what is measured."""

    protocol_version = "HTTP/1.1"
    file: Path

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        size = self.file.stat().st_size
        ranged = "Range" in self.headers
        self.send_response(206 if ranged else 200)
        self.send_header("Content-Length", str(size))
        self.send_header("Content-Type", "application/octet-stream")
        if ranged:
            self.send_header("Content-Range", f"bytes 0-{size - 1}/{size}")
        self.end_headers()
        self.wfile.flush()
        with self.file.open("rb") as stream, contextlib.suppress(OSError):
            sent = 0
            while sent < size:
                sent += os.sendfile(self.connection.fileno(), stream.fileno(), sent, size - sent)


def ours(url: str, source: Source, folder: Path) -> float:
    connection = Connection(HubSettings(url, proxy="none"))
    begin = time.perf_counter()
    FileDownload(connection, source, folder / "ours.gguf").run()
    seconds = time.perf_counter() - begin
    connection.close()
    (folder / "ours.gguf").unlink()
    shutil.rmtree(folder / ".tessera")
    return seconds


def curl(url: str, source: Source, folder: Path) -> float:
    command = ["curl", "-s", "--noproxy", "*", "-o", str(folder / "curl.gguf"), f"{url}/{source.path}"]
    begin = time.perf_counter()
    subprocess.run(command, check=True)
    seconds = time.perf_counter() - begin
    (folder / "curl.gguf").unlink()
    return seconds


def main() -> None:
    size = int(sys.argv[1] if len(sys.argv) > 1 else 400) * 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = Noise(size)
        with (folder / "served.gguf").open("wb") as stream:
            stream.writelines(content.blocks())
        _Handler.file = folder / "served.gguf"
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        url = f"http://127.0.0.1:{server.server_address[1]}"
        if (child := os.fork()) == 0:  # a process of its own, as curl has: no interpreter lock is shared
            server.serve_forever()
        source = Source("maker/Model", "main", "served.gguf", size, content.sha256)
        times: dict[str, list[float]] = {"ours": [], "curl": []}
        for _ in range(ROUNDS):
            times["curl"].append(curl(url, source, folder))
            times["ours"].append(ours(url, source, folder))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    for name, seconds in times.items():
        print(f"{name:5}{size / statistics.median(seconds) / 1e6:8.0f} MB/s  (median of {ROUNDS})")
    print(f"ours / curl: {statistics.median(times['curl']) / statistics.median(times['ours']):.2f}")


if __name__ == "__main__":
    main()
