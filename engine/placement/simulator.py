"""A discrete-event run of a placement: CPU, GPU and link as lanes, with the executor's real dependencies.

Each lane does one task at a time, in order of issue; a task starts when its lane is free and all that it waits for has
ended. Decode draws each layer's hits per token from its hit rate, so a slow layer here and there shows, as it will.
The timeline of decode is that of tokens behind the first; what is copied back behind a prompt counts in `speeds`.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np

from engine.placement.costs import expert_decode_seconds
from engine.placement.expert_curves import prefill_split
from engine.placement.items import ExpertBank, PlacementItem
from engine.placement.locality import PROMOTED_SHARE
from engine.placement.plan import PlacementPlan, Speeds
from engine.placement.prefetch import BUFFERS, back_seconds, choose_passing, lost_share, pieces
from engine.placement.step_times import Choice, StepTimes

ANSWER = 128  # tokens over which copies before the first are spread: what llama-bench measures decoding with


class Lane(enum.Enum):
    CPU = "CPU"
    GPU = "GPU"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class Task:
    lane: Lane
    name: str
    start: float
    end: float


@dataclass(slots=True)
class Timeline:
    """Tasks as they were run; `add` returns the time at which the task ends, to wait for."""

    tasks: list[Task] = field(default_factory=list)
    _free: dict[tuple[Lane, str], float] = field(default_factory=dict)

    def add(self, lane: Lane, name: str, seconds: float, *after: float, stream: str = "") -> float:
        """Streams of a lane do not wait for each other."""
        start = max(self._free.get((lane, stream), 0.0), *after, 0.0)
        self._free[lane, stream] = start + seconds
        self.tasks.append(Task(lane, name, start, start + seconds))
        return start + seconds

    def beside(self, lane: Lane, begin: float, end: float) -> float:
        """Seconds of a lane's work that fall there."""
        both = 0.0
        for task in reversed(self.tasks):
            if task.lane is lane:
                if task.end <= begin:
                    break
                both += max(0.0, min(task.end, end) - max(task.start, begin))
        return both

    @property
    def seconds(self) -> float:
        return max((task.end for task in self.tasks), default=0.0)

    def busy(self, lane: Lane) -> float:
        """Share of the run in which the lane works."""
        whole = self.seconds
        return sum(t.end - t.start for t in self.tasks if t.lane is lane) / whole if whole else 0.0


@dataclass(frozen=True, slots=True)
class Simulation:
    speeds: Speeds
    decode: Timeline
    prefill: Timeline

    def utilisation(self) -> dict[str, float]:
        """Share of decode time in which each lane works."""
        return {lane.value: self.decode.busy(lane) for lane in Lane}


# (bank, lane of its layer, when it may start) → when its layer's experts are done
RunExperts = Callable[[int, Lane, float], float]


class Simulator:
    """Runs of one StepTimes. Same arguments, same result: draws are seeded."""

    def __init__(self, times: StepTimes, seed: int = 0) -> None:
        self._times = times
        self._random = np.random.default_rng(seed)

    def run(self, choice: Choice, tokens: int = 16) -> Simulation:
        decode, prefill = Timeline(), Timeline()
        hits: list[int] = []

        def draw(index: int, lane: Lane, ready: float) -> float:
            done, found = self._experts(decode, index, lane, choice.slots[index], ready)
            hits.append(found)
            return done

        def stream(index: int, lane: Lane, ready: float) -> float:
            return self._experts_prefill(prefill, index, lane, choice, ready)

        few, some = (choose_passing(self._times, choice, decode=step) for step in (True, False))
        writing, done = choice.keeping(few.kept), 0.0
        for _ in range(tokens):
            done = self._step(decode, writing, few.prefetched, done, draw, decode=True)
        chunk = self._step(prefill, choice, some.prefetched, 0.0, stream, decode=False)
        work = self._times.work
        uses = tokens * sum(bank.used for bank in self._times.model.banks)
        speeds = Speeds(
            prefill=work.prompt / (chunk * work.chunks),
            decode=1 / (done / tokens + back_seconds(self._times, few.kept) / ANSWER),
            depth=work.depth,
            hit_rate=sum(hits) / uses if uses else None,
        )
        return Simulation(speeds, decode, prefill)

    def _step(
        self,
        line: Timeline,
        choice: Choice,
        prefetched: Collection[int],
        ready: float,
        experts: RunExperts,
        *,
        decode: bool,
    ) -> float:
        """One token or chunk through all items; when it is done. It begins and ends on the CPU."""
        copy = self._times.switch_seconds(decode=decode)
        buffers = deque([ready] * BUFFERS * choice.prefetch_depth)  # when they are free, in the order of their use
        done, last = ready, False
        for index, (item, on_gpu) in enumerate(zip(self._times.model.items, choice.on_gpu, strict=True)):
            there = on_gpu or index in prefetched
            if there != last:
                done = line.add(Lane.LINK, "activations", copy, done)
            last = there
            lane = Lane.GPU if there else Lane.CPU
            bank = self._times.bank_after(item)
            beside = choice.uses_gpu and bank is not None
            seconds = self._bare_seconds(index, lane, bank, decode=decode, beside=beside)
            if index in prefetched:
                done = self._prefetch(line, item, seconds, done, buffers, decode=decode)
            else:
                done = line.add(lane, item.name, seconds, done)
            if bank is not None:
                done = experts(bank, lane, done)
        return line.add(Lane.LINK, "logits", copy, done) if last else done

    def _prefetch(
        self, line: Timeline, item: PlacementItem, seconds: float, ready: float, buffers: deque[float], *, decode: bool
    ) -> float:
        """An item that comes over the link in pieces, each as soon as its buffer is free; when it is done, and the CPU
        has made up for what the copies cost it."""
        link, done, both = self._times.hardware.link, ready, 0.0
        assert link is not None
        for buffer, size in enumerate(pieces(item)):
            copying = link.latency + size / link.to_gpu
            there = line.add(Lane.LINK, f"{item.name} prefetched", copying, buffers[buffer], stream="weights")
            both += line.beside(Lane.CPU, there - copying, there)
            done = buffers[buffer] = line.add(Lane.GPU, item.name, seconds * size / item.bytes, done, there)
        buffers.rotate(-BUFFERS)
        lost = both * lost_share(self._times, decode=decode)
        return line.add(Lane.CPU, f"slowed by copies for {item.name}", lost, done) if lost else done

    def _bare_seconds(self, index: int, lane: Lane, bank: int | None, *, decode: bool, beside: bool) -> float:
        """An item without the experts that follow it."""
        times = self._times.decode if decode else self._times.prefill
        on_cpu_times = times.beside_gpu if beside else times.cpu
        seconds = (times.gpu if lane is Lane.GPU else on_cpu_times)[index]
        if bank is None:
            return seconds
        curve = self._times.curves[bank]
        on_gpu, on_cpu = (
            (float(curve.decode[0]), curve.cpu_decode) if decode else (float(curve.prefill[0]), curve.cpu_prefill)
        )
        if lane is Lane.CPU and beside and not decode:
            on_cpu = min(on_cpu, on_gpu)
        return seconds - (on_gpu if lane is Lane.GPU else on_cpu)

    def _experts(self, line: Timeline, index: int, lane: Lane, slots: int, ready: float) -> tuple[float, int]:
        bank, hardware = self._times.model.banks[index], self._times.hardware
        if lane is Lane.CPU:
            return line.add(Lane.CPU, f"experts {bank.layer}", self._times.curves[index].cpu_decode, ready), 0
        assert hardware.gpu is not None and hardware.link is not None
        hits = int(self._random.binomial(bank.used, min(1.0, float(self._times.hit_rates[index][slots]))))
        misses = bank.used - hits
        joined = ready
        if hits:
            each = expert_decode_seconds(bank, hardware.gpu)
            joined = line.add(Lane.GPU, f"hits {bank.layer}", hardware.gpu.op_seconds + hits * each, ready)
        if misses:
            copy = hardware.link.switch_seconds + hardware.link.latency
            there = line.add(Lane.LINK, "to CPU", copy, ready)
            seconds = hardware.cpu.op_seconds + misses * expert_decode_seconds(bank, hardware.cpu)
            seconds += self._promotion_seconds(bank, misses) if slots else 0.0
            computed = line.add(Lane.CPU, f"misses {bank.layer}", seconds, there)
            joined = max(joined, line.add(Lane.LINK, "from CPU", copy, computed))
        return joined, hits

    def _promotion_seconds(self, bank: ExpertBank, misses: int) -> float:
        """RAM bandwidth that promotions in the background take from the CPU."""
        return PROMOTED_SHARE * misses * bank.expert_bytes / self._times.hardware.cpu.bandwidth

    def _experts_prefill(self, line: Timeline, index: int, lane: Lane, choice: Choice, ready: float) -> float:
        bank, hardware = self._times.model.banks[index], self._times.hardware
        curve = self._times.curves[index]
        if lane is Lane.CPU:
            both = choice.uses_gpu
            seconds = min(curve.cpu_prefill, float(curve.prefill[0])) if both else curve.cpu_prefill
            return line.add(Lane.CPU, f"experts {bank.layer}", seconds, ready)
        assert hardware.gpu is not None
        split = prefill_split(bank, hardware, self._times.work)
        slots = choice.slots[index]
        handing = float(split.handing_over[slots]) / 2
        there = ready + handing
        ends = [line.add(Lane.GPU, f"experts {bank.layer}", float(split.gpu[slots]) + hardware.gpu.op_seconds, ready)]
        if slots < bank.count:
            ends.append(line.add(Lane.CPU, f"experts {bank.layer}", float(split.cpu[slots]), there) + handing)
            ends.append(line.add(Lane.LINK, f"stream {bank.layer}", float(split.link[slots]), ready))
        return max(ends)


def choice_of(plan: PlacementPlan) -> Choice:
    """A plan as the simulator takes it."""
    on_gpu = tuple(placed.device.value == "gpu" for placed in plan.items)
    lent = frozenset(index for index, placed in enumerate(plan.items) if placed.item.key in plan.lent)
    return Choice(on_gpu, plan.slots, prefetch_depth=plan.prefetch_depth, lent=lent)


def simulate(plan: PlacementPlan, times: StepTimes, tokens: int = 16, seed: int = 0) -> Simulation:
    return Simulator(times, seed).run(choice_of(plan), tokens)
