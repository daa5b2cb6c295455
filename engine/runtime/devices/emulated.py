"""The emulated device: a GPU's memory, streams and link without a GPU.

Everything above the driver runs on it as on a card: weights and caches are copied into memory of its own, whose limit
refuses; streams are ordered queues on threads; copies take as long as a link of the set bandwidth and latency. It
computes with the CPU's kernels ("fast": whole models), or with the CUDA source on fibers ("exact": tiny ones).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from engine.runtime.devices.device import LinkRates, StepGraphs, WorkspaceNeed
from engine.runtime.devices.memory import DeviceMemory, Region
from engine.runtime.devices.streams import Clock, Stream, VirtualClock, WallClock
from engine.runtime.staging import Staging
from kernels._cpu import Program, ThreadPool

if TYPE_CHECKING:
    from engine.placement.hardware.card import CardFacts
    from engine.runtime.expert_slots import Ids
    from engine.runtime.lowering import CpuProgram
    from engine.runtime.schedule import Schedule
    from engine.runtime.work import Side

_SHORTEST_SLEEP = 1e-4  # shorter waits are saved up, because sleeping has a cost of its own


class EmulatedDevice:
    """`limit` bytes of memory; computes with `threads` threads."""

    name = "emulated"
    facts: CardFacts | None = None

    def __init__(
        self,
        limit: int,
        *,
        threads: int = 1,
        link: LinkRates | None = None,
        clock: Clock | None = None,
        granularity: int = 64 << 10,
        kernels: Literal["fast", "exact"] = "fast",
    ) -> None:
        self.kernels = kernels
        self.runs_ahead = False
        self.has_pointer_tables = kernels == "exact"
        self.label = f"emulated ({kernels} kernels)"
        self.memory = DeviceMemory(limit, granularity)
        self.link = link or LinkRates()
        self.clock: Clock = clock or WallClock()
        self.keeps_rates = isinstance(self.clock, VirtualClock)  # else it takes the time of the CPU that plays it
        self.pool = ThreadPool(threads)
        self.compute = Stream("compute", self.clock)
        self.activations = Stream("activations", self.clock)
        self.weights = Stream("weights", self.clock)
        self._owed: dict[str, float] = {}

    def new_program(self, tier: str, workspace: Region) -> Program:
        if self.kernels == "fast":
            return Program(tier)
        from kernels.cuda.host import host_kernels  # a library of its own, which only kernel tests and this need
        from kernels.cuda.memory import HostMemory
        from kernels.cuda.program import CudaProgram

        return cast(Program, CudaProgram(host_kernels(), HostMemory()))

    def workspace_bytes(self, program: CpuProgram, need: WorkspaceNeed) -> int:
        """All values that have memory of their own; logits for a few rows only."""
        values, logits = need.graph.values, need.graph.logits
        widths = {handle: values[value] for value, handle in program.values.items() if value != logits}
        return 4 * (need.tokens * sum(widths.values()) + need.outputs * values[logits])

    def prepare(self, program: CpuProgram, need: WorkspaceNeed) -> None:
        """Everything is there."""

    def forget(self, program: CpuProgram) -> None:
        """Its memory goes with it."""

    def set_table(self, program: CpuProgram, bank: str, slots: Ids) -> None:
        from kernels.cuda.program import CudaProgram

        cast(CudaProgram, program.program).set_expert_places(program.tables[bank], slots)

    def new_graphs(self, schedule: Schedule, sides: Mapping[bool, Side], table_blocks: int) -> StepGraphs | None:
        """Where native programs run, in real time."""
        if self.kernels == "exact" or isinstance(self.clock, VirtualClock):
            return None
        from engine.runtime.devices.native_step import NativeSteps

        return NativeSteps(schedule, self.link)

    def new_staging(self, name: str, width: int, is_ids: bool, on_device: bool) -> Staging:
        return Staging(name, width, is_ids, self.memory if on_device else None)

    def rows_of(self, program: Program, handle: int) -> Any:
        return program.read(handle)

    def carry(self, crossing: Sequence[tuple[Any, Staging]]) -> int:
        """At the link's speed: read when it begins, there when it ends."""
        began = time.perf_counter()
        under_way = [(staging, rows.copy()) for rows, staging in crossing]
        copied = sum(int(rows.nbytes) for _, rows in under_way)
        self.hold_link("activations", copied, time.perf_counter() - began)
        for staging, rows in under_way:
            staging.reserve(len(rows))
            staging.put(rows)
        return copied

    def follow(self, stream: str, ends: Iterable[object]) -> None:
        """All of it is done."""

    def end(self, stream: str, ends: Iterable[object], *, is_awaited: bool) -> None:
        """It is done."""

    def synchronize(self) -> None:
        """Programs have run when they return."""

    @property
    def overhead_bytes(self) -> int:
        return 0

    def rounding_bytes(self, regions: int, growing: int) -> int:
        return regions * self.memory.granularity

    @property
    def notes(self) -> tuple[str, ...]:
        return ()

    def hold_link(self, stream: str, size: int, elapsed: float) -> None:
        """Waits for as long as the link would still take."""
        if isinstance(self.clock, VirtualClock):
            return
        owed = self._owed.get(stream, 0.0) + self.link.seconds(size) - elapsed
        if owed > _SHORTEST_SLEEP:
            before = time.perf_counter()
            time.sleep(owed)
            owed -= time.perf_counter() - before
        self._owed[stream] = max(owed, -_SHORTEST_SLEEP)

    def close(self) -> None:
        for stream in (self.compute, self.activations, self.weights):
            stream.close()
