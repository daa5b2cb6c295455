"""Scheduler: which tokens of which sequences go into the next step, and who gives way when memory runs short."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from engine.errors import OutOfMemoryError
from engine.memory.prefix_cache import PrefixCache
from engine.runtime.executor import Chunk
from engine.sequence import Sequence

_PREFILL_BESIDE_DECODE = 128  # tokens per step that new prompts may take while answers go on


@dataclass(slots=True)
class Schedule:
    """`work` is the next step; `starved` are sequences for which there is no room even alone."""

    work: list[tuple[Sequence, Chunk]] = field(default_factory=list)
    starved: list[tuple[Sequence, OutOfMemoryError]] = field(default_factory=list)


class Scheduler:
    """Keeps running sequences in order of arrival, and a line of those that wait for memory."""

    def __init__(self, cache: PrefixCache) -> None:
        self._cache = cache
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []

    @property
    def sequences(self) -> list[Sequence]:
        return [*self._running, *self._waiting]

    @property
    def is_busy(self) -> bool:
        return bool(self._running or self._waiting)

    def add(self, sequence: Sequence) -> None:
        self._waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        (self._running if sequence in self._running else self._waiting).remove(sequence)

    def schedule(self, micro_batch: int) -> Schedule:
        """Answers in progress get their next token each; prompts share what is left of `micro_batch` tokens."""
        if len(self._running) == 1 and not self._waiting:  # between most tokens: little needs to be asked
            only = self._running[0]
            if only.is_decoding and self._make_room(only, 1):
                return Schedule([(only, Chunk(only.state, only.tokens[-1:], 0))])
        while self._waiting and self._make_room(self._waiting[0], 1):
            self._running.append(self._waiting.popleft())
        decoding: list[Sequence] = []
        reading: list[Sequence] = []
        for sequence in self._running:
            (decoding if sequence.is_decoding else reading).append(sequence)
        budget = len(decoding) + min(micro_batch, _PREFILL_BESIDE_DECODE) if decoding else micro_batch
        schedule = Schedule()
        for sequence in [*decoding, *reading]:
            count = min(sequence.pending, budget)
            if not count or sequence not in self._running:  # no budget left, or it gave way to an older one
                continue
            if not self._make_room(sequence, count):
                shortage = self._give_way(sequence, count)
                schedule.work = [(other, chunk) for other, chunk in schedule.work if other in self._running]
                if shortage is not None:
                    schedule.starved.append((sequence, shortage))
                if shortage is not None or sequence not in self._running:
                    continue
            if sequence.prefill_began is None:
                sequence.prefill_began = time.perf_counter()
            schedule.work.append((sequence, _next_chunk(sequence, count)))
            budget -= count
        return schedule

    def _make_room(self, sequence: Sequence, tokens: int) -> bool:
        """Reserves cells, if need be at the cost of kept states and of what those in line have ready."""
        while True:
            try:
                sequence.state.reserve(tokens)
                return True
            except OutOfMemoryError:
                if not self._cache.evict() and not self._take_from_waiting(sequence):
                    return False

    def _give_way(self, sequence: Sequence, tokens: int) -> OutOfMemoryError | None:
        """Makes room at the cost of the youngest answers, of which this may be one. An error if it is alone."""
        while not self._make_room(sequence, tokens):
            if len(self._running) == 1:
                return OutOfMemoryError(
                    "The context's memory is full.", done="What was said is kept.", remedy="Choose a longer context."
                )
            youngest = self._running.pop()
            youngest.state.release()
            self._waiting.appendleft(youngest)
            if youngest is sequence:
                return None
        return None

    def _take_from_waiting(self, needy: Sequence) -> bool:
        """Frees what an answer in line has ready; it is read again when its turn comes."""
        for waiting in self._waiting:
            if waiting is not needy and waiting.state.length:
                waiting.state.release()
                return True
        return False


def _next_chunk(sequence: Sequence, count: int) -> Chunk:
    begin = sequence.state.length
    is_last = begin + count == len(sequence.tokens)
    return Chunk(sequence.state, sequence.tokens[begin : begin + count], count - 1 if is_last else count)
