"""How long steps took: the latest ones in full, and all of decoding as a sum."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

_KEPT = 64


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long a step took, and how long each lane worked in it."""

    tokens: int
    seconds: float
    busy: dict[str, float]


class StepTimes:
    """The latest steps, and the seconds of all decode steps since the last `clear`."""

    def __init__(self) -> None:
        self.latest: deque[StepTime] = deque(maxlen=_KEPT)
        self.decoding = 0.0

    def append(self, step: StepTime) -> None:
        self.latest.append(step)
        self.decoding += step.seconds if step.tokens == 1 else 0.0

    def clear(self) -> None:
        self.latest.clear()
        self.decoding = 0.0
