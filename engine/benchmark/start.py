"""From a file to an answer: load to first token, memory held beyond the file, the pause between two tokens."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from engine.benchmark.contestant import Pause, Setup
from engine.benchmark.worker import Worker


@dataclass(frozen=True, slots=True)
class Start:
    """Medians over rounds, each in a fresh process with the file in the page cache."""

    label: str
    first_token: float
    pause: Pause


def measure_starts(
    systems: Sequence[tuple[str, Setup]], rounds: int, tokens: int, told: Callable[[str], None]
) -> list[Start]:
    """One per system, interleaved. The first round only warms the page cache."""
    seconds: list[list[float]] = [[] for _ in systems]
    pauses: list[list[Pause]] = [[] for _ in systems]
    labels = [""] * len(systems)
    for number in range(rounds + 1):
        for at, (system, setup) in enumerate(systems):
            with closing(Worker(system, setup, "answers")) as worker:
                labels[at] = worker.label
                first = worker.first_token()
                if number == 0:
                    continue
                seconds[at].append(first)
                pauses[at].append(worker.pause(tokens))
            told(f"load to first token: {labels[at]} {first * 1e3:.0f} ms")
    return [
        Start(label, statistics.median(times), _median(found))
        for label, times, found in zip(labels, seconds, pauses, strict=True)
    ]


def _median(pauses: Sequence[Pause]) -> Pause:
    return Pause(statistics.median(p.between for p in pauses), statistics.median(p.step for p in pauses))
