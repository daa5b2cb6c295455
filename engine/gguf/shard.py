"""One file of a model: opened, its header checked, its data mapped when first read.

The header is read into memory. The data is mapped, because a model may be larger than memory; should the file be cut
off or its disk fail while it is mapped, the guarded mapping (kernels) turns the unreadable pages into zeros instead of
ending the process, and `check_unchanged` says so. Whoever computed from the data asks it before using the results.
"""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import replace
from pathlib import Path

from engine.errors import FileError
from engine.gguf.errors import FileChangedError, display_name, full_name
from engine.gguf.header import Header, parse_header
from engine.gguf.metadata import Metadata
from kernels import _cpu


class Shard:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = _open_regular(path)
        try:
            status = os.fstat(self._fd)
            self.file_bytes = status.st_size
            self._stamp = (status.st_size, status.st_mtime_ns)
            self.header: Header = parse_header(self._fd, self.file_bytes, os.fspath(path))
        except BaseException:
            self.close()
            raise
        self._mapping: mmap.mmap | None = None
        self._region: _cpu.GuardedRegion | None = None
        self._view: memoryview | None = None

    def view(self) -> memoryview:
        """The whole file, read-only. It stays valid after `close` as long as someone holds it or a part of it."""
        if self._view is None:
            if self._fd < 0:
                raise ValueError(f"{display_name(self.path)} is closed")
            self.check_unchanged()
            try:
                mapping = mmap.mmap(self._fd, self.file_bytes, access=mmap.ACCESS_READ)
            except (OSError, ValueError) as error:
                raise FileError(f"{display_name(self.path)} cannot be mapped into memory: {error}.") from error
            self._mapping = mapping
            self._region = _cpu.GuardedRegion(mapping)
            self._view = self._region.view().data
        return self._view

    def populate_pages(self, begin: int, end: int) -> None:
        """These bytes are needed next: maps their pages at once, and reads what is not in the system's cache."""
        self.view()
        assert self._region is not None
        self._region.populate(begin, end - begin)

    def release_pages(self, begin: int, end: int) -> None:
        """These bytes are not needed for now: they stop counting as this process's memory, and the system may take the
        pages for something else. Whoever reads them again gets them from its page cache, or from the disk."""
        first = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
        size = end // mmap.PAGESIZE * mmap.PAGESIZE - first
        if self._mapping is not None and size > 0 and hasattr(self._mapping, "madvise"):  # Windows has no such call
            self._mapping.madvise(mmap.MADV_DONTNEED, first, size)

    def release_header(self) -> None:
        """Gives back the header's bytes: its metadata is empty from now on."""
        self.header = replace(self.header, metadata=Metadata(os.fspath(self.path), memoryview(b""), {}))

    def bytes_at(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes from `offset`, read and not mapped."""
        os.lseek(self._fd, offset, os.SEEK_SET)
        return os.read(self._fd, count)

    def check_unchanged(self) -> None:
        """FileChangedError if the file is not what it was when it was opened. Takes about a microsecond."""
        status = os.fstat(self._fd)
        lost = self._region is not None and self._region.lost
        if not lost and (status.st_size, status.st_mtime_ns) == self._stamp:
            return
        name = display_name(self.path)
        if status.st_size < self.file_bytes:
            cause = f"{name} was cut from {self.file_bytes} to {status.st_size} bytes by another program while in use."
        elif lost:
            cause = f"{name} could not be read while in use; its disk may be failing or disconnected."
        else:
            cause = f"{name} was changed by another program while in use."
        raise FileChangedError(
            cause,
            done="What was computed from it was thrown away.",
            remedy="Load the model again; if that fails, download the file again.",
        )

    def close(self) -> None:
        self._mapping = self._region = self._view = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()


def _open_regular(path: Path) -> int:
    """A file descriptor; FileError where there is no plain file that can be read."""
    name = display_name(path)
    flags = os.O_RDONLY
    for wanted in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"):  # O_NONBLOCK: a pipe must not make us wait
        flags |= getattr(os, wanted, 0)
    try:
        fd = os.open(path, flags)
    except FileNotFoundError:
        raise FileError(
            f"{full_name(path)} is not there.", remedy="Check the path, or download the model again."
        ) from None
    except PermissionError:
        if path.is_dir():  # Windows
            raise _not_a_file(name) from None
        raise FileError(
            f"{name} may not be read: it is locked by another program, or belongs to another user.",
            remedy="Close the other program, or change the file's permissions.",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{name} cannot be opened: {reason}.") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _not_a_file(name)
    return fd


def _not_a_file(name: str) -> FileError:
    return FileError(f"{name} is a folder or a device, not a file.", remedy="Choose a .gguf file.")
