"""HybridExecutor: runs chunks on CPU and device at once, as the current placement says."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.errors import DeviceFailedError, OutOfMemoryError
from engine.memory.kv_pool import KVPool
from engine.memory.weight_store import WeightStore
from engine.models.graph import Graph
from engine.runtime.captured import segments_of
from engine.runtime.devices.device import Device, StepGraph, StepGraphs
from engine.runtime.devices.streams import Event, InlineStream, Launch, Span, VirtualClock
from engine.runtime.executor import ANSWERING, LARGEST_MICRO_BATCH, Chunk, Executor, Interrupted, Logits, make_batch
from engine.runtime.expert_slots import ExpertHeat
from engine.runtime.hybrid_lowering import HybridLowering, Lowered
from engine.runtime.placement import Placement
from engine.runtime.promotion import Promoter
from engine.runtime.residency import Residency
from engine.runtime.schedule import Schedule
from engine.runtime.step_tables import StepTables
from engine.runtime.step_times import StepTime, StepTimes
from engine.runtime.step_watch import StepWatch
from engine.runtime.streaming import FEWEST_TOKENS
from engine.runtime.trace import MOST_SPANS
from engine.runtime.work import ACTIVATIONS, COMPUTE, CPU, WEIGHTS, Costs, Side, Step, StepLeft
from kernels._cpu import ThreadPool
from kernels.cuda.kernel_set import LaunchError

_FIRST_MICRO_BATCH = 128
_GLANCE = 0.02  # seconds between two looks at `interrupted` while waiting for the device
_PATIENT_STEP = 0.25  # seconds of a step below which larger ones are tried


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
        self.watch = StepWatch()
        self.times = StepTimes()
        self.placement = Placement()
        self.schedule: Schedule | None = None
        self.prefill_schedule: Schedule | None = None
        self._blocks = kv.blocks
        self._now = 0.0  # on a virtual clock: when the last step ended
        self._cpu_stream = InlineStream(CPU, device.clock)
        self._step: Step | None = None
        self._rows = (0, 0)
        self._graphs: StepGraphs | None = None
        self._sides: dict[bool, Side] = {}
        self._plain: Executor | None = None
        self._tables = StepTables(device, self.residency, self.heat, self.promoter)
        self._lowering = HybridLowering(
            graph, device, weights, kv, self.residency, pool, self._tables, lambda: self._current, tier, costs
        )
        self.lower(self.placement)

    # --- placement --------------------------------------------------------------------------------------------

    def lower(self, placement: Placement) -> None:
        """Makes programs and schedules for what the residency holds. On an error everything is as before."""
        if not placement.uses_device:
            plain = Executor(self._lowering.lower_for_cpu(), self.pool, self.weights.check_unchanged)
            self._switch(placement, None, plain)
            self._lowering.release()
            return
        lowered = self._lowering.lower(placement)
        self._switch(placement, lowered, None)
        self._graphs = self.device.new_graphs(lowered.decode, lowered.sides, self._blocks)

    def _switch(self, placement: Placement, lowered: Lowered | None, plain: Executor | None) -> None:
        if self._graphs is not None:
            self._graphs.close()
            self._graphs = None
        before = self._sides
        self._sides = lowered.sides if lowered is not None else {}
        self.schedule = lowered.decode if lowered is not None else None
        self.prefill_schedule = lowered.prefill if lowered is not None else None
        self.placement, self._plain = placement, plain
        if before:
            self.device.forget(before[True].program)
        self._tables.set_placement(placement, self._sides, self._lowering.tile_sizes)
        self._rows = (0, 0)
        self.watch.forget()

    @property
    def workspace_charged(self) -> int:
        """Device memory in use for what lies between operations."""
        return self._lowering.workspace_charged

    @property
    def overhead_bytes(self) -> int:
        """Device memory that any placement takes beside what it places."""
        return self._lowering.overhead_bytes

    # --- steps ------------------------------------------------------------------------------------------------

    def run(self, chunks: Sequence[Chunk], interrupted: Callable[[], bool] = lambda: False) -> Logits:
        """As `Executor.run`. A failure on any device ends the step; the state before it is intact."""
        if self._plain is not None:
            return self._run_plain(self._plain, chunks, interrupted)
        try:
            return self._run_split(chunks, interrupted)
        except LaunchError as failure:
            raise DeviceFailedError(
                f"The GPU failed in the middle of a step: {failure}.",
                done="What was said so far is kept.",
                remedy="Try again. If it fails again, load the model again; if that fails too, restart Tessera.",
            ) from failure

    def _run_split(self, chunks: Sequence[Chunk], interrupted: Callable[[], bool]) -> Logits:
        began = time.perf_counter()
        self.promoter.trace = self.trace
        self.promoter.settle()
        if self.promoter.changed:
            self._tables.apply(self.promoter.changed)
        batch = make_batch(chunks)
        tokens, outputs = len(batch), batch.output_count
        self._step = Step(batch, tokens, interrupted)
        self._make_room(tokens, outputs)
        watched = self.watch.begin(tokens)
        traced = self.trace is not None and len(self.trace) < MOST_SPANS
        schedule, before = self._schedule_for(tokens), self._now
        spans = self.trace if watched is None and traced else watched
        self._bring_back(schedule, spans)
        launch = Launch(self._now, spans=spans)
        self._step.is_timed = not self.device.runs_ahead or tokens <= ANSWERING or launch.spans is not None
        graph = None
        if self._graphs is not None and schedule is self.schedule:
            graph = self._graphs.step(batch, is_traced=launch.spans is not None)
        if graph is not None:
            self._note_graph(graph, launch)
        else:
            self._replay(schedule, launch, interrupted)
        if launch.is_left or isinstance(launch.failure, StepLeft):
            raise Interrupted
        if launch.failure is not None:
            self._raise_failure(launch, tokens)
        self.weights.check_unchanged()
        seconds = time.perf_counter() - began
        if isinstance(self.device.clock, VirtualClock):
            seconds, self._now = max(launch.ends.values()) - before, max(launch.ends.values())
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

    def _run_plain(self, plain: Executor, chunks: Sequence[Chunk], interrupted: Callable[[], bool]) -> Logits:
        """Without a device."""
        tokens, began = sum(len(chunk.tokens) for chunk in chunks), time.perf_counter()
        plain.micro_batch = self.micro_batch
        logits = plain.run(chunks, interrupted)
        self.micro_batch = plain.micro_batch
        ended = time.perf_counter()
        self.times.append(StepTime(tokens, ended - began, {"CPU": ended - began}))
        span = Span("CPU", CPU, "all operations", began, ended)
        if self.watch.begin(tokens) is not None:
            self.watch.end(tokens, [span])
        if self.trace is not None:
            self.trace.append(span)
        return logits

    def _schedule_for(self, tokens: int) -> Schedule:
        """The schedule for a step, and which experts come over the link for it."""
        assert self.schedule is not None
        prefill = self.prefill_schedule if tokens >= FEWEST_TOKENS else None
        self._tables.stream(prefill is not None)
        return prefill or self.schedule

    def _bring_back(self, schedule: Schedule, spans: list[Span] | None) -> None:
        """What lies in buffers for this step, and made room for other weights before."""
        is_virtual, began = isinstance(self.device.clock, VirtualClock), time.perf_counter()
        copied = self._tables.prefetch(schedule)
        if not copied:
            return
        if is_virtual:
            began, self._now = self._now, self._now + self.device.link.seconds(copied)
        else:
            self.device.hold_link(WEIGHTS, copied, time.perf_counter() - began)
        if spans is not None:
            ended = self._now if is_virtual else time.perf_counter()
            spans.append(Span("link", WEIGHTS, "what was lent its buffers", began, ended))

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
        if not self._current.is_timed:
            self.device.synchronize()
            for lane in ("GPU", "link"):  # of which only launches were seen
                launch.busy.pop(lane, None)

    def _note_graph(self, graph: StepGraph, launch: Launch) -> None:
        """What tasks would have told of a step that ran as a whole."""
        self.promoter.note_all(graph.uses)
        self.residency.traffic.count_both(*graph.copied)
        launch.busy.update(graph.busy)
        if launch.spans is not None:
            launch.spans += graph.spans()

    def _make_room(self, tokens: int, outputs: int) -> None:
        """Runs nothing for the batch: the programs make room for its values, which later would lose what is in them."""
        if tokens <= ANSWERING < self._rows[0]:
            self._trim()
        if tokens <= self._rows[0] and outputs <= self._rows[1]:
            return
        most = max(tokens, self._rows[0]), max(outputs, self._rows[1])
        for side in self._sides.values():
            side.program.program.run(side.pool, self._current.batch, 0, 0)
        self._rows = most

    def _trim(self) -> None:
        """What a prompt took of RAM goes back to the system."""
        for schedule in (self.schedule, self.prefill_schedule):
            for work in segments_of(schedule) if schedule is not None else ():
                if not work.side.on_device:
                    work.views.clear()
        self._sides[False].program.program.trim()
        self._rows = (0, 0)

    @property
    def _current(self) -> Step:
        assert self._step is not None
        return self._step

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
        self._switch(Placement(), None, None)
        self._lowering.release()
        self.residency.close()
        self.device.close()
