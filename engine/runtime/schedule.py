"""Schedule: a placed graph as tasks on streams, made once per placement and replayed for every step.

Each segment is one task: take in what came from the other side, run the operations, leave views of what goes over.
Each crossing is one task of the copy stream. An event joins a task to each later one of another stream that needs it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

from engine.models.graph import Experts, Graph, Op
from engine.runtime.devices.device import Device
from engine.runtime.devices.memory import Region
from engine.runtime.devices.streams import Event, Task
from engine.runtime.lowering import CpuProgram
from engine.runtime.placement import SlotLookup, TileLookup
from engine.runtime.prefetch import Piece
from engine.runtime.segments import Crossing, Segment, Segments
from engine.runtime.staging import Rows, Staging
from kernels._cpu import Batch, ThreadPool

COMPUTE, ACTIVATIONS, WEIGHTS, CPU = "compute", "activations", "weights", "CPU"


class StepLeft(Exception):  # noqa: N818 - it is no error
    """A segment was left between two operations, because it was asked to."""


@dataclass(slots=True, eq=False)
class Step:
    """What changes from step to step."""

    batch: Batch
    tokens: int
    interrupted: Callable[[], bool] = lambda: False


Costs = Callable[["SegmentWork"], float]
Stagings = dict[tuple[bool, int, bool, int], Staging]  # to the device?, width, ids?, number among its like
_TURNS = 2  # the copy for one segment may arrive while the one before it is still being taken in


class Tables(Protocol):
    """The banks' slots as they are for the present step."""

    def look_up(self, bank: str, ids: Rows) -> Rows:
        """Expert numbers → slots."""

    def absent(self, bank: str) -> Rows:
        """Which experts have none."""

    def look_up_tile(self, bank: str, tile: int) -> Rows:
        """What this step's experts are in a tile: their places, or -1."""

    def load_tile(self, bank: str, tile: int, buffer: int) -> int:
        """Copies a tile's experts into a buffer; the bytes copied."""

    def load_piece(self, piece: Piece) -> int:
        """Copies what is prefetched into its buffer; the bytes copied."""

    def piece_parts(self, piece: Piece) -> list[tuple[Region, int, Rows]]:
        """What that takes: where to, and from where."""

    def slots(self, bank: str) -> Rows:
        """By expert, at an address that stays: its slot or -1, as the programs know it."""

    def count_carried(self, size: int, *, to_device: bool) -> None:
        """Values of so many bytes have gone over the link."""


@dataclass(eq=False)
class Side:
    """One device's program, and the threads it runs on."""

    name: str
    program: CpuProgram
    pool: ThreadPool
    on_device: bool
    graph: Graph  # as it was captured
    device: Device | None = None  # whose program it is
    spans: dict[int, tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        starts = self.program.starts
        self.spans = {id(op): (starts[i], starts[i + 1]) for i, op in enumerate(self.graph.ops)}

    def handle(self, value: str) -> int:
        return self.program.values[value]

    def span(self, op: Op) -> tuple[int, int]:
        """Where an operation lies in the program; a look-up takes no room there."""
        return self.spans[id(op)]

    def rows(self, handle: int) -> Any:
        """A value where it is."""
        program = self.program.program
        return program.read(handle) if self.device is None else self.device.rows_of(program, handle)

    def place_of(self, value: str) -> str:
        """The memory that holds a value, as tasks name it; values of different times share some."""
        return f"{self.name} value {self.handle(value)}"


@dataclass(eq=False)
class SegmentWork:
    """Runs graph.ops[begin:end] on one side."""

    side: Side
    graph: Graph
    segment: Segment
    step: Callable[[], Step]
    tables: Tables
    inputs: list[tuple[int, Staging]] = field(default_factory=list)
    outputs: list[tuple[int, int, bool]] = field(default_factory=list)  # handle, place in `views`, to be copied
    views: dict[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Operations between which something is to be done, and where the native program is cut."""
        ops = self.graph.ops[self.segment.begin : self.segment.end]
        assert not any(isinstance(op, SlotLookup | TileLookup) for op in ops[1:]), "a lookup begins a segment"
        self.lookup = ops[0] if isinstance(ops[0], SlotLookup | TileLookup) else None
        self.begin, self.end = self.side.span(ops[0])[0], self.side.span(ops[-1])[1]
        cuts = [self.side.span(op)[0] for before, op in pairwise(ops) if op.item != before.item]
        self._cuts = [self.begin, *cuts, self.end]

    def __call__(self) -> None:
        program, step = self.side.program.program, self.step()
        for handle, staging in self.inputs:
            if len(staging.rows):
                program.write(handle, staging.rows)
        if self.lookup is not None:
            self._look_up(self.lookup)
        if self.side.on_device or step.tokens == 1:
            program.run(self.side.pool, step.batch, self.begin, self.end)
        else:
            self._run_in_parts(step)
        if self.side.device is not None:
            self.side.device.synchronize()
        for handle, place, is_copied in self.outputs:
            rows = self.side.rows(handle)
            self.views[place] = rows.copy() if is_copied else rows

    def _look_up(self, op: SlotLookup | TileLookup) -> None:
        program, handle = self.side.program.program, self.side.handle(op.ids)
        if isinstance(op, TileLookup):
            rows = self.tables.look_up_tile(op.bank, op.tile)
        else:
            came = [staging.rows for to, staging in self.inputs if to == handle]  # `read` gives as many as the last run
            ids = came[0].copy() if came else program.read(handle)
            rows = self.tables.look_up(op.bank, ids) if len(ids) else ids
            if op.bank in self.side.program.tables:
                return
        if len(rows):
            program.write(handle, rows)

    def _run_in_parts(self, step: Step) -> None:
        for first, last in pairwise(self._cuts):
            if step.interrupted():
                raise StepLeft
            self.side.program.program.run(self.side.pool, step.batch, first, last)


@dataclass(eq=False)
class CopyWork:
    """Copies a segment's views into staging."""

    device: Device
    source: SegmentWork
    stagings: list[tuple[int, Staging]]  # place in the source's views
    copied: int = 0

    def __call__(self) -> None:
        self.copied = self.device.carry([(self.source.views[place], staging) for place, staging in self.stagings])
        self.source.tables.count_carried(self.copied, to_device=not self.source.side.on_device)

    def cost(self) -> float:
        return self.device.link.seconds(self.copied)


@dataclass(eq=False)
class WeightWork:
    """Brings weights into their buffer, at the link's speed: a tile of experts, or a piece of an item."""

    device: Device
    tables: Tables
    load: Callable[[], int]  # the bytes copied
    now: Callable[[], float]
    piece: Piece | None = None
    copied: int = 0

    def __call__(self) -> None:
        began = self.now()
        self.copied = self.load()
        self.device.hold_link(WEIGHTS, self.copied, self.now() - began)

    def cost(self) -> float:
        return self.device.link.seconds(self.copied)


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """`streams`: each stream's tasks in order. `logits`: where they are in the end, where the last segment is on the
    device; None where the CPU has them."""

    streams: dict[str, tuple[Task, ...]]
    logits: Staging | None
    segments: Segments

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
        self._pieces = {piece.begin: piece for piece in pieces}
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
        streams: dict[str, list[Task]] = {CPU: [], COMPUTE: [], ACTIVATIONS: [], WEIGHTS: weights}
        for index, work in enumerate(works):
            task = self._segment_task(work, tuple(waits[index]), tuple(signals[index]))
            streams[COMPUTE if work.segment.on_device else CPU].append(task)
        streams[ACTIVATIONS] = [self._copy_task(works, *parts) for parts in copies]
        return Schedule({name: tuple(tasks) for name, tasks in streams.items()}, logits, segments)

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
        op, piece = self._graph.ops[work.segment.begin], self._pieces.get(work.segment.begin)
        if isinstance(op, TileLookup):
            load = partial(self._tables.load_tile, op.bank, op.tile, op.buffer)
            return f"{op.bank} tile {op.tile}", WeightWork(self._device, self._tables, load, self._now)
        if piece is not None:
            load = partial(self._tables.load_piece, piece)
            return f"{piece.item} prefetched", WeightWork(self._device, self._tables, load, self._now, piece)
        return None

    def _buffer_of(self, work: SegmentWork) -> str:
        """The memory, as tasks name it, that a segment's weights come into; empty where they are there."""
        op, piece = self._graph.ops[work.segment.begin], self._pieces.get(work.segment.begin)
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
        return CopyWork(self._device, source, stagings)

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
