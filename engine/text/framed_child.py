"""A process of ours that answers every frame with one frame, and is killed when it takes too long.

A frame is a length (uint32, little-endian) and that many bytes.
"""

from __future__ import annotations

import contextlib
import struct
import subprocess
import threading
from typing import IO

from engine.child_process import child_command


class FramedChild:
    """The parent's side. One frame at a time; the process is started when it is first needed, and after each death."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._command = child_command(module, *arguments)
        self._process: subprocess.Popen[bytes] | None = None
        self.took_too_long = False  # at the last exchange, so that it was killed

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> subprocess.Popen[bytes]:
        """Begin starting the process, without waiting for it."""
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        return self._process

    def exchange(self, request: bytes, max_seconds: float) -> bytes | None:
        """The reply; None when the process died, or took longer and was killed."""
        process = self.start()
        self.took_too_long = False

        def kill() -> None:
            self.took_too_long = True
            process.kill()

        watchdog = threading.Timer(max_seconds, kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            assert process.stdin is not None and process.stdout is not None
            write_frame(process.stdin, request)
            reply = read_frame(process.stdout)
        except OSError:
            reply = None
        finally:
            watchdog.cancel()
        if reply is None:
            self.end()
        return reply

    def end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        process.wait()


def read_frame(stream: IO[bytes]) -> bytes | None:
    """None where the stream ends."""
    header = stream.read(4)
    if len(header) < 4:
        return None
    (length,) = struct.unpack("<I", header)
    data = stream.read(length)
    return data if len(data) == length else None


def write_frame(stream: IO[bytes], data: bytes) -> None:
    stream.write(struct.pack("<I", len(data)) + data)
    stream.flush()
