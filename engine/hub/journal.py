"""The journal of a download: which file a `.part` is the beginning of, and how much of it may be trusted.

Bytes handed to the operating system survive the end of the process, kill -9 included, but not a power cut; bytes
that were synced survive both. So within one boot the `.part` counts at its full length, and after a reboot only
as far as the journal says.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from engine.hub.records import FOLDER, beside, write_json

CLOCK_TOLERANCE = 5.0


@dataclass(frozen=True, slots=True)
class Source:
    """A file on the hub at one commit. `size` in bytes; `sha256` is empty where the hub does not give one.

    Without a revision it lies on a plain file server, in the folder `repository`.
    """

    repository: str
    revision: str
    path: str
    size: int
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Journal:
    source: Source
    synced: int  # bytes that survive a power cut
    boot: float  # when this machine was started, seconds since 1970


def part_path(target: Path) -> Path:
    return beside(target, ".part", target.parent)


def journal_path(target: Path) -> Path:
    return beside(target, ".part.json", target.parent / FOLDER)


def lock_path(target: Path) -> Path:
    return beside(target, ".lock", target.parent / FOLDER)


def save_journal(target: Path, source: Source, synced: int) -> None:
    write_json(journal_path(target), asdict(Journal(source, synced, psutil.boot_time())))


def read_journal(target: Path) -> Journal | None:
    try:
        values = json.loads(journal_path(target).read_text("utf-8"))
        return Journal(Source(**values["source"]), int(values["synced"]), float(values["boot"]))
    except (OSError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None


def kept_bytes(target: Path, source: Source) -> int:
    """How many bytes of `source` are on disk already and need not be fetched again."""
    journal = read_journal(target)
    if journal is None or not same_content(journal.source, source):
        return 0
    try:
        length = part_path(target).stat().st_size
    except OSError:
        return 0
    same_boot = abs(psutil.boot_time() - journal.boot) < CLOCK_TOLERANCE
    return min(length if same_boot else min(length, journal.synced), source.size)


def same_content(one: Source, other: Source) -> bool:
    """True when the bytes of one are bytes of the other: by checksum, or else by commit."""
    if one.size != other.size:
        return False
    if one.sha256 and other.sha256:
        return one.sha256 == other.sha256
    return (one.repository, one.revision, one.path) == (other.repository, other.revision, other.path)


def discard(target: Path) -> None:
    """Remove what a cancelled download left."""
    for path in (part_path(target), journal_path(target)):
        with contextlib.suppress(OSError):
            path.unlink()
