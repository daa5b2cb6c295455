"""Split models: parts named NAME-00001-of-00003.gguf, each with its own header; metadata stands in the first."""

from __future__ import annotations

import os
import re
from pathlib import Path

from engine.errors import FormatError
from engine.gguf.errors import IncompleteSplitError, display_name, malformed
from engine.gguf.shard import Shard

_PART = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.gguf)", re.IGNORECASE | re.DOTALL)
KEEP_APART = "Keep the parts as separate files, or join them with `llama-gguf-split --merge`."


def split_paths(path: Path) -> tuple[Path, ...] | None:
    """All parts of the set that `path` belongs to by its name, in order; None if it is named as a single file."""
    match = _PART.fullmatch(path.name)
    if match is None or not 1 <= int(match["number"]) <= int(match["count"]):
        return None
    count = match["count"]
    return tuple(
        path.with_name(f"{match['stem']}-{number:05d}-of-{count}{match['suffix']}")
        for number in range(1, int(count) + 1)
    )


def open_shards(path: Path) -> list[Shard]:
    """Opens the file, and where it is part of a set all of them, in order."""
    shards = [Shard(path)]
    try:
        count = shards[0].header.metadata.u32("split.count", 1)
        if count <= 1:
            return shards
        paths = _named_paths(shards[0], count)
        missing = [part for part in paths if not os.path.lexists(part)]
        if missing:
            raise IncompleteSplitError(missing, [part for part in paths if part not in missing])
        own = shards[0].header.metadata.u32("split.no")
        shards = [shards[0] if number == own else _opened(shards, part) for number, part in enumerate(paths)]
        _check_set(shards, count)
    except BaseException:
        for shard in shards:
            shard.close()
        raise
    return shards


def _opened(shards: list[Shard], path: Path) -> Shard:
    """Opens one more part; it is remembered at once, so that it is closed if a later one fails."""
    shards.append(Shard(path))
    return shards[-1]


def _named_paths(shard: Shard, count: int) -> tuple[Path, ...]:
    """The set's paths from one part's name, which must agree with what its header says."""
    number = shard.header.metadata.u32("split.no")
    if shard.bytes_at(shard.header.next_file_offset, 4) == b"GGUF":
        raise malformed(shard.path, f"seems to be several of {count} parts of a split model in one file", KEEP_APART)
    paths = split_paths(shard.path)
    if paths is None or len(paths) != count or number >= count or paths[number].name != shard.path.name:
        example = f"NAME-{number + 1:05d}-of-{count:05d}.gguf"
        raise malformed(
            shard.path,
            f"is part {number + 1} of a model split into {count} files, but is not named like one ({example})",
            "Give all parts the names they had when they were downloaded.",
        )
    return paths


def _check_set(shards: list[Shard], count: int) -> None:
    for number, shard in enumerate(shards):
        metadata = shard.header.metadata
        found = (metadata.u32("split.no"), metadata.u32("split.count"))
        if found != (number, count):
            problem = f"says it is part {found[0] + 1} of {found[1]}, but its name says {number + 1} of {count}"
            raise malformed(shard.path, problem)
    total = sum(len(shard.header.tensors) for shard in shards)
    for shard in shards:
        expected = shard.header.metadata.u32("split.tensors.count", total)
        if expected != total:
            raise FormatError(
                f"{display_name(shard.path)} says that the {count} parts hold {expected} tensors; they hold {total}.",
                remedy="The parts seem to be of different models: download them again into an empty folder.",
            )
