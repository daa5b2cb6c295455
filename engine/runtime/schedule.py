"""Schedule: a placed graph as tasks on streams, made once per placement and replayed for every step.

Each segment is one task: take in what came from the other side, run the operations, leave views of what goes over.
Each crossing is one task of the copy stream. An event joins a task to each later one of another stream that needs it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from engine.models.graph import Experts, Graph
from engine.runtime.devices.device import Device
from engine.runtime.devices.streams import Event, Task
from engine.runtime.placement import TileLookup
from engine.runtime.prefetch import Piece
from engine.runtime.segments import Crossing, Segment, Segments
from engine.runtime.staging import Staging
from engine.runtime.work import (
    ACTIVATIONS,
    COMPUTE,
    CPU,
    WEIGHTS,
    CopyWork,
    Costs,
    SegmentWork,
    Side,
    Step,
    Tables,
    WeightWork,
)

Stagings = dict[tuple[bool, int, bool, int], Staging]  # to the device?, width, ids?, number among its like
_TURNS = 2  # the copy for one segment may arrive while the one before it is still being taken in


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """`streams`: each stream's tasks in order. `logits`: where they are in the end, where the last segment is on the
    device; None where the CPU has them. `pieces`: what is prefetched; `lent`: what has to be in buffers of its own."""

    streams: dict[str, tuple[Task, ...]]
    logits: Staging | None
    segments: Segments
    pieces: tuple[Piece, ...]
    lent: tuple[Piece, ...] = ()

    def without(self, event: Event) -> Schedule:
        """The same without one event: for tests, which have to notice."""

        def strip(task: Task) -> Task:
            kept = tuple(e for e in task.waits if e is not event), tuple(e for e in task.signals if e is not event)
            return replace(task, waits=kept[0], signals=kept[1])

        return replace(self, streams={name: tuple(map(strip, tasks)) for name, tasks in self.streams.items()})


class Scheduler:
    """Makes the schedule of one placement, with `pieces` of the graph prefetched. `costs` is asked by a virtual clock
    only.

    Those that are needed of `known_stagings`, and new ones, go into `stagings`.
    """

    def __init__(
        self,
        graph: Graph,
        sides: dict[bool, Side],
        device: Device,
        step: Callable[[], Step],
        tables: Tables,
        now: Callable[[], float],
        known_stagings: Stagings,
        stagings: Stagings,
        costs: Costs = lambda work: 0.0,
        pieces: Sequence[Piece] = (),
    ) -> None:
        self._graph = graph
        self._pieces = tuple(pieces)
        self._piece_at = {piece.begin: piece for piece in pieces}
        self._sides = sides
        self._device = device
        self._step = step
        self._tables = tables
        self._now = now
        self._costs = costs
        self._known_stagings = known_stagings
        self._stagings = stagings
        self._ids = {op.ids for op in graph.ops if isinstance(op, Experts)}

    def schedule(self, segments: Segments) -> Schedule:
        works = [self._work(segment) for segment in segments.segments]
        waits: defaultdict[int, list[Event]] = defaultdict(list)  # by segment
        signals: defaultdict[int, list[Event]] = defaultdict(list)
        copies: list[tuple[Crossing, CopyWork, tuple[Event, ...], tuple[Event, ...]]] = []
        logits = None
        turns = {True: 0, False: 0}
        for crossing in sorted(segments.crossings, key=lambda c: c.producer):
            left, arrived = Event(), Event()
            signals[crossing.producer].append(left)
            to_device = not segments.segments[crossing.producer].on_device
            turns[to_device] += 1
            copy = self._copy(crossing, works, turns[to_device] % _TURNS)
            if crossing.consumer is None:
                logits = copy.stagings[0][1]
                copies.append((crossing, copy, (left,), ()))
            else:
                waits[crossing.consumer].append(arrived)
                copies.append((crossing, copy, (left,), (arrived,)))
        weights = self._weight_tasks(works, waits, signals)
        freed = {id(event) for task in weights for event in task.waits}  # weights are copied by the host, which waits
        for index, work in enumerate(works):
            work.is_awaited = any(id(event) in freed for event in signals[index])
        streams: dict[str, list[Task]] = {CPU: [], COMPUTE: [], ACTIVATIONS: [], WEIGHTS: weights}
        for index, work in enumerate(works):
            task = self._segment_task(work, tuple(waits[index]), tuple(signals[index]))
            streams[COMPUTE if work.segment.on_device else CPU].append(task)
        streams[ACTIVATIONS] = [self._copy_task(works, *parts) for parts in copies]
        return Schedule({name: tuple(tasks) for name, tasks in streams.items()}, logits, segments, self._pieces)

    def _weight_tasks(
        self, works: Sequence[SegmentWork], waits: dict[int, list[Event]], signals: dict[int, list[Event]]
    ) -> list[Task]:
        """One copy per tile and piece, as soon as the segment is done that used its buffer last."""
        tasks: list[Task] = []
        last_use: dict[str, int] = {}  # buffer → segment
        for index, work in enumerate(works):
            found = self._weight_copy(work)
            if found is None:
                continue
            (name, copy), buffer, there = found, self._buffer_of(work), Event()
            waits[index].append(there)
            free = (Event(),) if buffer in last_use else ()
            for event in free:
                signals[last_use[buffer]].append(event)
            last_use[buffer] = index
            tasks.append(Task(name, "link", copy, free, (there,), copy.cost, writes=frozenset({buffer})))
        return tasks

    def _weight_copy(self, work: SegmentWork) -> tuple[str, WeightWork] | None:
        """What has to come over the link for a segment."""
        op, piece = self._graph.ops[work.segment.begin], self._piece_at.get(work.segment.begin)
        if isinstance(op, TileLookup):
            load = partial(self._tables.load_tile, op.bank, op.tile, op.buffer)
            return f"{op.bank} tile {op.tile}", WeightWork(self._device, self._tables, load, self._now)
        if piece is not None:
            load = partial(self._tables.load_piece, piece)
            return f"{piece.item} prefetched", WeightWork(self._device, self._tables, load, self._now, piece)
        return None

    def _buffer_of(self, work: SegmentWork) -> str:
        """The memory, as tasks name it, that a segment's weights come into; empty where they are there."""
        op, piece = self._graph.ops[work.segment.begin], self._piece_at.get(work.segment.begin)
        if isinstance(op, TileLookup):
            return f"tile buffer {op.buffer}"
        return f"prefetch buffer {piece.buffer}" if piece is not None else ""

    def _work(self, segment: Segment) -> SegmentWork:
        return SegmentWork(self._sides[segment.on_device], self._graph, segment, self._step, self._tables)

    def _copy(self, crossing: Crossing, works: Sequence[SegmentWork], turn: int) -> CopyWork:
        source = works[crossing.producer]
        to_device = not source.segment.on_device
        stagings: list[tuple[int, Staging]] = []
        ordinals: defaultdict[tuple[int, bool], int] = defaultdict(int)
        for value in crossing.values:
            kind = self._graph.values[value], value in self._ids
            staging = self._staging(to_device, *kind, _TURNS * ordinals[kind] + turn)
            ordinals[kind] += 1
            place = len(source.outputs)
            source.outputs.append((source.side.handle(value), place, value in self._ids))
            stagings.append((place, staging))
            if crossing.consumer is not None:
                consumer = works[crossing.consumer]
                consumer.inputs.append((consumer.side.handle(value), staging))
        is_awaited = crossing.consumer is not None and not works[crossing.consumer].segment.on_device
        return CopyWork(self._device, source, stagings, is_awaited)

    def _staging(self, to_device: bool, width: int, is_ids: bool, ordinal: int) -> Staging:
        key = to_device, width, is_ids, ordinal
        if key not in self._stagings:
            name = f"staging {'on the device' if to_device else 'in RAM'} {width} {'ids' if is_ids else ''} {ordinal}"
            known = self._known_stagings.get(key)
            self._stagings[key] = known or self._device.new_staging(name, width, is_ids, to_device)
        return self._stagings[key]

    def _segment_task(self, work: SegmentWork, waits: tuple[Event, ...], signals: tuple[Event, ...]) -> Task:
        segment, side = work.segment, work.side
        ops = self._graph.ops[segment.begin : segment.end]
        name = ops[0].item if ops[0].item == ops[-1].item else f"{ops[0].item} … {ops[-1].item}"
        reads = {side.place_of(value) for op in ops for value in op.reads}
        reads |= set(filter(None, [self._buffer_of(work)]))
        writes = {side.place_of(value) for op in ops for value in op.writes}
        writes |= {f"{side.name} value {handle}" for handle, _ in work.inputs}
        writes |= {f"copy of {side.name} value {handle}, {id(work)}" for handle, _, copied in work.outputs if copied}
        return Task(
            name=name,
            lane="GPU" if segment.on_device else "CPU",
            work=work,
            waits=waits,
            signals=signals,
            cost=lambda: self._costs(work),
            reads=frozenset(reads | {staging.name for _, staging in work.inputs}),
            writes=frozenset(writes),
        )

    def _copy_task(
        self,
        works: Sequence[SegmentWork],
        crossing: Crossing,
        work: CopyWork,
        waits: tuple[Event, ...],
        signals: tuple[Event, ...],
    ) -> Task:
        source = works[crossing.producer]
        places = {place for place, _ in work.stagings}
        reads = {
            f"copy of {source.side.name} value {handle}, {id(source)}"
            if copied
            else f"{source.side.name} value {handle}"
            for handle, place, copied in source.outputs
            if place in places
        }
        direction = "to RAM" if source.segment.on_device else "to the GPU"
        return Task(
            name=f"{', '.join(crossing.values)} {direction}",
            lane="link",
            work=work,
            waits=waits,
            signals=signals,
            cost=work.cost,
            reads=frozenset(reads),
            writes=frozenset(staging.name for _, staging in work.stagings),
        )
