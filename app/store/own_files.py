"""Which files are the open database, so that others in their place are noticed.

SQLite goes on with what it has opened, whatever lies at the path meanwhile; in WAL mode it says nothing of it. Nor does
it notice bytes that another program writes into the open file: it would write its own pages among them.

A file whose time alone is another one (`touch`, a program that keeps folders alike and writes what is there) is still
ours, so contents are compared by their SHA-256. The descriptor that reads them stays open as long as the database:
closing any one of a file gives up all locks that this process, so SQLite, holds on it (sqlite.org/howtocorrupt.html).
"""

from __future__ import annotations

import hashlib
import os
import time
from io import FileIO
from pathlib import Path

SUFFIXES = ("", "-wal", "-shm")


class OwnFiles:
    """Ids (device and inode) of a database's files, taken while it is open and has been written to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ids = {suffix: _id(self._named(suffix)) for suffix in SUFFIXES}
        self._state = _state(path)
        self._contents: bytes | None = None  # of that state; None: not read yet, so any other state is another's
        self._file: FileIO | None = None

    def remember(self) -> None:
        """Note how the database was left, after it was written to. It is read where its bytes were changed: not by
        most writes, which go to its log, but by what moves a thousand pages from there."""
        state = _state(self._path)
        if state != self._state or self._contents is None:
            self._state, self._contents = state, self._read()

    def close(self) -> None:
        """After the connection was closed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def are_overwritten(self) -> bool:
        """Whether somebody else wrote into the database since `remember`: it lies here, but is not as it was left."""
        state = _state(self._path)
        if not self.are_here or state == self._state:
            return False
        if self._contents is None or self._read() != self._contents:
            return True
        self._state = state  # no byte is another one
        return False

    def _read(self) -> bytes | None:
        """SHA-256 of the database; None where it cannot be read."""
        try:
            if self._file is None:
                self._file = FileIO(self._path)
            self._file.seek(0)
            return hashlib.file_digest(self._file, "sha256").digest()  # type: ignore[arg-type]
        except OSError:
            return None

    def empty_log(self) -> None:
        """Leave nothing that closing the connection would write into a database that is not ours any more."""
        os.truncate(self._named("-wal"), 0)

    @property
    def are_here(self) -> bool:
        """Whether the database itself still lies where it was opened. Takes some microseconds."""
        return _id(self._path) == self._ids[""]

    def set_others_aside(self, overwritten: bool) -> Path | None:
        """Move a database that lies in our place out of the way, with its log; None where nothing does.

        A log that is ours stays: beside another database it would destroy it. OSError: not possible.
        """
        if (self.are_here and not overwritten) or not self._path.exists():
            return None
        stamp = time.strftime("%Y%m%d-%H%M%S")
        kept = self._path.with_name(f"{self._path.stem}.other-{stamp}{self._path.suffix}")
        number = 2
        while kept.exists():
            kept = kept.with_name(f"{self._path.stem}.other-{stamp}-{number}{self._path.suffix}")
            number += 1
        for suffix in ("-wal", ""):  # the database last: as long as it is here, this can be tried again
            source = self._named(suffix)
            if _id(source) not in (None, self._ids[suffix]) or (overwritten and not suffix):
                source.replace(kept.with_name(kept.name + suffix))
        return kept

    def remove_logs(self) -> None:
        for suffix in SUFFIXES[1:]:
            self._named(suffix).unlink(missing_ok=True)

    def _named(self, suffix: str) -> Path:
        return self._path.with_name(self._path.name + suffix)


def _id(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
