"""Graphs of a placement: steps of few tokens, replayed without Python between their launches.

There is one graph per token count and depth, made when it is first wanted. Experts may come and go, while a new
placement means new graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from engine.runtime.captured import segments_of, stagings_of
from engine.runtime.devices.cuda.card import Card
from engine.runtime.devices.cuda.copies import PinnedMemory
from engine.runtime.devices.cuda.programs import CardProgram
from engine.runtime.devices.cuda.staging import CudaStaging
from engine.runtime.devices.cuda.step_graph import StepGraph
from engine.runtime.devices.memory import DeviceMemoryError
from engine.runtime.schedule import Schedule
from engine.runtime.work import WEIGHTS, Side
from kernels._cpu import Batch
from kernels.cuda.kernel_set import LaunchError
from kernels.cuda.operands import MATVEC_MOST, partitions_for

MOST_TOKENS = MATVEC_MOST  # of a step: beyond, launches take longer than putting them on a stream
MOST_GRAPHS = 4  # per placement; the one that was made first goes
_RETRY_AFTER = 256  # steps: what the driver refused, it may give again once another program has left


class Graphs:
    """The graphs of one schedule. `step` runs a step, or says that it has to be run task by task."""

    def __init__(
        self,
        card: Card,
        pinned: PinnedMemory,
        schedule: Schedule,
        sides: Mapping[bool, Side],
        table_blocks: int,
        by_flags: bool = False,
    ) -> None:
        self.card, self.pinned, self.schedule, self.sides, self.by_flags = card, pinned, schedule, sides, by_flags
        self.program = cast(CardProgram, sides[True].program.program)
        self.table_blocks = table_blocks
        self.works = list(segments_of(schedule))
        self.stagings = [cast(CudaStaging, staging) for staging in stagings_of(schedule)]
        self.is_refused = by_flags and bool(schedule.streams[WEIGHTS])  # buffers are filled by host functions
        self._retry_in = 0  # steps, where what was refused may be tried again
        self._graphs: dict[tuple[int, int], tuple[StepGraph, tuple[object, ...]]] = {}

    def step(self, batch: Batch, *, is_traced: bool = False) -> StepGraph | None:
        """The graph that ran the step; None where none can: too many tokens, rows without an output, or a driver that
        pins no memory or captures nothing. A launch or memory that was refused is tried again after some steps."""
        tokens = len(batch)
        if self._retry_in:
            self._retry_in -= 1
            self.is_refused = self._retry_in > 0
        if self.is_refused or tokens > MOST_TOKENS or batch.output_count != tokens:
            return None
        partitions = _bucket(partitions_for(batch.last_position))
        try:
            graph = self._graph(tokens, partitions)
            if graph is not None:
                graph.step(batch, is_traced=is_traced)
            return graph
        except (LaunchError, DeviceMemoryError):
            self.close()
            self.is_refused, self._retry_in = True, _RETRY_AFTER
            return None

    def _graph(self, tokens: int, partitions: int) -> StepGraph | None:
        known = self._graphs.get((tokens, partitions))
        if known is not None and known[0].signature() == known[1]:
            return known[0]
        if known is not None:
            self._graphs.pop((tokens, partitions))[0].close()
        while len(self._graphs) >= MOST_GRAPHS:
            self._graphs.pop(next(iter(self._graphs)))[0].close()
        graph = StepGraph(self, tokens, partitions)
        if not graph.is_pinned or not all(s.host is not None and s.host.is_pinned for s in self.stagings):
            graph.close()
            self.is_refused = True
            return None
        self._graphs[tokens, partitions] = graph, graph.signature()
        return graph

    def close(self) -> None:
        for graph, _ in self._graphs.values():
            graph.close()
        self._graphs.clear()


def _bucket(partitions: int) -> int:
    """The next power of two."""
    return 1 << (partitions - 1).bit_length()
