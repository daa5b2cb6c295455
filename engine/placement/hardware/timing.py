"""Timing native programs on a machine whose speed changes meanwhile, by a reference that is timed beside everything."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.gguf import QuantType
from kernels import _cpu

SIDE = 1024  # rows and columns of the product that is timed: 0.6 MB of Q4_K
PACE_TYPE, PACE_TOKENS = QuantType.Q4_K, 64  # the reference
_PACE_MACS = PACE_TOKENS * SIDE * SIDE
_PACE_SECONDS = 0.04
_SECONDS_PER_WORK = 0.01
_RUNS, _USUAL_LOOKS = 3, 15
_LEAST_TOKENS = 64  # of what is timed at once, so that it takes about as long as the reference


@dataclass(frozen=True, slots=True)
class Work:
    """A program for one batch that holds what is asked for so many times."""

    program: _cpu.Program
    batch: _cpu.Batch
    repeats: int = 1


class Bench:
    """Times work by turns with a reference, and tells the median of their ratios as seconds: the machine's speed
    changes while it is measured, and all figures are to be of one machine. Of either the fastest of as many runs
    counts; were it of more, it would be of a moment that the other does not meet. From the moment `until` (of
    time.monotonic) on, one look has to do."""

    def __init__(self, threads: int, tier: str, until: float = math.inf) -> None:
        self.threads, self.tier, self._until = threads, tier, until
        self.pool = _cpu.ThreadPool(threads)
        self._reference = product(tier, PACE_TYPE, PACE_TOKENS, SIDE)
        self._usual = statistics.median(self._fastest(self._reference) for _ in range(_USUAL_LOOKS))

    @property
    def pace(self) -> float:
        """MAC/s of the reference, in the state that all figures are of."""
        return _PACE_MACS / self._usual

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self._until

    def seconds(self, work: Work) -> float:
        """Of what the work holds, on data in cache."""
        self._run(work)
        ratios: list[float] = []
        spent, before = 0.0, self._fastest(self._reference)
        while not ratios or (spent < _SECONDS_PER_WORK and not self.is_late):
            took, after = self._fastest(work), self._fastest(self._reference)
            ratios.append(2 * took / (before + after))
            spent, before = spent + _RUNS * took, after
        return statistics.median(ratios) * self._usual / work.repeats

    def reference_seconds(self) -> float:
        """Of one run whose data are in cache, whatever ran before."""
        self._run(self._reference)
        return self._run(self._reference)

    def _fastest(self, work: Work) -> float:
        return min(self._run(work) for _ in range(_RUNS))

    def _run(self, work: Work) -> float:
        begin = time.perf_counter()
        work.program.run(self.pool, work.batch)
        return time.perf_counter() - begin


class Pace:
    """Looks at the speed of the processor: MAC/s of one certain product over all of them. A shared machine's changes
    from one moment to the next, so that a look in the midst of what is timed says more than one beside it."""

    def __init__(self, threads: int, tier: str = "auto") -> None:
        self._bench = Bench(threads, tier)
        self._looks: list[float] = []

    def look(self) -> None:
        """Takes about a millisecond."""
        self._looks.append(self._bench.reference_seconds())

    def take(self) -> float:
        """Of the looks since the last time."""
        seconds, count = sum(self._looks), len(self._looks)
        self._looks.clear()
        return _PACE_MACS * count / seconds


def pace(threads: int, tier: str = "auto") -> float:
    """The same over the next moments. Cheap enough to repeat in every round, as `read_bandwidth` is."""
    looks, begin = Pace(threads, tier), time.perf_counter()
    looks.look()
    while time.perf_counter() - begin < _PACE_SECONDS:
        looks.look()
    return looks.take()


def product(tier: str, quant_type: QuantType, tokens: int, rows: int, matrices: int = 1) -> Work:
    """A product with `rows` rows, with several matrices in turn where they shall come from memory."""
    repeats = max(matrices, _LEAST_TOKENS // tokens)
    program = _cpu.Program(tier)
    x, out = program.value(SIDE), program.value(rows)
    weights = [program.weight(int(quant_type), rows, SIDE) for _ in range(matrices)]
    for weight in weights:
        program.bind_weight(weight, np.full(quant_type.row_bytes(SIDE) * rows, 0, np.uint8))  # zeros would share a page
    for number in range(repeats):
        program.linear(x, [weights[number % matrices]], [None], [out])
    program.finish()
    program.write(x, activations(tokens, SIDE))
    return Work(program, batch_of(tokens), repeats)


def batch_of(tokens: int, depth: int = 0, block_tokens: int = 32) -> _cpu.Batch:
    """`tokens` of one sequence, the first at position `depth`; nobody asks for logits."""
    blocks = -(-(depth + tokens) // block_tokens)
    numbers = np.arange(tokens, dtype=np.int32)
    return _cpu.Batch(
        np.zeros(tokens, np.int32),
        numbers + np.int32(depth),
        np.zeros(tokens, np.int32),
        np.arange(blocks, dtype=np.int32)[None],
        np.zeros(0, np.int32),
    )


def activations(tokens: int, width: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((tokens, width), np.float32)
