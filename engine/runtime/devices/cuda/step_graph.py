"""A step of few tokens as a graph: a schedule's tasks put on the card's streams, captured and replayed.

All tasks are put there in one pass, joined by the same events: kernels, copies, and the CPU's segments as host
functions, which run native programs on a thread of the driver's. The first step is put there directly, so that all
memory is taken; the second is captured; from then on it is replayed. What changes between steps lies at fixed
addresses: the batch, expert tables, inputs and outputs of the CPU's segments.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from engine.errors import EngineError
from engine.runtime.captured import NotedIds, carried_bytes, copies_of
from engine.runtime.devices.cuda.hand_over import HandOver, HostFunctions, MappedFlags
from engine.runtime.devices.cuda.pieces import PieceCopies
from engine.runtime.devices.cuda.staging import CudaStaging
from engine.runtime.devices.cuda.timing import Mark, Timing
from engine.runtime.devices.streams import Event, Span, Task
from engine.runtime.schedule import Schedule
from engine.runtime.work import ACTIVATIONS, COMPUTE, CPU, WEIGHTS, CopyWork, SegmentWork, WeightWork
from kernels._cpu import Batch, HostSegment, HostStep
from kernels.cuda.kernel_set import LaunchError

if TYPE_CHECKING:
    from engine.runtime.devices.cuda.graphs import Graphs

_STAGING = "staging"  # fills pinned buffers with weights
_STREAMS = {
    COMPUTE: "compute",
    ACTIVATIONS: "activations",
    CPU: "host",
    WEIGHTS: "prefetch",  # not that of promotions, which go on beside a capture
    _STAGING: "staging",
}
_HOST = operator.attrgetter("host")
_NO_TIMING, _THREAD_LOCAL = 2, 1  # CU_EVENT_DISABLE_TIMING, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
_TIMED_EVERY, _FIRST_TIMED = 64, 3  # steps: reading a step's times takes longer than its launch


class StepGraph:
    """Steps of `tokens` tokens, each with an output, none further than `partitions` reach."""

    def __init__(self, graphs: Graphs, tokens: int, partitions: int) -> None:
        self._card, self._program, self._pinned = graphs.card, graphs.program, graphs.pinned
        self._schedule, self._cpu = graphs.schedule, graphs.sides[False]
        self._tokens = tokens
        self._order = list(in_order(graphs.schedule))
        self._events: dict[object, int] = {}
        self._graphs: dict[bool, tuple[int, int]] = {}  # timed or not: graph and executable
        self._passes = 0
        self._timing = Timing(graphs.card)
        self._is_timed = False  # what is put on the streams now
        self._can_time = True  # until the driver refuses it
        self._gpu_seconds = 0.0  # of the last step that was timed
        self._stagings = graphs.stagings
        for staging in self._stagings:
            staging.reserve(tokens)
        self._run = self._program.step_run(tokens, graphs.table_blocks, partitions)
        self._ids = NotedIds(graphs.schedule, tokens)
        self._host = self._pinned.allocate(self._run.block_bytes + 4 * self._ids.words)  # the batch, then ids
        self._host.bytes[:] = 0
        self._step = HostStep()
        words, batch_words = self._host.bytes.view(np.int32), self._run.block_bytes // 4
        self._block = self._run.host_block(words[:batch_words])
        self.uses = self._ids.uses(words[batch_words:])  # of the last step, where it leaves them
        self._logits = cast(CudaStaging | None, graphs.schedule.logits)
        self._logits_rows = self._logits.host_rows(tokens) if self._logits is not None else None
        self.copied = self._count_copies()  # bytes that a step copies to the card, and from it
        self._sources: dict[tuple[int, int], int] = {}  # work and place in its views → where rows are on the card
        on_cpu = (work for work in graphs.works if not work.segment.on_device)
        self._segments = {id(work): self._host_segment(work) for work in on_cpu}
        self._hand_over: HandOver = HostFunctions(graphs.card)
        if graphs.by_flags:
            segments = list(self._segments.values())
            self._hand_over = MappedFlags(graphs.card, self._program.kernels, graphs.pinned, segments)
        self._weights = [task.work for task in graphs.schedule.streams[WEIGHTS] if isinstance(task.work, WeightWork)]
        self._pieces = PieceCopies(graphs.card, graphs.pinned, self._weights)
        self.copied = self.copied[0] + self._pieces.bytes, self.copied[1]
        self.is_pinned = self._host.is_pinned and self._pieces.is_pinned and self._hand_over.is_pinned

    def signature(self) -> tuple[object, ...]:
        """Memory that was captured; where it has changed, the graph is of no use."""
        return (*self._program.addresses(), *map(_HOST, self._stagings))

    def step(self, batch: Batch, *, is_traced: bool = False) -> None:
        """Runs one step to its end. LaunchError where the driver refuses, EngineError where the CPU's share fails.

        Traced steps are timed on the card, by events of a graph of their own, and now and then one that is not.
        """
        self._block.fill(batch)
        self._step.begin(batch)
        self._program.refresh()
        self._passes += 1
        self._is_timed = self._can_time and (is_traced or self._passes % _TIMED_EVERY == _FIRST_TIMED)
        try:
            executable = self._graphs.get(self._is_timed)
            if executable is None and self._passes > 1:
                executable = self._executable_or_untimed()
            if self._is_timed:
                self._timing.begin()
            self._hand_over.begin()
            if executable is None:
                self._emit()
            else:
                self._card.call("cuGraphLaunch", executable[1], self._stream(COMPUTE))
            self._card.call("cuStreamSynchronize", self._stream(COMPUTE))
        except BaseException:
            self._hand_over.cancel()
            raise
        if self._step.error:
            raise EngineError(f"The processor's share of a step failed: {self._step.error}.")
        if self._is_timed:
            self._read_times()
        if self._logits is not None:
            self._logits.rows = self._logits_rows

    @property
    def busy(self) -> Mapping[str, float]:
        """The GPU's share is that of the last step that was timed."""
        return {"CPU": self._step.seconds, **({"GPU": self._gpu_seconds} if self._gpu_seconds else {})}

    def spans(self) -> list[Span]:
        names, times = (task.name for task in self._schedule.streams[CPU]), self._step.times
        on_cpu = zip(names, times[::2], times[1::2], strict=False)
        return [*self._timing.spans(), *(Span("CPU", CPU, name, b / 1e9, e / 1e9) for name, b, e in on_cpu)]

    def close(self) -> None:
        for graph, executable in self._graphs.values():
            self._card.call("cuGraphExecDestroy", executable)
            self._card.call("cuGraphDestroy", graph)
        self._graphs.clear()
        for event in self._events.values():
            self._card.call("cuEventDestroy_v2", event)
        self._timing.close()
        self._pieces.close()
        self._run.close()
        self._hand_over.close()
        self._pinned.free(self._host)

    # --- one pass ---------------------------------------------------------------------------------------------

    def _executable_or_untimed(self) -> tuple[int, int]:
        """A driver that captures no timed events still runs the step."""
        try:
            return self._executable()
        except LaunchError:
            if not self._is_timed:
                raise
        self._can_time = self._is_timed = False
        self._timing.close()
        return self._executable()

    def _read_times(self) -> None:
        try:
            self._gpu_seconds = self._timing.seconds("GPU")
        except LaunchError:
            self._can_time = False
            self._timing.close()

    def _executable(self) -> tuple[int, int]:
        """A graph and its executable, captured where they are wanted for the first time."""
        if self._is_timed not in self._graphs:
            compute, graph = self._card.streams["compute"], ctypes.c_uint64()
            self._card.call("cuStreamBeginCapture_v2", compute, _THREAD_LOCAL)
            self._timing.is_captured = True
            try:
                self._emit()
            finally:
                self._timing.is_captured = False
                self._card.call("cuStreamEndCapture", compute, ctypes.byref(graph))
            executable = self._card.make("cuGraphInstantiateWithFlags", graph.value, 0)
            self._graphs[self._is_timed] = graph.value, executable
        return self._graphs[self._is_timed]

    def _emit(self) -> None:
        """Puts a whole step on the card's streams. All of them begin and end with the compute stream."""
        self._run.begin_pass()
        if self._is_timed:
            self._timing.record_start(self._stream(COMPUTE))
        self._copy(self._run.block, self._host.address, self._run.block_bytes, COMPUTE)
        others = [ACTIVATIONS, CPU, *([WEIGHTS, _STAGING] if self._weights else [])]
        for stream in others:
            self._join(COMPUTE, stream)
        self._pieces.begin_pass()
        for stream, task in self._order:
            for event in task.waits:
                self._card.call("cuStreamWaitEvent", self._stream(stream), self._event(event), 0)
            if self._is_timed and stream != CPU:
                with self._timing.around(Mark(task.lane, stream, task.name), self._stream(stream)):
                    self._emit_task(task)
            else:
                self._emit_task(task)
            for event in task.signals:
                self._card.call("cuEventRecord", self._event(event), self._stream(stream))
        for stream in others:
            self._join(stream, COMPUTE)

    def _emit_task(self, task: Task) -> None:
        work = task.work
        if isinstance(work, CopyWork):
            self._emit_copy(work)
        elif isinstance(work, WeightWork):
            self._pieces.put(work)
        elif isinstance(work, SegmentWork) and work.segment.on_device:
            self._emit_segment(work)
        else:
            self._hand_over.put(self._segments[id(work)])

    def _emit_segment(self, work: SegmentWork) -> None:
        run = self._run
        for handle, staging in work.inputs:
            self._copy(run.at(handle), cast(CudaStaging, staging).address, self._bytes(staging.width), COMPUTE)
        if work.lookup is not None:
            bank, ids = work.lookup.bank, run.at(work.side.handle(work.lookup.ids))
            noted = self._host.address + self._run.block_bytes + 4 * self._ids.begins[bank]
            self._copy(noted, ids, self._bytes(self._ids.widths[bank]), COMPUTE)
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
        for copy in copies_of(self._schedule):
            for place, staging in copy.stagings if copy.source is work else ():
                segment.leave(handles[place], _host_address(staging), self._tokens, staging.width)
        return segment

    def _count_copies(self) -> tuple[int, int]:
        """Staging, the batch, and ids."""
        to_card, home = carried_bytes(list(copies_of(self._schedule)), self._tokens)
        return self._run.block_bytes + to_card, home + 4 * self._ids.words

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


def _host_address(staging: object) -> int:
    host = cast(CudaStaging, staging).host
    assert host is not None
    return host.address or host.bytes.ctypes.data
