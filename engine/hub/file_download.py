"""One file from the hub to its place on disk: fetched in as many attempts as it takes, verified, renamed."""

from __future__ import annotations

import contextlib
import hashlib
import ssl
import threading
import time
from pathlib import Path

import httpx2

from engine.errors import FileError
from engine.gguf.errors import first_bytes
from engine.hub.connection import Connection, stoppable, translate
from engine.hub.errors import (
    HubError,
    ProtocolError,
    RateLimitedError,
    ServerError,
    StoppedError,
    UnreachableError,
)
from engine.hub.journal import Source
from engine.hub.partfile import CHUNK, PartFile
from engine.hub.ranged import LinkExpiredError, RangeRead, open_range
from engine.hub.records import read_record, write_record
from engine.hub.speed import SpeedLimit

MAX_STRIKES = 4  # answers without any use, in a row, before it is given up
LONGEST_WAIT = 60.0
DRIBBLE_BYTES = 4096  # in three times the stall time; who sends less is as good as silent
MAGIC = b"GGUF"


class FileDownload:
    """`run` fetches; the other members may be used from any thread.

    `done` bytes of the file are here, `received` bytes came over the network. `waiting` says why nothing happens
    at the moment; empty while bytes flow. `patience` scales the pauses between attempts (seconds for the first).
    """

    def __init__(
        self,
        connection: Connection,
        source: Source,
        target: Path,
        limit: SpeedLimit | None = None,
        patience: float = 1.0,
    ) -> None:
        self.source, self.target = source, target
        self.done = 0
        self.received = 0
        self.waiting = ""
        self.stop = threading.Event()
        self._connection, self._limit, self._patience = connection, limit or SpeedLimit(), patience
        self._read: RangeRead | None = None

    def abort(self) -> None:
        """Make `run` end with StoppedError as soon as possible; what is here stays."""
        self.stop.set()
        if (read := self._read) is not None:
            read.abort()

    def run(self) -> None:
        """Fetch what is missing. When it returns, the verified file is in its place.

        The network may fail as long as it likes: that is waited for. Raises what needs the owner: HubError,
        FileError (DiskFullError, VerificationError, BusyError); StoppedError after `abort`.
        """
        if self.source.size <= 0:
            raise ProtocolError(f"The hub says that {self.source.path} is empty.", remedy="Choose another file.")
        if self._already_there():
            return
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(
                f"{self.target.parent} cannot be made: {error.strerror or error}.",
                remedy="Choose another models folder.",
            ) from error
        part = PartFile(self.target, self.source)
        with contextlib.closing(part):
            self._hash_kept(part)
            part.check_space()
            while part.size < self.source.size:
                self._attempts(part)
            part.finish()
        self.done, self.waiting = self.source.size, ""

    def _already_there(self) -> bool:
        """True when the file is in its place with the right checksum, whoever put it there."""
        source, target = self.source, self.target
        if not source.sha256 or not target.is_file() or target.stat().st_size != source.size:
            return False
        record = read_record(target)
        if record is None:
            self.waiting = "Checking the file that is already here"
            record_hash = _sha256(target, self.stop)
            if record_hash == source.sha256:
                with contextlib.suppress(OSError):
                    write_record(target, record_hash, repository=source.repository, remote_path=source.path)
        else:
            record_hash = record.sha256
        self.waiting = ""
        if record_hash != source.sha256:
            return False
        self.done = source.size
        return True

    def _hash_kept(self, part: PartFile) -> None:
        self.done = part.kept
        if part.kept:
            self.waiting = "Checking what is already here"
        while part.hash_kept():
            self._check_stop()
        self.waiting = ""

    def _attempts(self, part: PartFile) -> None:
        """Fetch until the file is whole, telling failures that pass from those that do not."""
        failures = strikes = 0
        while part.size < self.source.size:
            before = part.size
            try:
                with stoppable(self.stop):
                    self._fetch(part)
                continue
            except (httpx2.HTTPError, ssl.SSLError) as cut:
                self._check_stop()
                error: Exception = translate(cut, self._connection)
            except (UnreachableError, ServerError, ProtocolError, LinkExpiredError, RateLimitedError) as known:
                error = known
            if part.size > before:
                failures = strikes = 0
            if isinstance(error, RateLimitedError):
                self._wait(error.retry_after, error.cause)
                continue
            failures += 1
            if isinstance(error, ProtocolError | LinkExpiredError):
                strikes += 1
                if strikes >= MAX_STRIKES:
                    raise error
            elif isinstance(error, UnreachableError) and error.permanent:
                raise error
            reason = error.cause if isinstance(error, HubError) else str(error)
            self._wait(min(LONGEST_WAIT, self._patience * 2 ** (failures - 1)), reason)

    def _fetch(self, part: PartFile) -> None:
        """One connection: append what it delivers."""
        with open_range(self._connection, self.source, part.size, self.source.size) as read:
            self._read = read
            try:
                self._check_stop()
                self.waiting = ""
                watch = _Dribble(3 * self._connection.settings.stall_seconds)
                head = b"" if part.size == 0 and self.source.path.lower().endswith(".gguf") else None
                for block in read.blocks():
                    self.received += len(block)
                    if head is not None:
                        block = head + block
                        if len(block) < len(MAGIC):
                            head = block
                            continue
                        _check_magic(block)
                        head = None
                    part.append(block)
                    self.done = part.size
                    self._limit.take(len(block), self.stop)
                    self._check_stop()
                    watch.received(len(block), limited=bool(self._limit.bytes_per_second))
            finally:
                self._read = None
        if part.size < read.end:
            raise ServerError("The connection ended early.")

    def _wait(self, seconds: float, reason: str) -> None:
        self.waiting = " ".join([reason, f"Next try in {seconds:.0f} s."]) if seconds >= 1 else reason
        self.stop.wait(seconds)
        self._check_stop()

    def _check_stop(self) -> None:
        if self.stop.is_set():
            raise StoppedError


class _Dribble:
    """Notices a server that sends a byte now and then, which no time-out does."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._begin, self._count = time.monotonic(), 0

    def received(self, count: int, limited: bool) -> None:
        self._count += count
        if time.monotonic() - self._begin < self._seconds:
            return
        if self._count < DRIBBLE_BYTES and not limited:
            raise ServerError("The server sends next to nothing.")
        self._begin, self._count = time.monotonic(), 0


def _check_magic(block: bytes) -> None:
    if not block.startswith(MAGIC):
        raise ProtocolError(f"What came is no GGUF file (it begins with {first_bytes(bytes(block[:4]))}).")


def _sha256(file: Path, stop: threading.Event) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(CHUNK):
            if stop.is_set():
                raise StoppedError
            digest.update(block)
    return digest.hexdigest()
