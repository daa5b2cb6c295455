"""Timing native programs on a machine whose speed changes meanwhile, by a reference that is timed beside everything."""

from __future__ import annotations

import math
import mmap
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.gguf import GGUFFile, QuantType
from engine.placement.hardware.profile import FEWEST_IN_PANELS, Points
from kernels import _cpu

SIDE = 1024  # rows and columns of the products that are timed: 0.6 MB of Q4_K
PACE_TYPE = QuantType.Q4_K
# Of the references, by tokens: products straight from rows, which wait for weights, and those of unpacked panels, which
# keep the multipliers busy. Where others share the core, the latter lose about twice as much.
PACE_TOKENS = (1, 16)
_PACE_SECONDS = 0.06
# Times that a reference runs before a look in the midst of other work: after that has gone through memory, it is some
# ten products until one takes as long as any later one (467, 293, 257, 244, 265, 244 … 195 µs).
_SETTLING = 3
_SECONDS_PER_WORK = 0.03
_USUAL_LOOKS = 25
_REFERENCE_TOKENS, _LEAST_TOKENS = 64, 16  # of what is timed at once, in panels or from rows: about 1 ms
# Several times what the caches hold: they keep a part of what is gone through in turn.
FAR_BYTES = 128 << 20
_LEAST_FAR_BYTES = 64 << 20  # read at once to learn the memory's speed, or to drive all else out of the caches
_BLOCK = bytes(1 << 20)


@dataclass(frozen=True, slots=True)
class Work:
    """A program of `repeats` operations for one batch, each of which is what is asked for."""

    program: _cpu.Program
    batch: _cpu.Batch
    repeats: int = 1
    tokens: int = 1

    def run(self, pool: _cpu.ThreadPool, first: int = 0, last: int = -1) -> float:
        """Seconds."""
        begin = time.perf_counter()
        self.program.run(pool, self.batch, first, last)
        return time.perf_counter() - begin

    def warm_seconds(self, pool: _cpu.ThreadPool) -> float:
        """Of a run behind one operation: the first one takes up to a fifth longer, whatever ran before."""
        self.run(pool, 0, 1)
        return self.run(pool)


class Reference:
    """The products that everything else is timed beside, on data in cache."""

    def __init__(self, tier: str, tokens: int) -> None:
        self._work = product(tier, PACE_TYPE, tokens, SIDE)
        self.macs = self._work.repeats * tokens * SIDE * SIDE

    def settle(self, pool: _cpu.ThreadPool) -> None:
        """After other work."""
        for _ in range(_SETTLING):
            self._work.run(pool)

    def seconds(self, pool: _cpu.ThreadPool) -> float:
        """Of one run, its data in cache."""
        return self._work.warm_seconds(pool)


class Bench:
    """Times work by turns with a reference, and tells the median of their ratios as seconds: the machine's speed
    changes while it is measured, and all figures are to be of one machine. From the moment `until` (of time.monotonic)
    on, one look has to do. `pace`: of that machine, where it was measured before."""

    def __init__(self, threads: int, tier: str, until: float = math.inf, pace: Points = ()) -> None:
        self.threads, self.tier, self._until = threads, tier, until
        self.pool = _cpu.ThreadPool(threads)
        self.memory = mapped_pages(FAR_BYTES)
        self._reader = _cpu.MemoryReader(self.pool, self.memory[:_LEAST_FAR_BYTES])
        self._references = {tokens: Reference(tier, tokens) for tokens in PACE_TOKENS}
        self._usual = {tokens: self._references[tokens].macs / rate for tokens, rate in pace or self._looks()}

    def _looks(self) -> Points:
        """The pace of now, once the references have been looked at by turns for a while."""
        looks: dict[int, list[float]] = {tokens: [] for tokens in PACE_TOKENS}
        for _ in range(_USUAL_LOOKS):
            for tokens, reference in self._references.items():
                looks[tokens].append(reference.seconds(self.pool))
        return tuple(
            (tokens, self._references[tokens].macs / statistics.median(looks[tokens])) for tokens in PACE_TOKENS
        )

    @property
    def pace(self) -> Points:
        """MAC/s of the references, in the state that all figures are of."""
        return tuple((tokens, self._references[tokens].macs / usual) for tokens, usual in self._usual.items())

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self._until

    def seconds(self, work: Work) -> float:
        """Of one operation of the work, on data in cache."""
        kind = max(tokens for tokens in PACE_TOKENS if tokens == 1 or work.tokens >= FEWEST_IN_PANELS)
        reference = self._references[kind]
        work.run(self.pool)
        ratios: list[float] = []
        begin, before = time.monotonic(), reference.seconds(self.pool)
        while not ratios or (time.monotonic() - begin < _SECONDS_PER_WORK and not self.is_late):
            took, after = work.warm_seconds(self.pool), reference.seconds(self.pool)
            ratios.append(2 * took / (before + after))
            before = after
        return statistics.median(ratios) * self._usual[kind] / work.repeats

    def far(
        self, far: Work, near: Work | None, figure: Callable[[float, float, float], float], seconds: float
    ) -> float:
        """A figure made of the seconds of an operation of `far`, whose data is in memory, of one of `near`, on data in
        cache, and of the memory's bytes per second: the median of moments in each of which all are looked at."""
        begin, at = time.monotonic(), 0
        some = min(near.repeats if near is not None else far.repeats, far.repeats - 1)
        found: list[float] = []
        rate = self._reader.read()
        while not found or (time.monotonic() - begin < seconds and not self.is_late):
            computing = near.warm_seconds(self.pool) / near.repeats if near is not None else 0.0
            far.run(self.pool, at, at + 1)  # so that no thread sleeps when the next begins
            reading = far.run(self.pool, at + 1, at + 1 + some) / some
            at = at + 1 + some if at + 2 * (1 + some) <= far.repeats else 0
            before, rate = rate, self._reader.read()
            found.append(figure(reading, computing, (before + rate) / 2))
        return statistics.median(found)

    def in_place(self, timed: Callable[[], float], seconds: float) -> Iterator[tuple[float, Points, float]]:
        """What `timed` tells behind a read that drives all else out of the caches, as a token's weights do, with the
        pace and the memory's bytes per second of that moment; at least once."""
        begin, pace = time.monotonic(), self._pace_now()
        looked = False
        while not looked or (time.monotonic() - begin < seconds and not self.is_late):
            before = self._reader.read()
            told = timed()
            rate = (before + self._reader.read()) / 2
            pace_before, pace = pace, self._pace_now()
            yield told, tuple((n, (a + b) / 2) for (n, a), (_, b) in zip(pace_before, pace, strict=True)), rate
            looked = True

    def _pace_now(self) -> Points:
        found = []
        for tokens, reference in self._references.items():
            reference.settle(self.pool)
            found.append((tokens, reference.macs / reference.seconds(self.pool)))
        return tuple(found)


class Pace:
    """Looks at the speed of the processor: MAC/s of the references over all of its threads. A shared machine's changes
    from one moment to the next, so that a look in the midst of what is timed says more than one beside it; with the
    threads that work there, for others would be put beside them on the same processors at first."""

    def __init__(self, pool: _cpu.ThreadPool, tier: str = "auto") -> None:
        self._pool = pool
        self._references = [Reference(tier, tokens) for tokens in PACE_TOKENS]
        self._looks: list[list[float]] = []

    def look(self) -> None:
        """Takes some milliseconds, for the references are to be as far in cache as they were in the probe."""
        seconds = []
        for reference in self._references:
            reference.settle(self._pool)
            seconds.append(reference.seconds(self._pool))
        self._looks.append(seconds)

    def now(self) -> Points:
        """Over the next moments. Cheap enough to repeat in every round, as `read_bandwidth` is."""
        begin = time.perf_counter()
        self.look()
        while time.perf_counter() - begin < _PACE_SECONDS:
            self.look()
        return self.take()

    def take(self) -> Points:
        """By tokens, of the looks since the last time."""
        usual = [statistics.median(found) for found in zip(*self._looks, strict=True)]
        self._looks.clear()
        rates = [reference.macs / seconds for reference, seconds in zip(self._references, usual, strict=True)]
        return tuple(zip(PACE_TOKENS, rates, strict=True))


def product(
    tier: str,
    quant_type: QuantType,
    tokens: int,
    rows: int,
    cols: int = SIDE,
    memory: npt.NDArray[np.uint8] | None = None,
) -> Work:
    """A product with `rows` rows of `cols`; with as many matrices in turn as `memory` has room for, where it is
    given."""
    size = quant_type.row_bytes(cols) * rows
    weights_bytes = filled(size) if memory is None else memory
    matrices = len(weights_bytes) // size
    repeats = max(matrices, (_REFERENCE_TOKENS if tokens >= FEWEST_IN_PANELS else _LEAST_TOKENS) // tokens)
    program = _cpu.Program(tier)
    x, out = program.value(cols), program.value(rows)
    weights = [program.weight(int(quant_type), rows, cols) for _ in range(matrices)]
    for number, weight in enumerate(weights):
        program.bind_weight(weight, weights_bytes[number * size : (number + 1) * size])
    for number in range(repeats):
        program.linear(x, [weights[number % matrices]], [None], [out])
    program.finish()
    program.write(x, activations(tokens, cols))
    return Work(program, batch_of(tokens), repeats, tokens)


def mapped_pages(size: int) -> npt.NDArray[np.uint8]:
    """Bytes of a file that is gone from its folder, mapped as a model's are. The system gives files pages that lie
    side by side: a stream of them is read faster, by a sixth at 14 GB/s, than of small pages from anywhere."""
    try:
        with tempfile.TemporaryFile() as file:
            for _ in range(0, size, len(_BLOCK)):
                file.write(_BLOCK)
            file.flush()
            mapping = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except OSError:  # no room, or no folder that can be written to
        return filled(size)
    return np.frombuffer(mapping, np.uint8)


def model_reader(path: Path, pool: _cpu.ThreadPool) -> _cpu.MemoryReader:
    """Reads the pages in which a model lies, up to FAR_BYTES of them, or others where they are too few."""
    with GGUFFile.open(path) as gguf:
        own = np.frombuffer(gguf.data(), np.uint8)[-FAR_BYTES:]
    return _cpu.MemoryReader(pool, own if len(own) >= _LEAST_FAR_BYTES else filled(FAR_BYTES))


def filled(size: int) -> npt.NDArray[np.uint8]:
    """Bytes in small pages of their own, as a cache of keys and values has them."""
    if hasattr(mmap, "MAP_PRIVATE"):
        mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    else:
        mapping = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        mapping.madvise(mmap.MADV_NOHUGEPAGE)
    array = np.frombuffer(mapping, np.uint8)
    array[:] = 0  # untouched, all would share one page
    return array


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
