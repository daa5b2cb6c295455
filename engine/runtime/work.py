"""Work: what the tasks of a step do, each on its own side: run a segment, copy activations, bring weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from engine.models.graph import Graph, Op
from engine.runtime.devices.device import Device
from engine.runtime.devices.memory import Region
from engine.runtime.lowering import CpuProgram
from engine.runtime.placement import SlotLookup, TileLookup
from engine.runtime.prefetch import Piece
from engine.runtime.segments import Segment
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
    is_timed: bool = True  # what each task takes is wanted, so the host waits for each


Costs = Callable[["SegmentWork"], float]


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
    is_awaited: bool = False  # by the host: others than the device's own streams need its end

    def __post_init__(self) -> None:
        """Operations between which something is to be done, and where the native program is cut."""
        ops = self.graph.ops[self.segment.begin : self.segment.end]
        assert not any(isinstance(op, SlotLookup | TileLookup) for op in ops[1:]), "a lookup begins a segment"
        self.lookup = ops[0] if isinstance(ops[0], SlotLookup | TileLookup) else None
        self.begin, self.end = self.side.span(ops[0])[0], self.side.span(ops[-1])[1]
        cuts = [self.side.span(op)[0] for before, op in pairwise(ops) if op.item != before.item]
        self._cuts = [self.begin, *cuts, self.end]

    def __call__(self) -> None:
        program, step, device = self.side.program.program, self.step(), self.side.device
        if device is not None:
            device.follow(COMPUTE, (staging for _, staging in self.inputs))
        for handle, staging in self.inputs:
            if len(staging.rows):
                program.write(handle, staging.rows)
        if self.lookup is not None:
            self._look_up(self.lookup)
        if self.side.on_device or step.tokens == 1:
            program.run(self.side.pool, step.batch, self.begin, self.end)
        else:
            self._run_in_parts(step)
        if device is not None:
            device.end(COMPUTE, (self,), is_awaited=self.is_awaited or step.is_timed)
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
    is_awaited: bool = False  # by the host: the CPU needs its end
    copied: int = 0

    def __call__(self) -> None:
        self.device.follow(ACTIVATIONS, (self.source,))
        self.copied = self.device.carry([(self.source.views[place], staging) for place, staging in self.stagings])
        stagings = (staging for _, staging in self.stagings)
        self.device.end(ACTIVATIONS, stagings, is_awaited=self.is_awaited or self.source.step().is_timed)
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
