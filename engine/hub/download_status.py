"""How downloads stand, as the window shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from engine.errors import EngineError


class State(Enum):
    QUEUED = "Queued"
    RUNNING = "Downloading"
    PAUSED = "Paused"
    FAILED = "Failed"
    DONE = "Done"


@dataclass(frozen=True, slots=True)
class FileStatus:
    name: str
    done: int
    size: int


@dataclass(frozen=True, slots=True)
class DownloadStatus:
    """How one download stands. Bytes, bytes per second, seconds; `note` is what the owner should read, or empty."""

    id: str
    name: str
    repository: str
    folder: Path
    state: State
    note: str
    done: int
    size: int
    speed: float
    seconds_left: float | None
    files: tuple[FileStatus, ...]
    error: EngineError | None = None


@dataclass(frozen=True, slots=True)
class TotalProgress:
    """Of all unfinished downloads that are not stopped. Bytes, and bytes per second."""

    count: int
    done: int
    size: int
    speed: float


def total_progress(statuses: Sequence[DownloadStatus]) -> TotalProgress:
    active = [one for one in statuses if one.state in (State.RUNNING, State.QUEUED)]
    return TotalProgress(
        len(active), sum(one.done for one in active), sum(one.size for one in active), sum(one.speed for one in active)
    )
