"""Interleaved rounds: A B A B …, each turn between two probes of the memory's read bandwidth.

Shared machines change speed within minutes, so systems are compared within a round, a turn whose two probes differ
by more than 15 % is thrown away, and medians are taken over rounds. Beside the memory's speed goes the processor's.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.benchmark.worker import Worker
from engine.placement.hardware.profile import Points

PROBE_TOLERANCE = 0.15
_TRIES = 3  # per turn, when the machine changes speed meanwhile


@dataclass(frozen=True, slots=True)
class Measure:
    """Prefill of `tokens` into an empty cache, or decode of `tokens` on top of `depth` positions."""

    kind: Literal["prefill", "decode"]
    tokens: int
    depth: int = 0

    @property
    def name(self) -> str:
        return f"prefill {self.tokens}" if self.kind == "prefill" else f"decode {self.tokens} at {self.depth}"

    def run(self, worker: Worker) -> float:
        """Tokens per second."""
        if self.kind == "prefill":
            return self.tokens / worker.prefill(self.tokens)
        worker.fill(self.depth)
        return self.tokens / worker.decode(self.tokens)


@dataclass(frozen=True, slots=True)
class Turn:
    """One system's result in one round. `bandwidth` is the mean of the two probes, bytes per second; `pace` that of the
    processor's, MAC/s by tokens, empty where nobody looked."""

    label: str
    measure: Measure
    round: int
    speed: float
    bandwidth: float
    pace: Points = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """All kept turns of one measure, and how many had to be thrown away."""

    measure: Measure
    turns: tuple[Turn, ...]
    dropped: int

    def speed(self, label: str) -> float:
        """Median tokens per second; NaN when every turn was thrown away."""
        speeds = [turn.speed for turn in self.turns if turn.label == label]
        return statistics.median(speeds) if speeds else float("nan")

    def ratio(self, ours: str, theirs: str) -> float:
        """Median over rounds of ours : theirs, only rounds in which both count."""
        by_round: dict[int, dict[str, float]] = {}
        for turn in self.turns:
            by_round.setdefault(turn.round, {})[turn.label] = turn.speed
        ratios = [found[ours] / found[theirs] for found in by_round.values() if ours in found and theirs in found]
        return statistics.median(ratios) if ratios else float("nan")

    def roofline_share(self, label: str, bytes_per_token: float) -> float:
        """Median over turns of speed × bytes per token / the bandwidth probed in that very turn."""
        shares = [turn.speed * bytes_per_token / turn.bandwidth for turn in self.turns if turn.label == label]
        return statistics.median(shares) if shares else float("nan")

    def bandwidths(self) -> list[float]:
        return [turn.bandwidth for turn in self.turns]


_TRIAL_TOKENS = {"prefill": 128, "decode": 8}  # enough to tell variants apart, few enough to try them all
_TRIAL_DEPTH = 256


def trial(measure: Measure) -> Measure:
    """A short form of `measure`, by which a system's variants are compared: less deep, with fewer tokens."""
    tokens, depth = min(measure.tokens, _TRIAL_TOKENS[measure.kind]), min(measure.depth, _TRIAL_DEPTH)
    return Measure(measure.kind, tokens, depth)


def best_variant(workers: Sequence[Worker], measure: Measure) -> Worker:
    """The system's fastest variant at this measure, by the better of two runs each."""
    if len(workers) == 1:
        return workers[0]
    speeds = {id(worker): max(measure.run(worker) for _ in range(2)) for worker in workers}
    return max(workers, key=lambda worker: speeds[id(worker)])


def best_threads(worker: Worker, measure: Measure, counts: Sequence[int]) -> int:
    """The fastest of `counts` threads for this worker at this measure, by the better of two runs each."""
    if len(counts) == 1:
        return counts[0]
    speeds = {}
    for count in counts:
        worker.use_threads(count)
        speeds[count] = max(measure.run(worker) for _ in range(2))
    return max(counts, key=speeds.__getitem__)


def compare(
    workers: Sequence[Worker],
    measure: Measure,
    rounds: int,
    probe: Callable[[], float],
    progress: Callable[[Turn], None] = lambda turn: None,
    patience: float = math.inf,
    pace: Callable[[], Points] = lambda: (),
) -> Comparison:
    """Runs `rounds` interleaved rounds; the order within a round alternates.

    After `patience` seconds no turn is repeated, and no round begins if there were two already.
    """
    turns: list[Turn] = []
    dropped = 0
    for worker in workers:  # touches pages, grows scratch, fills the cache; a long prompt's beginning does as well
        (trial(measure) if measure.kind == "prefill" else measure).run(worker)
    end = time.perf_counter() + patience
    for number in range(rounds):
        if number >= 2 and time.perf_counter() > end:
            break
        for worker in _alternate(workers, number):
            for attempt in range(_TRIES):
                if attempt and time.perf_counter() > end:
                    break
                before, pace_before = probe(), pace()
                speed = measure.run(worker)
                pace_after, after = pace(), probe()
                if abs(before - after) <= PROBE_TOLERANCE * max(before, after):
                    turn = Turn(
                        worker.label, measure, number, speed, (before + after) / 2, _mean(pace_before, pace_after)
                    )
                    turns.append(turn)
                    progress(turn)
                    break
                dropped += 1
    return Comparison(measure, tuple(turns), dropped)


def _mean(before: Points, after: Points) -> Points:
    return tuple((tokens, (a + b) / 2) for (tokens, a), (_, b) in zip(before, after, strict=True))


def _alternate(workers: Sequence[Worker], number: int) -> Iterable[Worker]:
    return workers if number % 2 == 0 else reversed(workers)
