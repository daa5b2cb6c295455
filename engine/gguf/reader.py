"""GGUFFile: a model on disk, one file or a split set, checked when it is opened and mapped when it is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

from engine.gguf.errors import display_name, malformed
from engine.gguf.metadata import Metadata
from engine.gguf.shard import Shard
from engine.gguf.split import open_shards
from engine.gguf.tensors import TensorInfo


class GGUFFile:
    """A GGUF model. `open` takes any file of a split set and opens the whole set.

    Errors of `open`: FileError (missing, locked, no file), FormatError, IncompleteSplitError, UnsupportedError.
    """

    def __init__(self, shards: list[Shard]) -> None:
        self._shards = shards
        self.path: Path = shards[0].path
        self.shards: tuple[Path, ...] = tuple(shard.path for shard in shards)
        self.metadata: Metadata = shards[0].header.metadata
        self.shard_bytes: tuple[int, ...] = tuple(shard.file_bytes for shard in shards)
        self.file_bytes: int = sum(self.shard_bytes)
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(_all_tensors(shards))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> GGUFFile:
        shards = open_shards(Path(path))
        try:
            return cls(shards)
        except BaseException:
            for shard in shards:
                shard.close()
            raise

    @property
    def version(self) -> int:
        return self._shards[0].header.version

    @property
    def header(self) -> memoryview:
        """The bytes of the first file's header, as they were read when it was opened."""
        return self.metadata.header

    @property
    def architecture(self) -> str:
        return self.metadata.string("general.architecture")

    def buffer(self, name: str) -> memoryview:
        """The tensor's bytes as they stand in the file, read-only and unread until touched. KeyError if unknown."""
        info = self.tensors[name]
        return self._shards[info.shard].view()[info.offset : info.offset + info.n_bytes]

    def data(self) -> memoryview:
        """The whole of the largest file as it is mapped, read-only: a set's first may hold no tensors."""
        return max(self._shards, key=lambda shard: shard.file_bytes).view()

    def populate_pages(self, name: str, begin: int, end: int) -> None:
        """The tensor's bytes begin … end are needed next: see `Shard.populate_pages`."""
        info = self.tensors[name]
        self._shards[info.shard].populate_pages(info.offset + begin, info.offset + end)

    def release_pages(self, name: str, begin: int, end: int) -> None:
        """The tensor's bytes begin … end have been copied elsewhere: see `Shard.release_pages`."""
        info = self.tensors[name]
        self._shards[info.shard].release_pages(info.offset + begin, info.offset + end)

    def check_unchanged(self) -> None:
        """FileChangedError if a file was changed since it was opened: what was read lately may be wrong."""
        for shard in self._shards:
            shard.check_unchanged()

    def release_header(self) -> None:
        """Gives back the headers' bytes, megabytes where there is a vocabulary: `metadata` is empty from now on."""
        for shard in self._shards:
            shard.release_header()
        self.metadata = self._shards[0].header.metadata

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
