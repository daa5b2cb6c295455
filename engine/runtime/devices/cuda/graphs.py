"""Graphs: steps of few tokens, captured into CUDA graphs and replayed without Python between their launches.

A schedule's tasks are put on the card's streams in one pass, joined by the same events: kernels, copies, and the CPU's
segments as host functions, which run native programs on a thread of the driver's. The first step of a kind is put
there directly, so that all memory is taken; the second is captured; from then on it is replayed. What changes between
steps lies at fixed addresses: the batch, expert tables, inputs and outputs of the CPU's segments. So experts may come
and go, while a new placement means new graphs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from engine.errors import EngineError
from engine.runtime.devices.cuda.card import Card
from engine.runtime.devices.cuda.copies import PinnedMemory
from engine.runtime.devices.cuda.programs import CardProgram
from engine.runtime.devices.cuda.staging import CudaStaging
from engine.runtime.devices.memory import DeviceMemoryError
from engine.runtime.devices.streams import Event, Task
from engine.runtime.placement import SlotLookup
from engine.runtime.schedule import ACTIVATIONS, COMPUTE, CPU, WEIGHTS, CopyWork, Schedule, SegmentWork, Side
from engine.runtime.staging import Rows
from kernels._cpu import Batch, HostSegment, HostStep
from kernels.cuda.kernel_set import LaunchError
from kernels.cuda.operands import MATVEC_MOST, partitions_for

MOST_TOKENS = MATVEC_MOST  # of a step: beyond, launches take longer than putting them on a stream
MOST_GRAPHS = 4  # per placement; the one that was made first goes
_STREAMS = {COMPUTE: "compute", ACTIVATIONS: "activations", CPU: "host"}
_NO_TIMING, _THREAD_LOCAL = 2, 1  # CU_EVENT_DISABLE_TIMING, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


class StepGraph:
    """Steps of `tokens` tokens, each with an output, none further than `partitions` reach."""

    def __init__(self, graphs: Graphs, tokens: int, partitions: int) -> None:
        self._card, self._program, self._pinned = graphs.card, graphs.program, graphs.pinned
        self._schedule, self._cpu = graphs.schedule, graphs.sides[False]
        self._tokens = tokens
        self._order = list(in_order(graphs.schedule))
        self._events: dict[object, int] = {}
        self._executable = self._graph = self._passes = 0
        self._stagings = graphs.stagings
        for staging in self._stagings:
            staging.reserve(tokens)
        self._run = self._program.step_run(tokens, graphs.table_blocks, partitions)
        self._noted, noted_bytes = self._places_for_ids(graphs.works)
        self._host = self._pinned.allocate(self._run.block_bytes + noted_bytes)  # the batch, then ids
        self._step = HostStep()
        self.used: Mapping[str, Rows] = {
            bank: self._ids_at(*place) for bank, place in self._noted.items()
        }  # of the last step
        self.copied = self._count_copies()  # bytes that a step copies to the card, and from it
        self._sources: dict[tuple[int, int], int] = {}  # work and place in its views → where rows are on the card
        self._segments = {id(work): self._host_segment(work) for work in graphs.works if not work.segment.on_device}
        self.is_pinned = self._host.is_pinned

    def signature(self) -> tuple[object, ...]:
        """Memory that was captured; where it has changed, the graph is of no use."""
        return self._program.addresses, [staging.host for staging in self._stagings]

    def step(self, batch: Batch) -> None:
        """Runs one step to its end. LaunchError where the driver refuses, EngineError where the CPU's share fails."""
        packed = self._run.pack(batch)
        self._host.bytes[: packed.nbytes] = packed.view(np.uint8)
        self._step.begin(batch)
        self._program.refresh()
        self._passes += 1
        if self._passes == 1:
            self._emit()
        else:
            if self._passes == 2:
                self._capture()
            self._card.call("cuGraphLaunch", self._executable, self._card.streams["compute"])
        self._card.synchronize("compute")
        if self._step.error:
            raise EngineError(f"The processor's share of a step failed: {self._step.error}.")
        if self._schedule.logits is not None:
            logits = cast(CudaStaging, self._schedule.logits)
            logits.rows = logits.host_rows(self._tokens)

    @property
    def cpu_seconds(self) -> float:
        """How long the CPU's segments took in the last step."""
        times = self._step.times
        return (sum(times[1::2]) - sum(times[::2])) / 1e9

    def cpu_spans(self) -> list[tuple[str, float, float]]:
        """Its segments' names, begins and ends, in seconds of the steady clock."""
        names, times = (task.name for task in self._schedule.streams[CPU]), self._step.times
        return [(name, b / 1e9, e / 1e9) for name, b, e in zip(names, times[::2], times[1::2], strict=False)]

    def close(self) -> None:
        if self._executable:
            self._card.call("cuGraphExecDestroy", self._executable)
            self._card.call("cuGraphDestroy", self._graph)
        for event in self._events.values():
            self._card.call("cuEventDestroy_v2", event)
        self._run.close()
        self._pinned.free(self._host)

    # --- one pass ---------------------------------------------------------------------------------------------

    def _capture(self) -> None:
        compute, graph = self._card.streams["compute"], ctypes.c_uint64()
        self._card.call("cuStreamBeginCapture_v2", compute, _THREAD_LOCAL)
        try:
            self._emit()
        finally:
            self._card.call("cuStreamEndCapture", compute, ctypes.byref(graph))
        self._graph = graph.value
        self._executable = self._card.make("cuGraphInstantiateWithFlags", self._graph, 0)

    def _emit(self) -> None:
        """Puts a whole step on the card's streams. All of them begin and end with the compute stream."""
        self._run.begin_pass()
        self._copy(self._run.block, self._host.address, self._run.block_bytes, COMPUTE)
        self._join(COMPUTE, ACTIVATIONS)
        self._join(COMPUTE, CPU)
        for stream, task in self._order:
            for event in task.waits:
                self._card.call("cuStreamWaitEvent", self._stream(stream), self._event(event), 0)
            self._emit_task(task)
            for event in task.signals:
                self._card.call("cuEventRecord", self._event(event), self._stream(stream))
        self._join(ACTIVATIONS, COMPUTE)
        self._join(CPU, COMPUTE)

    def _emit_task(self, task: Task) -> None:
        work = task.work
        if isinstance(work, CopyWork):
            self._emit_copy(work)
        elif isinstance(work, SegmentWork) and work.segment.on_device:
            self._emit_segment(work)
        else:
            segment = self._segments[id(work)]
            self._card.call("cuLaunchHostFunc", self._stream(CPU), segment.function, segment.data)

    def _emit_segment(self, work: SegmentWork) -> None:
        run = self._run
        for handle, staging in work.inputs:
            self._copy(run.at(handle), cast(CudaStaging, staging).address, self._bytes(staging.width), COMPUTE)
        if work.lookup is not None:
            offset, width = self._noted[work.lookup.bank]
            ids = run.at(work.side.handle(work.lookup.ids))
            self._copy(self._host.address + offset, ids, self._bytes(width), COMPUTE)
        self._program.launch(run, work.begin, work.end)
        for handle, place, is_copied in work.outputs:
            source = run.at(handle)
            if is_copied:
                size = self._bytes(self._program.width(handle))
                source = run.scratch(("copy", id(work), place), size)
                self._copy(source, run.at(handle), size, COMPUTE)
            self._sources[id(work), place] = source

    def _emit_copy(self, work: CopyWork) -> None:
        for place, staging in work.stagings:
            there, size = cast(CudaStaging, staging), self._bytes(staging.width)
            assert there.host is not None
            if work.source.segment.on_device:
                self._copy(there.host.address, self._sources[id(work.source), place], size, ACTIVATIONS)
            else:
                self._copy(there.address, there.host.address, size, ACTIVATIONS)

    def _host_segment(self, work: SegmentWork) -> HostSegment:
        segment = HostSegment(self._step, work.side.program.program, work.side.pool, work.begin, work.end)
        for handle, staging in work.inputs:
            segment.take(handle, _host_address(staging), self._tokens, staging.width, staging.is_ids)
        handles = {place: handle for handle, place, _ in work.outputs}
        for copy in _copies(self._schedule):
            for place, staging in copy.stagings if copy.source is work else ():
                segment.leave(handles[place], _host_address(staging), self._tokens, staging.width)
        return segment

    def _places_for_ids(self, works: Sequence[SegmentWork]) -> tuple[dict[str, tuple[int, int]], int]:
        """By bank: where in `host` its look-up's ids go, and how many there are per token; and the bytes of all."""
        places, size = {}, 0
        for work in works:
            if isinstance(work.lookup, SlotLookup):
                width = self._program.width(work.side.handle(work.lookup.ids))
                places[work.lookup.bank] = self._run.block_bytes + size, width
                size += self._bytes(width)
        return places, size

    def _ids_at(self, offset: int, width: int) -> Rows:
        words = self._host.bytes.view(np.int32)[offset // 4 :]
        return words[: self._tokens * width].reshape(self._tokens, width)

    def _count_copies(self) -> tuple[int, int]:
        """Staging, the batch, and ids."""
        copies = [
            (copy.source.segment.on_device, staging.width)
            for copy in _copies(self._schedule)
            for _, staging in copy.stagings
        ]
        home = [width for on_device, width in copies if on_device] + [width for _, width in self._noted.values()]
        to_card = [width for on_device, width in copies if not on_device]
        return self._run.block_bytes + sum(map(self._bytes, to_card)), sum(map(self._bytes, home))

    # --- the driver's ----------------------------------------------------------------------------------------

    def _bytes(self, width: int) -> int:
        return 4 * self._tokens * width

    def _copy(self, to: int, source: int, size: int, stream: str) -> None:
        self._card.call("cuMemcpyAsync", to, source, size, self._stream(stream))

    def _stream(self, name: str) -> int:
        return self._card.streams[_STREAMS[name]]

    def _join(self, first: str, then: str) -> None:
        """What is put on `then` from now on waits for what is on `first`."""
        event = self._named_event((first, then))
        self._card.call("cuEventRecord", event, self._stream(first))
        self._card.call("cuStreamWaitEvent", self._stream(then), event, 0)

    def _event(self, event: Event) -> int:
        return self._named_event(id(event))

    def _named_event(self, key: object) -> int:
        if key not in self._events:
            self._events[key] = self._card.make("cuEventCreate", _NO_TIMING)
        return self._events[key]


class Graphs:
    """The graphs of one schedule. `step` runs a step, or says that it has to be run task by task."""

    def __init__(
        self, card: Card, pinned: PinnedMemory, schedule: Schedule, sides: Mapping[bool, Side], table_blocks: int
    ) -> None:
        self.card, self.pinned, self.schedule, self.sides = card, pinned, schedule, sides
        self.program = cast(CardProgram, sides[True].program.program)
        self.table_blocks = table_blocks
        self.works = [task.work for task in _tasks(schedule) if isinstance(task.work, SegmentWork)]
        self.stagings = list(_stagings(schedule))
        self.is_refused = bool(schedule.streams[WEIGHTS])
        self._graphs: dict[tuple[int, int], tuple[StepGraph, tuple[object, ...]]] = {}

    def step(self, batch: Batch) -> StepGraph | None:
        """The graph that ran the step; None where none can: too many tokens, rows without an output, or a driver that
        pins no memory or captures nothing."""
        tokens = len(batch)
        if self.is_refused or tokens > MOST_TOKENS or len(batch.outputs) != tokens:
            return None
        partitions = _bucket(partitions_for(int(batch.positions.max())))
        try:
            graph = self._graph(tokens, partitions)
            if graph is not None:
                graph.step(batch)
            return graph
        except (LaunchError, DeviceMemoryError):
            self.close()
            self.is_refused = True
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


def in_order(schedule: Schedule) -> Iterator[tuple[str, Task]]:
    """All tasks, each behind those that it waits for."""
    queues = {name: list(tasks) for name, tasks in schedule.streams.items()}
    signalled: set[int] = set()
    while any(queues.values()):
        ready = [name for name, tasks in queues.items() if tasks and all(id(e) in signalled for e in tasks[0].waits)]
        assert ready, "tasks wait for each other"
        for name in ready:
            task = queues[name].pop(0)
            signalled |= {id(event) for event in task.signals}
            yield name, task


def _tasks(schedule: Schedule) -> Iterator[Task]:
    for tasks in schedule.streams.values():
        yield from tasks


def _copies(schedule: Schedule) -> Iterator[CopyWork]:
    for task in schedule.streams[ACTIVATIONS]:
        assert isinstance(task.work, CopyWork)
        yield task.work


def _stagings(schedule: Schedule) -> Iterator[CudaStaging]:
    for copy in _copies(schedule):
        for _, staging in copy.stagings:
            yield cast(CudaStaging, staging)


def _host_address(staging: object) -> int:
    host = cast(CudaStaging, staging).host
    assert host is not None
    return host.address or host.bytes.ctypes.data


def _bucket(partitions: int) -> int:
    """The next power of two."""
    return 1 << (partitions - 1).bit_length()
