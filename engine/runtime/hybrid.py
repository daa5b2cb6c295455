"""HybridExecutor: runs chunks on CPU and device at once, as the current placement says."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import OutOfMemoryError
from engine.memory.kv_pool import KVPool
from engine.memory.weight_store import WeightStore
from engine.models.graph import Graph, Op
from engine.runtime.devices.device import Device
from engine.runtime.devices.streams import Event, InlineStream, Launch, Span, VirtualClock
from engine.runtime.executor import LARGEST_MICRO_BATCH, Chunk, Executor, Interrupted, Logits, make_batch
from engine.runtime.expert_slots import ExpertHeat
from engine.runtime.lowering import CpuProgram, capture, crossing_values
from engine.runtime.placement import HITS, Placement, split_experts
from engine.runtime.promotion import Promoter
from engine.runtime.residency import Residency, op_weights
from engine.runtime.schedule import (
    ACTIVATIONS,
    COMPUTE,
    CPU,
    Costs,
    Schedule,
    Scheduler,
    Side,
    Stagings,
    Step,
    StepLeft,
)
from engine.runtime.segments import place
from engine.runtime.staging import Rows
from engine.runtime.trace import MOST_SPANS, write_trace
from kernels._cpu import ThreadPool

_FIRST_MICRO_BATCH = 128
_GLANCE = 0.02  # seconds between two looks at `interrupted` while waiting for the device
_PATIENT_STEP = 0.25  # seconds of a step below which larger ones are tried
_KEPT_TIMES = 64
_LOGIT_ROWS = 8  # answers at once
_STAGED_AT_ONCE = 4  # values that go to the device between the same two segments, twice


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long a step took, and how long each lane worked in it."""

    tokens: int
    seconds: float
    busy: dict[str, float]


class HybridExecutor:
    """Has the face of `Executor`. `lower` makes a new placement effective; only between steps."""

    def __init__(
        self,
        graph: Graph,
        device: Device,
        weights: WeightStore,
        kv: KVPool,
        pool: ThreadPool,
        *,
        tier: str = "auto",
        costs: Costs = lambda work: 0.0,
    ) -> None:
        self.graph = graph
        self.device = device
        self.pool = pool
        self.weights = weights
        self.residency = Residency(graph, device, weights, kv)
        self.heat = ExpertHeat(self.residency.expert_counts)
        self.promoter = Promoter(self.residency, self.heat)
        self.micro_batch = _FIRST_MICRO_BATCH
        self.trace: list[Span] | None = None  # what ran, where that is wanted
        self.trace_path: Path | None = None  # where it is written in the end
        self.times: deque[StepTime] = deque(maxlen=_KEPT_TIMES)
        self.placement = Placement()
        self.schedule: Schedule | None = None
        self._kv = kv
        self._tier = tier
        self._costs = costs
        self._now = 0.0  # on a virtual clock: when the last step ended
        self._cpu_stream = InlineStream(CPU, device.clock)
        self._step: Step | None = None
        self._rows = (0, 0)
        self._stagings: Stagings = {}
        self._workspace = device.memory.reserve(device.memory.limit, "Workspace")
        self._sides: dict[bool, Side] = {}
        self._plain: Executor | None = None
        self.lower(self.placement)

    # --- lowering ---------------------------------------------------------------------------------------------

    def lower(self, placement: Placement) -> None:
        """Makes programs and schedule for what the residency holds. On an error everything is as before."""
        if not placement.uses_device:
            program = self._capture(self.graph, frozenset())
            self._bind_cpu(program)
            plain = Executor(program, self.pool, self.weights.check_unchanged)
            self._switch(placement, None, {}, plain)
            self._release_workspace()
            return
        graph = split_experts(self.graph, placement)
        crossing = crossing_values(graph)
        sides = {
            False: Side("CPU", self._capture(graph, crossing), self.pool, False),
            True: Side("GPU", self._capture(graph, crossing), self.device.pool, True),
        }
        self._bind_cpu(sides[False].program)
        self._bind_device(sides[True].program, graph, placement)
        stagings: Stagings = {}
        now = time.perf_counter
        scheduler = Scheduler(
            graph, sides, self.device, lambda: self._current, self, now, self._stagings, stagings, self._costs
        )
        schedule = scheduler.schedule(place(graph, placement))
        self._reserve(sides[True].program, graph, stagings)
        for key in self._stagings.keys() - stagings.keys():
            self._stagings[key].release()
        self._stagings = stagings
        self._switch(placement, schedule, sides, None)
        self.apply_tables(placement.slots)

    def _reserve(self, program: CpuProgram, graph: Graph, stagings: Stagings) -> None:
        """Device memory for what lies between operations, so that no step can fail for want of it."""
        new = [staging for key, staging in stagings.items() if key[0] and key not in self._stagings]
        try:
            for staging in new:
                staging.reserve(LARGEST_MICRO_BATCH)
            self._workspace.resize(min(self._workspace.capacity, workspace_bytes(program, graph)))
        except BaseException:
            for staging in new:
                staging.release()
            raise

    def _release_workspace(self) -> None:
        for staging in self._stagings.values():
            staging.release()
        self._stagings = {}
        self._workspace.resize(0)

    def _capture(self, graph: Graph, crossing: frozenset[str]) -> CpuProgram:
        return capture(
            graph,
            kv_type=self._kv.quant_type,
            block_tokens=self._kv.block_tokens,
            tier=self._tier,
            crossing=crossing,
        )

    def _switch(
        self, placement: Placement, schedule: Schedule | None, sides: dict[bool, Side], plain: Executor | None
    ) -> None:
        self.placement, self.schedule, self._sides, self._plain = placement, schedule, sides, plain
        self._rows = (0, 0)

    def _bind_cpu(self, program: CpuProgram) -> None:
        """The CPU can compute everything: its weights are the file's, which cost nothing until they are read."""
        known = {name: handle for name, handle in program.weights.items() if name in self.graph.weights}
        self.weights.bind(program.program, known)
        self._bind_caches(program)

    def _bind_caches(self, program: CpuProgram) -> None:
        for index, handle in enumerate(program.kv_layers):
            program.program.bind_kv(handle, *self._kv.layer(index))

    def _bind_device(self, program: CpuProgram, graph: Graph, placement: Placement) -> None:
        for op in graph.ops:
            if placement.is_on_device(op.item):
                for name, memory in self._device_weights(op).items():
                    if name in program.weights:
                        program.program.bind_weight(program.weights[name], memory)
        self._bind_caches(program)

    def _device_weights(self, op: Op) -> dict[str, Rows]:
        if op.item.endswith(HITS):
            names = op_weights(op)
            held = self.residency.bank_weights(op.item.removesuffix(HITS))
            return {name: held[name.partition("#")[0]] for name in names}
        held = self.residency.item_weights(op.item)
        return {name: held[name] for name in op_weights(op)}

    def apply_tables(self, banks: Iterable[str]) -> None:
        """Tells the CPU's program which experts it computes: those that are absent from their tables."""
        if self._sides:
            cpu = self._sides[False].program
            for bank in banks:
                if bank in cpu.masks:
                    cpu.program.set_expert_mask(cpu.masks[bank], self.residency.banks[bank].table.absent)
        self.promoter.changed.clear()

    @property
    def workspace_charged(self) -> int:
        """Device memory in use for what lies between operations."""
        return self._workspace.charged + sum(staging.charged for staging in self._stagings.values())

    @property
    def overhead_bytes(self) -> int:
        """Device memory that any placement takes beside what it places: workspace, staging, and rounding up."""
        crossing = crossing_values(self.graph)
        program = self._capture(self.graph, crossing)
        widest = sorted((4 * self.graph.values[value] for value in crossing), reverse=True)
        staging = _STAGED_AT_ONCE * LARGEST_MICRO_BATCH * sum(widest[:_STAGED_AT_ONCE])
        regions = len(self.graph.weights) + 3 * len(self.graph.kv_layers) + _STAGED_AT_ONCE
        return workspace_bytes(program, self.graph) + staging + regions * self.device.memory.granularity

    # --- steps ------------------------------------------------------------------------------------------------

    def run(self, chunks: Sequence[Chunk], interrupted: Callable[[], bool] = lambda: False) -> Logits:
        """As `Executor.run`. A failure on any device ends the step; the state before it is intact."""
        tokens = sum(len(chunk.tokens) for chunk in chunks)
        began = time.perf_counter()
        if self._plain is not None:
            self._plain.micro_batch = self.micro_batch
            logits = self._plain.run(chunks, interrupted)
            self.micro_batch = self._plain.micro_batch
            ended = time.perf_counter()
            self.times.append(StepTime(tokens, ended - began, {"CPU": ended - began}))
            if self.trace is not None:
                self.trace.append(Span("CPU", CPU, "all operations", began, ended))
            return logits
        outputs = sum(chunk.outputs for chunk in chunks)
        self.promoter.trace = self.trace
        self.promoter.settle()
        self.apply_tables(self.promoter.changed)
        self._step = Step(make_batch(chunks), tokens, interrupted)
        self._make_room(tokens, outputs)
        launch = Launch(self._now, spans=self.trace if self.trace is None or len(self.trace) < MOST_SPANS else None)
        self._replay(launch, interrupted)
        if launch.is_left or isinstance(launch.failure, StepLeft):
            raise Interrupted
        self._raise_failure(launch, tokens)
        self.weights.check_unchanged()
        seconds = time.perf_counter() - began
        if isinstance(self.device.clock, VirtualClock):
            seconds, self._now = max(launch.ends.values()) - self._now, max(launch.ends.values())
            self.promoter.now = self._now
        self.times.append(StepTime(tokens, seconds, launch.busy))
        self._adapt(tokens, seconds)
        self.promoter.after_step(tokens)
        assert self.schedule is not None
        if self.schedule.logits is not None:
            return self.schedule.logits.rows if outputs else self.schedule.logits.rows[:0]
        cpu = self._sides[False].program
        return cpu.program.read(cpu.logits)

    def _replay(self, launch: Launch, interrupted: Callable[[], bool]) -> None:
        """Launches every stream's tasks; returns when all have ended."""
        assert self.schedule is not None
        streams = self.schedule.streams
        waiting: list[Event] = []
        if streams[COMPUTE]:
            waiting.append(self.device.compute.launch(streams[COMPUTE], launch))
        if streams[ACTIVATIONS]:
            waiting.append(self.device.activations.launch(streams[ACTIVATIONS], launch))
        self._cpu_stream.launch(streams[CPU], launch)
        for done in waiting:
            while not done.is_set_within(_GLANCE):
                launch.is_left = launch.is_left or interrupted()

    def _make_room(self, tokens: int, outputs: int) -> None:
        """Runs nothing for the batch: the programs make room for its values, which later would lose what is in them."""
        most = max(tokens, self._rows[0]), max(outputs, self._rows[1])
        if most == self._rows:
            return
        for side in self._sides.values():
            side.program.program.run(side.pool, self._current.batch, 0, 0)
        self._rows = most

    @property
    def _current(self) -> Step:
        assert self._step is not None
        return self._step

    def look_up(self, bank: str, ids: Rows) -> Rows:
        """For the present step's tasks: slots of the experts it uses."""
        self.promoter.note(bank, ids)
        return self.residency.banks[bank].table.lookup(ids)

    def absent(self, bank: str) -> Rows:
        """For the present step's tasks: which experts have no slot."""
        return self.residency.banks[bank].table.absent

    @staticmethod
    def _raise_failure(launch: Launch, tokens: int) -> None:
        if isinstance(launch.failure, MemoryError):
            raise OutOfMemoryError(
                f"There is no memory left to compute {tokens} tokens at once.",
                done="What was said so far is kept.",
                remedy="Close other programs, or choose a shorter context.",
            ) from launch.failure
        launch.check()

    def _adapt(self, tokens: int, seconds: float) -> None:
        if tokens >= self.micro_batch and seconds < _PATIENT_STEP:
            self.micro_batch = min(LARGEST_MICRO_BATCH, 2 * self.micro_batch)

    def close(self) -> None:
        """Ends the device's streams and gives its memory back. Nobody may read the caches afterwards."""
        self.promoter.finish()
        self.device.close()
        if self.trace is not None and self.trace_path is not None:
            write_trace(self.trace, self.trace_path)
        self._sides, self._plain = {}, None
        self._release_workspace()
        self.residency.close()


def workspace_bytes(program: CpuProgram, graph: Graph) -> int:
    """Of the largest micro-batch: all values that have memory of their own; logits for a few rows only."""
    widths = {handle: graph.values[value] for value, handle in program.values.items() if value != graph.logits}
    return 4 * (LARGEST_MICRO_BATCH * sum(widths.values()) + _LOGIT_ROWS * graph.values[graph.logits])
