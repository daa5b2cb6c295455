"""HybridExecutor: runs chunks on CPU and device at once, as the current placement says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from engine.errors import OutOfMemoryError
from engine.memory.kv_pool import KVPool
from engine.memory.weight_store import WeightStore
from engine.models.graph import Experts, Graph
from engine.runtime.binding import Binder
from engine.runtime.devices.device import Device, StepGraph, StepGraphs, WorkspaceNeed
from engine.runtime.devices.streams import Event, InlineStream, Launch, Span, VirtualClock
from engine.runtime.executor import LARGEST_MICRO_BATCH, Chunk, Executor, Interrupted, Logits, make_batch
from engine.runtime.expert_slots import ExpertHeat
from engine.runtime.lowering import CpuProgram, capture, crossing_values
from engine.runtime.placement import (
    BUFFERS,
    Placement,
    split_experts,
    tile_experts,
    without_streaming,
)
from engine.runtime.promotion import Promoter
from engine.runtime.residency import Residency, release_tiles
from engine.runtime.schedule import (
    ACTIVATIONS,
    COMPUTE,
    CPU,
    WEIGHTS,
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
from engine.runtime.step_times import StepTime, StepTimes
from engine.runtime.step_watch import StepWatch
from engine.runtime.streaming import FEWEST_TOKENS, Tiles
from engine.runtime.trace import MOST_SPANS
from kernels._cpu import ThreadPool

_FIRST_MICRO_BATCH = 128
_LEAST_WORKSPACE = 4 << 30  # of addresses, for budgets that grow
_GLANCE = 0.02  # seconds between two looks at `interrupted` while waiting for the device
_PATIENT_STEP = 0.25  # seconds of a step below which larger ones are tried
_LOGIT_ROWS = 8  # answers at once
_STAGED_AT_ONCE = 4  # values that go to the device between the same two segments, twice


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
        self._binder = Binder(graph, weights, kv, self.residency)
        self.heat = ExpertHeat(self.residency.expert_counts)
        self.promoter = Promoter(self.residency, self.heat)
        self.micro_batch = _FIRST_MICRO_BATCH
        self.trace: list[Span] | None = None  # what ran, where that is wanted
        self.trace_path: Path | None = None  # where it is written in the end
        self.watch = StepWatch()
        self.times = StepTimes()
        self.placement = Placement()
        self.schedule: Schedule | None = None
        self.prefill_schedule: Schedule | None = None
        self._tiles = Tiles({})
        self._is_streaming = False
        self._kv = kv
        self._tier = tier
        self._costs = costs
        self._now = 0.0  # on a virtual clock: when the last step ended
        self._cpu_stream = InlineStream(CPU, device.clock)
        self._step: Step | None = None
        self._rows = (0, 0)
        self._graphs: StepGraphs | None = None
        self._stagings: Stagings = {}
        self._workspace = device.memory.reserve(max(device.memory.limit, _LEAST_WORKSPACE), "Workspace")
        self._sides: dict[bool, Side] = {}
        self._plain: Executor | None = None
        self.lower(self.placement)

    # --- lowering ---------------------------------------------------------------------------------------------

    def lower(self, placement: Placement) -> None:
        """Makes programs and schedule for what the residency holds. On an error everything is as before."""
        if not placement.uses_device:
            program = self._capture(self.graph, frozenset())
            self._binder.bind_cpu(program)
            plain = Executor(program, self.pool, self.weights.check_unchanged)
            self._switch(placement, None, {}, plain)
            self._release_workspace()
            self.residency.set_tiles([])
            return
        graph = split_experts(self.graph, placement)
        crossing = crossing_values(graph)
        sides = {
            False: Side("CPU", self._capture(graph, crossing), self.pool, False, graph),
            True: Side("GPU", self._capture(graph, crossing, self.device), self.device.pool, True, graph, self.device),
        }
        sizes = {op.item: tile_experts(self.graph, op) for op in self.graph.ops if isinstance(op, Experts)}
        tiles = self.residency.allocate_tiles({bank: sizes[bank] for bank, n in placement.streamed.items() if n})
        stagings: Stagings = {}
        try:
            self._binder.bind_cpu(sides[False].program)
            self._binder.bind_device(sides[True].program, graph, placement, tiles)
            decode = self._schedule(without_streaming(graph), placement, sides, stagings)
            prefill = self._schedule(graph, placement, sides, stagings) if tiles else None
            self.device.prepare(sides[True].program, self._need(graph))
            self._reserve(sides[True].program, graph, stagings)
        except BaseException:
            if tiles is not self.residency.tiles:
                release_tiles(tiles)
            raise
        for key in self._stagings.keys() - stagings.keys():
            self._stagings[key].release()
        self._stagings = stagings
        self.residency.set_tiles(tiles)
        self._tiles = Tiles(sizes)
        self._switch(placement, decode, sides, None)
        self._graphs = self.device.new_graphs(decode, sides, self._kv.blocks)
        self.prefill_schedule = prefill
        self.apply_tables(placement.slots)

    def _schedule(self, graph: Graph, placement: Placement, sides: dict[bool, Side], stagings: Stagings) -> Schedule:
        known = self._stagings | stagings
        scheduler = Scheduler(
            graph, sides, self.device, lambda: self._current, self, time.perf_counter, known, stagings, self._costs
        )
        return scheduler.schedule(place(graph, placement))

    def _reserve(self, program: CpuProgram, graph: Graph, stagings: Stagings) -> None:
        """Device memory for what lies between operations, so that no step can fail for want of it."""
        new = [staging for key, staging in stagings.items() if key[0] and key not in self._stagings]
        try:
            for staging in new:
                staging.reserve(LARGEST_MICRO_BATCH)
            size = self.device.workspace_bytes(program, self._need(graph))
            self._workspace.resize(min(self._workspace.capacity, size))
        except BaseException:
            for staging in new:
                staging.release()
            raise

    def _need(self, graph: Graph) -> WorkspaceNeed:
        return WorkspaceNeed(graph, LARGEST_MICRO_BATCH, _LOGIT_ROWS, self._kv.blocks, self._kv.block_tokens)

    def _release_workspace(self) -> None:
        for staging in self._stagings.values():
            staging.release()
        self._stagings = {}
        self._workspace.resize(0)

    def _capture(self, graph: Graph, crossing: frozenset[str], device: Device | None = None) -> CpuProgram:
        return capture(
            graph,
            kv_type=self._kv.quant_type,
            block_tokens=self._kv.block_tokens,
            tier=self._tier,
            crossing=crossing,
            program=device.new_program(self._tier, self._workspace) if device is not None else None,
            has_tables=device is not None and device.has_pointer_tables,
        )

    def _switch(
        self, placement: Placement, schedule: Schedule | None, sides: dict[bool, Side], plain: Executor | None
    ) -> None:
        if self._graphs is not None:
            self._graphs.close()
            self._graphs = None
        before, self._sides = self._sides, sides
        self.placement, self.schedule, self._plain = placement, schedule, plain
        if before:
            self.device.forget(before[True].program)
        self.prefill_schedule = None
        self._rows = (0, 0)
        self.watch.forget()

    def apply_tables(self, banks: Iterable[str]) -> None:
        """Tells the CPU's program which experts it computes, those that are absent from their tables; and the device's
        where it finds the others."""
        if self._sides:
            cpu, device = self._sides[False].program, self._sides[True].program
            for bank in banks:
                if bank in cpu.masks:
                    cpu.program.set_expert_mask(cpu.masks[bank], self.absent(bank))
                if bank in device.tables:
                    self.device.set_table(device, bank, self.residency.banks[bank].table.slots)
        self.promoter.changed.clear()

    def _prepare_streaming(self, tokens: int) -> Schedule:
        """Chooses the schedule for a step; where that streams, also what, and takes it from the CPU."""
        assert self.schedule is not None
        streams = self.prefill_schedule is not None and tokens >= FEWEST_TOKENS
        if streams:
            tables = {bank: memory.table for bank, memory in self.residency.banks.items()}
            self._tiles.choose(self.placement.streamed, tables, self.heat)
        if streams or self._is_streaming:
            self._is_streaming = streams
            self.apply_tables(self.placement.streamed)
        return self.prefill_schedule if streams and self.prefill_schedule is not None else self.schedule

    @property
    def workspace_charged(self) -> int:
        """Device memory in use for what lies between operations."""
        tiles = sum(region.charged for buffer in self.residency.tiles for region in buffer)
        return self._workspace.charged + sum(staging.charged for staging in self._stagings.values()) + tiles

    @property
    def overhead_bytes(self) -> int:
        """Device memory that any placement takes beside what it places: workspace, staging, and rounding up."""
        banks = [op.item for op in self.graph.ops if isinstance(op, Experts)]
        graph = split_experts(self.graph, Placement(slots=dict.fromkeys(banks, 1)))
        crossing = crossing_values(graph)
        program = self._capture(graph, crossing, self.device)
        widest = sorted((4 * graph.values[value] for value in crossing), reverse=True)
        staging = _STAGED_AT_ONCE * LARGEST_MICRO_BATCH * sum(widest[:_STAGED_AT_ONCE])
        regions = len(self.graph.weights) + 3 * len(self.graph.kv_layers) + _STAGED_AT_ONCE
        rounding = self.device.rounding_bytes(regions, 3 * len(banks) + 2 * _STAGED_AT_ONCE)
        workspace = self.device.workspace_bytes(program, self._need(graph))
        return self.device.overhead_bytes + workspace + staging + rounding + BUFFERS * self._largest_tile

    @property
    def _largest_tile(self) -> int:
        banks = [op for op in self.graph.ops if isinstance(op, Experts)]
        return max((self.residency.expert_bytes(op.item) * tile_experts(self.graph, op) for op in banks), default=0)

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
            span = Span("CPU", CPU, "all operations", began, ended)
            if self.watch.begin(tokens) is not None:
                self.watch.end(tokens, [span])
            if self.trace is not None:
                self.trace.append(span)
            return logits
        outputs = sum(chunk.outputs for chunk in chunks)
        self.promoter.trace = self.trace
        self.promoter.settle()
        self.apply_tables(self.promoter.changed)
        self._step = Step(make_batch(chunks), tokens, interrupted)
        self._make_room(tokens, outputs)
        watched = self.watch.begin(tokens)
        traced = self.trace is not None and len(self.trace) < MOST_SPANS
        launch = Launch(self._now, spans=self.trace if watched is None and traced else watched)
        schedule = self._prepare_streaming(tokens)
        graph = self._graphs.step(self._step.batch) if self._graphs is not None and schedule is self.schedule else None
        if graph is not None:
            self._note_graph(graph, launch, began)
        else:
            self._replay(schedule, launch, interrupted)
        if launch.is_left or isinstance(launch.failure, StepLeft):
            raise Interrupted
        self._raise_failure(launch, tokens)
        self.weights.check_unchanged()
        seconds = time.perf_counter() - began
        if isinstance(self.device.clock, VirtualClock):
            seconds, self._now = max(launch.ends.values()) - self._now, max(launch.ends.values())
            self.promoter.now = self._now
        self.times.append(StepTime(tokens, seconds, launch.busy))
        if watched is not None:
            self.watch.end(tokens, watched)
            if self.trace is not None and traced:
                self.trace.extend(watched)
        self._adapt(tokens, seconds)
        self.promoter.after_step(tokens)
        if schedule.logits is not None:
            rows: Logits = schedule.logits.rows
            return rows if outputs else rows[:0]
        cpu = self._sides[False].program
        return cpu.program.read(cpu.logits)

    def _replay(self, schedule: Schedule, launch: Launch, interrupted: Callable[[], bool]) -> None:
        """Launches every stream's tasks; returns when all have ended."""
        streams = schedule.streams
        waiting: list[Event] = []
        if streams[WEIGHTS]:
            waiting.append(self.device.weights.launch(streams[WEIGHTS], launch))
        if streams[COMPUTE]:
            waiting.append(self.device.compute.launch(streams[COMPUTE], launch))
        if streams[ACTIVATIONS]:
            waiting.append(self.device.activations.launch(streams[ACTIVATIONS], launch))
        self._cpu_stream.launch(streams[CPU], launch)
        for done in waiting:
            while not done.is_set_within(_GLANCE):
                launch.is_left = launch.is_left or interrupted()

    def _note_graph(self, graph: StepGraph, launch: Launch, began: float) -> None:
        """What tasks would have told of a step that ran as a whole."""
        self.promoter.note_all(graph.used)
        to_device, to_host = graph.copied
        self.residency.traffic.count(to_device)
        self.residency.traffic.count(to_host, to_device=False)
        ended, on_cpu = time.perf_counter(), graph.cpu_seconds
        launch.busy["CPU" if on_cpu else "GPU"] = on_cpu or ended - began
        if launch.spans is not None:
            launch.spans.append(Span("GPU", COMPUTE, "captured step", began, ended))
            launch.spans += [Span("CPU", CPU, *span) for span in graph.cpu_spans()]

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
        """For the present step's tasks: which experts the CPU computes."""
        absent: Rows = self.residency.banks[bank].table.absent
        if self._is_streaming and self.placement.streamed.get(bank):
            absent = absent & ~self._tiles.is_streamed(bank)
        return absent

    def look_up_tile(self, bank: str, tile: int) -> Rows:
        """For the present step's tasks: places of its experts in a tile."""
        return self._tiles.look_up(bank, tile, self.promoter.used(bank))

    def load_tile(self, bank: str, tile: int, buffer: int) -> int:
        """For the present step's tasks: fills a buffer with a tile."""
        return self.residency.load_tile(bank, self._tiles.experts(bank, tile), buffer)

    def count_carried(self, size: int, *, to_device: bool) -> None:
        """For the present step's tasks."""
        self.residency.traffic.count(size, to_device=to_device)

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
        self._switch(Placement(), None, {}, None)
        self._release_workspace()
        self.residency.close()
        self.device.close()
