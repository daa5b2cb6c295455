"""Steps of few tokens on the emulated device: a schedule's tasks on native threads, without Python between them.

Segments run as host functions, as they do in a card's graphs; copies take as long as the link. Streams and events are
the schedule's own. What changes between steps lies at fixed addresses, so a new placement means new ones.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping

import numpy as np

from engine.errors import EngineError
from engine.runtime.captured import NotedIds, carried_bytes, copies_of, segments_of, stagings_of
from engine.runtime.devices.device import LinkRates
from engine.runtime.devices.streams import Event, Span
from engine.runtime.placement import SlotLookup
from engine.runtime.schedule import Schedule
from engine.runtime.staging import Rows
from engine.runtime.work import ACTIVATIONS, COMPUTE, CPU, WEIGHTS, CopyWork, SegmentWork, WeightWork
from kernels._cpu import Batch, HostCopy, HostSegment, HostStep, StepStreams

MOST_TOKENS = 8  # of a step: with more, what lies between the tasks is little beside them
_MOST_STEPS = 4  # kept per placement, by their number of tokens
_STREAMS = (CPU, COMPUTE, ACTIVATIONS, WEIGHTS)  # the first runs in the engine's thread
_LANES = {CPU: "CPU", COMPUTE: "GPU"}


class NativeStep:
    """Steps of `tokens` tokens, each with an output."""

    def __init__(self, schedule: Schedule, link: LinkRates, tokens: int) -> None:
        self._schedule, self._link, self._tokens = schedule, link, tokens
        self._streams = StepStreams(len(_STREAMS))
        self._steps = {side: HostStep() for side in (False, True)}
        self._stagings = stagings_of(schedule)
        for staging in self._stagings:
            staging.reserve(tokens)
        self._buffers = [staging.buffer for staging in self._stagings]
        self._ids = NotedIds(schedule, tokens)
        self._noted = np.zeros(self._ids.words, np.int32)
        self.uses = self._ids.uses(self._noted)
        self._left: dict[tuple[int, int], Rows] = {}  # work and place in its views → its rows, until they are copied
        self._events: dict[int, int] = {}
        self._kept: list[object] = []  # what the native side has addresses of
        self._names: list[tuple[str, str, str]] = []  # of tasks: lane, stream, name
        copied = carried_bytes(list(copies_of(schedule)), tokens)
        self._weight_bytes = 0
        for work in segments_of(schedule):
            self._make_room(work)
        for number, name in enumerate(_STREAMS):
            for task in schedule.streams[name]:
                function, data, seconds = self._prepare(task.work)
                waits, signals = ([self._event(event) for event in events] for events in (task.waits, task.signals))
                self._streams.add(number, function, data, seconds, waits, signals)
                self._names.append((_LANES.get(name, "link"), name, task.name))
        self.copied = copied[0] + self._weight_bytes, copied[1]  # bytes, of each step

    @property
    def is_valid(self) -> bool:
        """Whether the memory that the native side knows is still in use."""
        return all(map(operator.is_, self._buffers, [staging.buffer for staging in self._stagings]))

    def step(self, batch: Batch) -> None:
        """Runs one step to its end. EngineError where a segment fails."""
        for step in self._steps.values():
            step.begin(batch)
        self._streams.run()
        if error := self._steps[False].error:
            raise EngineError(f"The processor's share of a step failed: {error}.")
        if error := self._steps[True].error:
            raise EngineError(f"The emulated device's share of a step failed: {error}.")
        if self._schedule.logits is not None:
            self._schedule.logits.show(self._tokens)

    @property
    def busy(self) -> Mapping[str, float]:
        seconds = [self._streams.busy_seconds(number) for number in range(len(_STREAMS))]
        return {"CPU": seconds[0], "GPU": seconds[1], "link": seconds[2] + seconds[3]}

    def spans(self) -> list[Span]:
        times = self._streams.times
        return [Span(*names, *between) for names, between in zip(self._names, times, strict=True)]

    def _make_room(self, work: SegmentWork) -> None:
        for handle, place, _ in work.outputs:
            width = next(work.graph.values[v] for v, h in work.side.program.values.items() if h == handle)
            self._left[id(work), place] = np.empty((self._tokens, width), np.float32)

    def _prepare(self, work: object) -> tuple[int, int, float]:
        """A task as the native side takes it: a function, its argument, and how long the link takes."""
        made: HostSegment | HostCopy
        seconds = 0.0
        if isinstance(work, SegmentWork):
            made = self._segment(work)
        elif isinstance(work, CopyWork):
            made, size = HostCopy(), 0
            for place, staging in work.stagings:
                rows = self._left[id(work.source), place]
                made.add(staging.address, rows.ctypes.data, rows.nbytes)
                size += rows.nbytes
            seconds = self._link.seconds(size)
        else:
            assert isinstance(work, WeightWork) and work.piece is not None, "tiles are for prompts"
            made, size = HostCopy(), 0
            for buffer, offset, source in work.tables.piece_parts(work.piece):
                made.add(buffer.view(offset, offset + len(source)).ctypes.data, source.ctypes.data, len(source))
                self._kept.append(source)
                size += len(source)
            seconds = self._link.seconds(size)
            self._weight_bytes += size
        self._kept.append(made)
        return made.function, made.data, seconds

    def _segment(self, work: SegmentWork) -> HostSegment:
        step, program = self._steps[work.segment.on_device], work.side.program.program
        segment = HostSegment(step, program, work.side.pool, work.begin, work.end)
        for handle, staging in work.inputs:
            segment.take(handle, staging.address, self._tokens, staging.width, staging.is_ids)
        if isinstance(work.lookup, SlotLookup):
            bank, handle = work.lookup.bank, work.side.handle(work.lookup.ids)
            slots, noted = work.tables.slots(bank), self._noted.ctypes.data + 4 * self._ids.begins[bank]
            segment.look_up(handle, slots.ctypes.data, len(slots), noted, self._tokens, self._ids.widths[bank])
        for handle, place, _ in work.outputs:
            rows = self._left[id(work), place]
            segment.leave(handle, rows.ctypes.data, self._tokens, rows.shape[1])
        return segment

    def _event(self, event: Event) -> int:
        if id(event) not in self._events:
            self._events[id(event)] = self._streams.event()
        return self._events[id(event)]


class NativeSteps:
    """The native steps of one schedule, by their number of tokens."""

    def __init__(self, schedule: Schedule, link: LinkRates) -> None:
        self._schedule, self._link = schedule, link
        self._steps: dict[int, NativeStep] = {}

    def step(self, batch: Batch, *, is_traced: bool = False) -> NativeStep | None:
        """What ran the step; None where it has too many tokens, or rows without an output."""
        tokens = len(batch)
        if tokens > MOST_TOKENS or batch.output_count != tokens:
            return None
        step = self._steps.get(tokens)
        if step is None or not step.is_valid:
            self._steps.pop(tokens, None)
            while len(self._steps) >= _MOST_STEPS:
                self._steps.pop(next(iter(self._steps)))
            step = self._steps[tokens] = NativeStep(self._schedule, self._link, tokens)
        step.step(batch)
        return step

    def close(self) -> None:
        self._steps.clear()
