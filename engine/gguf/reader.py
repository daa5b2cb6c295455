"""GGUFFile: a model on disk, one file or a split set, checked when it is opened and mapped when it is read."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

from engine.errors import FileError
from engine.gguf.errors import FileChangedError, display_name, malformed
from engine.gguf.header import Header, parse_header
from engine.gguf.metadata import Metadata
from engine.gguf.tensors import TensorInfo


class Shard:
    """One open file of a model. Its data is mapped at the first `view`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = _open_regular(path)
        try:
            status = os.fstat(self.fd)
            self.file_bytes = status.st_size
            self._stamp = (status.st_size, status.st_mtime_ns)
            self.header: Header = parse_header(self.fd, self.file_bytes, os.fspath(path))
        except BaseException:
            os.close(self.fd)
            raise
        self._view: memoryview | None = None

    def view(self) -> memoryview:
        if self._view is None:
            try:
                mapping = mmap.mmap(self.fd, self.file_bytes, access=mmap.ACCESS_READ)
            except (OSError, ValueError) as error:
                raise FileError(f"{display_name(self.path)} cannot be mapped: {error}.") from error
            self._view = memoryview(mapping)
        return self._view

    def check_unchanged(self) -> None:
        status = os.fstat(self.fd)
        if (status.st_size, status.st_mtime_ns) != self._stamp:
            raise FileChangedError(f"{display_name(self.path)} was changed by another program while in use.",
                                   remedy="Load the model again.")  # fmt: skip

    def close(self) -> None:
        self._view = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class GGUFFile:
    """A GGUF model. `open` takes any file of a split set and opens the whole set.

    Errors of `open`: FileError (missing, locked, no file), FormatError, IncompleteSplitError, UnsupportedError.
    """

    def __init__(self, shards: list[Shard]) -> None:
        self._shards = shards
        self.path: Path = shards[0].path
        self.shards: tuple[Path, ...] = tuple(shard.path for shard in shards)
        self.metadata: Metadata = shards[0].header.metadata
        self.file_bytes: int = sum(shard.file_bytes for shard in shards)
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(_all_tensors(shards))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> GGUFFile:
        return cls([Shard(Path(path))])

    @property
    def version(self) -> int:
        return self._shards[0].header.version

    @property
    def architecture(self) -> str:
        return self.metadata.string("general.architecture")

    def buffer(self, name: str) -> memoryview:
        """The tensor's bytes as they stand in the file, read-only and unread until touched. KeyError if unknown."""
        info = self.tensors[name]
        return self._shards[info.shard].view()[info.offset : info.offset + info.n_bytes]

    def check_unchanged(self) -> None:
        """FileChangedError if a file was changed since it was opened: what was read lately may be wrong."""
        for shard in self._shards:
            shard.check_unchanged()

    def close(self) -> None:
        """Closes the files. Memory that was handed out by `buffer` stays valid until it is released."""
        for shard in self._shards:
            shard.close()

    def __enter__(self) -> GGUFFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _all_tensors(shards: list[Shard]) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for number, shard in enumerate(shards):
        for name, info in shard.header.tensors.items():
            if name in tensors:
                raise malformed(
                    shard.path, f"tensor {name!r} is in {display_name(shards[tensors[name].shard].path)} too"
                )
            tensors[name] = info.in_shard(number) if number else info
    return tensors


def _open_regular(path: Path) -> int:
    """A file descriptor; FileError where there is no plain file that can be read."""
    name = display_name(path)
    try:
        fd = os.open(
            path,
            os.O_RDONLY
            | getattr(os, "O_CLOEXEC", 0)
            | getattr(os, "O_NONBLOCK", 0)
            | getattr(os, "O_BINARY", 0),
        )
    except FileNotFoundError:
        raise FileError(
            f"{name} is not there.", remedy="Check the path, or download the model again."
        ) from None
    except PermissionError:
        raise FileError(
            f"{name} may not be read: it is locked by another program, or belongs to another user.",
            remedy="Close the other program, or change the file's permissions.",
        ) from None
    except (OSError, ValueError) as error:
        raise FileError(f"{name} cannot be opened: {getattr(error, 'strerror', None) or error}.") from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileError(f"{name} is a folder or a device, not a file.", remedy="Choose a .gguf file.")
    return fd
