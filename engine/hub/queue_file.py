"""The queue on disk. The first window that opens it owns it; a second one keeps its queue in memory.

(Files themselves are guarded one by one; this only keeps two windows from overwriting each other's list.)
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import filelock

from engine.hub.journal import Source
from engine.hub.records import write_json

_FORBIDDEN = re.compile(r'[<>:"|?*\x00-\x1f]')


@dataclass(frozen=True, slots=True)
class Wanted:
    """A model to fetch: its files, in order, go into `folder` under their own paths."""

    id: str
    name: str
    folder: Path
    sources: tuple[Source, ...]

    def targets(self) -> tuple[Path, ...]:
        return tuple(self.folder / local_path(source.path) for source in self.sources)

    def items(self) -> Iterator[tuple[Source, Path]]:
        return zip(self.sources, self.targets(), strict=True)


def is_complete(target: Path, source: Source) -> bool:
    """True when the file is in its place at its size. (Its checksum was compared before it got there.)"""
    try:
        return target.stat().st_size == source.size
    except OSError:
        return False


def local_path(path: str) -> Path:
    """Where a file of a repository goes, below the repository's folder: its own path, made fit for every file
    system. Nothing leads out of the folder."""
    parts = [_FORBIDDEN.sub("_", part).rstrip(". ") for part in re.split(r"[/\\]", path)]
    return Path(*([part for part in parts if part] or ["model.gguf"]))


class QueueFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = filelock.FileLock(path.with_suffix(".lock"), timeout=0, thread_local=False)
        self._mine = False
        with contextlib.suppress(OSError, filelock.Timeout):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            self._mine = True

    def read(self) -> list[Wanted]:
        if not self._mine:
            return []
        try:
            entries = json.loads(self._path.read_text("utf-8"))
            return [
                Wanted(
                    str(entry["id"]),
                    str(entry["name"]),
                    Path(entry["folder"]),
                    tuple(Source(**source) for source in entry["sources"]),
                )
                for entry in entries
            ]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return []

    def write(self, wanted: Sequence[Wanted]) -> None:
        if not self._mine:
            return
        with contextlib.suppress(OSError):  # a full disk must not stop the download that could be finished
            write_json(self._path, [asdict(one) | {"folder": str(one.folder)} for one in wanted], durable=False)

    def close(self) -> None:
        if self._mine:
            self._mine = False
            self._lock.release()
