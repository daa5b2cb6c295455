"""Timing native programs on a machine whose speed changes meanwhile, by a reference that is timed beside everything."""

from __future__ import annotations

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
_SECONDS_PER_WORK = 0.01  # and at least three runs
_USUAL_LOOKS, _REFERENCE_RUNS = 15, 3
_STEADY, _TRIES = 0.1, 3
_PATIENCE_SECONDS = 5.0  # after which nothing is tried again


@dataclass(frozen=True, slots=True)
class Work:
    """A program for one batch that holds what is asked for so many times."""

    program: _cpu.Program
    batch: _cpu.Batch
    repeats: int = 1


class Bench:
    """Times work, and a reference before and after each: the machine's speed changes while it is measured, and all
    figures are to be of one machine."""

    def __init__(self, threads: int, tier: str) -> None:
        self.threads, self.tier = threads, tier
        self.pool = _cpu.ThreadPool(threads)
        self._reference = product(tier, PACE_TYPE, PACE_TOKENS, SIDE)
        self._patient_until = time.perf_counter() + _PATIENCE_SECONDS
        self.run_reference()
        self._usual = statistics.median(self._reference_seconds(_REFERENCE_RUNS) for _ in range(_USUAL_LOOKS))

    @property
    def is_patient(self) -> bool:
        """There is time for a second look."""
        return time.perf_counter() < self._patient_until

    @property
    def pace(self) -> float:
        """MAC/s of the reference, in the state that all figures are of."""
        return _PACE_MACS / self._usual

    def seconds(self, work: Work) -> float:
        """The fastest of several runs; once more where the machine changed its speed meanwhile."""
        work.program.run(self.pool, work.batch)
        before = self._reference_seconds(_REFERENCE_RUNS)
        for _ in range(_TRIES):
            times: list[float] = []
            while len(times) < 3 or sum(times) < _SECONDS_PER_WORK:
                begin = time.perf_counter()
                work.program.run(self.pool, work.batch)
                times.append(time.perf_counter() - begin)
            after = self._reference_seconds(_REFERENCE_RUNS)
            steady, mean = abs(before - after) <= _STEADY * after, (before + after) / 2
            before = after
            if steady or not self.is_patient:
                break
        return min(times) * self._usual / mean / work.repeats

    def run_reference(self) -> None:
        self._reference.program.run(self.pool, self._reference.batch)

    def _reference_seconds(self, runs: int) -> float:
        times = []
        for _ in range(runs):
            begin = time.perf_counter()
            self.run_reference()
            times.append(time.perf_counter() - begin)
        return min(times)


def pace(threads: int, tier: str = "auto") -> float:
    """MAC/s of one certain product over the next moments, on average: a shared machine's change from one to the next.
    Cheap enough to repeat in every round, as `read_bandwidth` is."""
    bench = Bench(threads, tier)
    runs, begin = 0, time.perf_counter()
    while (seconds := time.perf_counter() - begin) < _PACE_SECONDS or not runs:
        bench.run_reference()
        runs += 1
    return _PACE_MACS * runs / seconds


def product(tier: str, quant_type: QuantType, tokens: int, rows: int, matrices: int = 1) -> Work:
    """A product with `rows` rows, with several matrices in turn where they shall come from memory."""
    repeats = max(matrices, 16 // tokens)
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
