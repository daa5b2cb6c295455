"""The cuda device: memory, streams and copies of an NVIDIA GPU, through its driver.

A task is launched from the thread of its stream. It ends when the card has done it where the host waits for that, else
when it is launched: the card's streams wait for each other by events. Steps of few tokens are captured into CUDA graphs
instead; see step_graph.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from engine.placement.hardware.card import CardFacts
from engine.runtime.devices.cuda.card import Card
from engine.runtime.devices.cuda.copies import Copies, PinnedMemory, pinned_cap
from engine.runtime.devices.cuda.graphs import MOST_GRAPHS, Graphs
from engine.runtime.devices.cuda.hand_over import FLAG_KERNELS, prefers_flags
from engine.runtime.devices.cuda.memory import CudaMemory, CudaRegion
from engine.runtime.devices.cuda.programs import largest_batches, new_program
from engine.runtime.devices.cuda.staging import CudaStaging
from engine.runtime.devices.device import LinkRates, StepGraphs, WorkspaceNeed
from engine.runtime.devices.memory import DeviceMemory, Region
from engine.runtime.devices.streams import Clock, Stream, WallClock
from engine.runtime.expert_slots import Ids
from engine.runtime.lowering import CpuProgram
from engine.runtime.schedule import Schedule
from engine.runtime.staging import Staging
from engine.runtime.work import ACTIVATIONS, COMPUTE, Side
from kernels._cpu import Program, ThreadPool
from kernels.cuda.driver import Driver, DriverKernels
from kernels.cuda.footprint import Footprint
from kernels.cuda.program import CudaProgram

_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
KERNEL_BYTES = 32 << 20  # planned for compiled kernels: a model's are some megabytes, and drivers charge whole chunks


class CudaDevice:
    """`limit` bytes of the card's memory at most, context included; by default what is free now, less `headroom`.
    Compiled kernels are kept in the folder `cache`. LaunchError where the driver refuses."""

    has_pointer_tables = True
    runs_ahead = True
    keeps_rates = True

    def __init__(
        self, driver: Driver, cache: Path, facts: CardFacts, limit: int | None = None, headroom: int = 0
    ) -> None:
        self.facts: CardFacts | None = facts
        self.card = Card(driver, facts.index)
        self.name = f"cuda:{self.card.index}"
        self.label = facts.name
        self.pinned = PinnedMemory(self.card, pinned_cap())
        copies = Copies(self.card, self.pinned)
        most = max(0, self.card.free_bytes - headroom)
        self.chunks = CudaMemory(self.card, copies, most if limit is None else limit)
        self.memory: DeviceMemory = self.chunks
        self.copies = copies
        self.kernels = DriverKernels(driver, cache, facts.index)
        self.hands_over_by_flags = prefers_flags(driver, self.card.index)
        self._ends: dict[object, int] = {}  # of tasks that nobody here waits for: events, by what ended with them
        self.card.on_rest.append(self.kernels.unload)
        self.card.on_rest.append(self._forget_ends)
        self.link = LinkRates()
        self.clock: Clock = WallClock()
        self.pool = ThreadPool(1)  # of no use here: the card computes
        self.compute = Stream("compute", self.clock)
        self.activations = Stream("activations", self.clock)
        self.weights = Stream("weights", self.clock)

    def new_program(self, tier: str, workspace: Region) -> Program:
        return cast(Program, new_program(self.card, self.pinned, self.kernels, cast(CudaRegion, workspace)))

    def workspace_bytes(self, program: CpuProgram, need: WorkspaceNeed) -> int:
        prompt, few = _footprints(program, need)
        return prompt.bytes + MOST_GRAPHS * few.bytes

    def forget(self, program: CpuProgram) -> None:
        cast(CudaProgram, program.program).close()
        self._forget_ends()

    def _forget_ends(self) -> None:
        for event in self._ends.values():
            self.card.call("cuEventDestroy_v2", event)
        self._ends.clear()

    def set_table(self, program: CpuProgram, bank: str, slots: Ids) -> None:
        cast(CudaProgram, program.program).set_expert_places(program.tables[bank], slots)

    def new_graphs(self, schedule: Schedule, sides: Mapping[bool, Side], table_blocks: int) -> StepGraphs | None:
        return Graphs(self.card, self.pinned, schedule, sides, table_blocks, self.hands_over_by_flags)

    def new_staging(self, name: str, width: int, is_ids: bool, on_device: bool) -> Staging:
        return CudaStaging(name, width, is_ids, self.card, self.pinned, self.chunks if on_device else None)

    def rows_of(self, program: Program, handle: int) -> Any:
        return cast(CudaProgram, program).rows(handle)

    def carry(self, crossing: Sequence[tuple[Any, Staging]]) -> int:
        copied = 0
        for rows, staging in crossing:
            staging.reserve(len(rows))
            copied += staging.put(rows)
        return copied

    def follow(self, stream: str, ends: Iterable[object]) -> None:
        for end in ends:
            if end in self._ends:
                self.card.call("cuStreamWaitEvent", self.card.streams[stream], self._ends[end], 0)

    def end(self, stream: str, ends: Iterable[object], *, is_awaited: bool) -> None:
        if is_awaited:
            self.card.synchronize(stream)
            return
        for end in ends:
            if end not in self._ends:
                self._ends[end] = self.card.make("cuEventCreate", _NO_TIMING)
            self.card.call("cuEventRecord", self._ends[end], self.card.streams[stream])

    def synchronize(self) -> None:
        for stream in (COMPUTE, ACTIVATIONS):
            self.card.synchronize(stream)

    def prepare(self, program: CpuProgram, need: WorkspaceNeed) -> None:
        flags = frozenset(FLAG_KERNELS if self.hands_over_by_flags else ())
        names = flags.union(*(footprint.kernels for footprint in _footprints(program, need)))
        self.chunks.load_kernels(lambda: self.kernels.load(sorted(names)))

    def hold_link(self, stream: str, size: int, elapsed: float) -> None:
        """The link is real."""

    @property
    def overhead_bytes(self) -> int:
        """Of any placement beside what the executor counts: context, kernels, chunks that are half used."""
        return self.card.context_bytes + KERNEL_BYTES

    def rounding_bytes(self, regions: int, growing: int) -> int:
        """A region that cannot grow shares its last chunk with the next."""
        return regions * self.memory.granularity + (growing + 2) * self.chunks.chunk_bytes

    @property
    def notes(self) -> tuple[str, ...]:
        """What its owner should know."""
        if self.card.is_awake and not self.copies.is_pinned:
            return ("The system pins no memory, so copies to the GPU are slower than its link.",)
        return ()

    def close(self) -> None:
        for stream in (self.compute, self.activations, self.weights):
            stream.close()
        self.card.rest()


def _footprints(program: CpuProgram, need: WorkspaceNeed) -> list[Footprint]:
    return [cast(CudaProgram, program.program).footprint(batch) for batch in largest_batches(need)]
