"""The planner: a pure function from model, machine and budget to a placement.

    plan(shape, hardware, Budget(6 * GiB)).predicted.decode

Order of spending: everything but experts (all of it, if it fits) with the sequence state for the chosen context, then
experts as slots by what each further slot saves. Where not everything but the experts fits, a knapsack over the items
in graph order decides (`chain`), and a coarse search over shares leaves room for slots where they save more. All
candidates only improve with capacity, so more budget is never predicted slower.

A `Planner` prepares all that does not depend on the budget; then a plan for any budget is a look-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from engine.placement import explain
from engine.placement.budget import Budget, gpu_limit, gpu_overhead, ram_limit, ram_overhead
from engine.placement.chain import DeviceChain
from engine.placement.costs import Workload
from engine.placement.expert_curves import ExpertCurve, convex_gains
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.items import Device, ExpertBank, ItemKind, PlacementItem
from engine.placement.pins import PinError, Pins
from engine.placement.plan import MemoryUse, Mode, Placed, PlacedExperts, PlacementPlan
from engine.placement.prefetch import buffer_bytes, is_prefetchable, lendable
from engine.placement.prefetch_room import PrefetchRoom
from engine.placement.shape import ModelShape
from engine.placement.step_times import Choice, Heat, StepTimes

# Shares of the non-expert bytes at which a search for room for slots is tried, when not all of them fit.
_SHARES = 16
# LEAST_MEMORY keeps at least this share of the decode speed that the whole budget would give.
KEPT_SPEED = 0.85
# What an item costs that is pinned to the GPU and is not there: more than any step takes.
_ASTRAY_SECONDS = 1e6

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A fixed placement of the items, and in which order further slots would be bought."""

    on_gpu: tuple[bool, ...]
    bytes: int
    seconds: float
    order: IntArray  # bank of each slot
    costs: IntArray  # cumulative bytes


class Planner:
    """Plans of one model on one machine for one workload. `prefetch`: whether memory may be kept for weights that pass
    through, for the sake of prompts."""

    def __init__(
        self,
        shape: ModelShape,
        hardware: HardwareProfile,
        work: Workload | None = None,
        mode: Mode = Mode.DECODE,
        heat: Heat | None = None,
        pins: Pins | None = None,
    ) -> None:
        self.pins = pins or Pins()
        self.shape = shape
        self.hardware = hardware
        self.work = work or Workload()
        self.mode = mode
        self.times = StepTimes(shape, hardware, self.work, heat)
        self.items = self.times.model.items
        self.banks = self.times.model.banks
        self.state_bytes = [i.state_bytes(self.work.context, self.work.value_bytes) for i in self.items]
        self.sizes = [i.bytes + s for i, s in zip(self.items, self.state_bytes, strict=True)]
        self.overhead = gpu_overhead(shape, self.work) if hardware.gpu else 0
        self.buffer_bytes = buffer_bytes(self.items)  # for an item that is prefetched
        self._pinned = [self._pin_of(item) for item in self.items]

    def plan(self, budget: Budget) -> PlacementPlan:
        """The best placement within a budget. ModelDoesNotFitError where the RAM is too small for the rest."""
        limit = gpu_limit(budget, self.hardware)
        choice = self.choose(limit)
        if self.mode is Mode.LEAST_MEMORY:
            choice = self._smallest(choice, limit)
        plan, ram = self._build(choice, limit, budget), ram_limit(budget, self.hardware)
        if plan.ram.total > ram and choice.lent:  # which are in RAM as well
            plan = self._build(choice.keeping(choice.lent), limit, budget)
        explain.check_ram(plan, self.shape, self.work, ram)
        return plan

    def choose(self, limit: int) -> Choice:
        """The fastest placement within `limit` bytes of GPU memory, all told. PinError where the pins find no room."""
        room = limit - self.overhead if self.hardware.gpu is not None else 0
        best = self._fastest(room, with_buffers=False)
        if self._decode:
            best = self._lending(best, room)
        elif depth := self._prefetch_room.depth(some := min(room, self._chain.all_bytes - 1)):
            passing = self._fastest(self._prefetch_room.capacity(some), with_buffers=True)
            if passing.seconds < best.seconds:
                best = replace(passing, prefetch_depth=depth)
        if self.pins:
            self._check_pins(best, limit)
        return best

    def _lending(self, choice: Choice, room: int) -> Choice:
        """The same while an answer is written. For prompts, blocks as large as buffers for those in RAM give up their
        place to them."""
        in_ram = [is_prefetchable(i) and not there for i, there in zip(self.items, choice.on_gpu, strict=True)]
        depth = self._prefetch_room.paying(sum(in_ram), self._prefetch_room.most(room)) if any(choice.on_gpu) else 0
        if not depth:
            return choice
        free = [there and pin is None for there, pin in zip(choice.on_gpu, self._pinned, strict=True)]
        lent = frozenset(lendable(self.items, free)[-depth:])
        rest = tuple(there and index not in lent for index, there in enumerate(choice.on_gpu))
        return replace(choice, on_gpu=rest, lent=lent, prefetch_depth=len(lent)) if any(rest) else choice

    def _fastest(self, capacity: int, *, with_buffers: bool) -> Choice:
        """Within so many bytes for weights; `with_buffers`: prompts pass some through others."""
        best = self._cpu_only
        if capacity <= 0:
            return best
        chain = self._chain_with_buffers if with_buffers else self._chain
        if capacity < chain.all_bytes:
            seconds = chain.seconds(capacity)
            if seconds < best.seconds:
                best = Choice(chain.on_gpu(capacity), (0,) * len(self.banks), seconds)
        candidates = self._candidates_with_buffers if with_buffers else self._candidates
        affordable = [c for c in candidates if c.bytes <= capacity]
        bought = [self._slots(candidate, capacity - candidate.bytes) for candidate in affordable]
        for candidate, slots in zip(affordable, bought, strict=True):
            seconds = candidate.seconds + self._slot_seconds(slots)
            if seconds < best.seconds:
                best = Choice(candidate.on_gpu, tuple(slots.tolist()), seconds)
        return best

    # --- pins -------------------------------------------------------------------------------------------------

    def _pin_of(self, item: PlacementItem) -> bool | None:
        """Experts on the GPU want their router there."""
        pin = self.pins.item(item.key)
        index = self.times.bank_after(item)
        if index is None or not self.pins.experts(self.banks[index].key, on_gpu=True):
            return pin
        if pin is False:
            raise PinError(
                f"Experts of layer {item.layer} are pinned to the GPU, and their router to RAM.",
                done="Nothing was changed.",
                remedy="Take one of these pins away.",
            )
        return True

    def _check_pins(self, choice: Choice, limit: int) -> None:
        missing = sum(
            size
            for size, pin, there in zip(self.sizes, self._pinned, choice.on_gpu, strict=True)
            if pin is True and not there
        )
        for bank, slots in zip(self.banks, choice.slots, strict=True):
            missing += max(0, len(self.pins.experts(bank.key, on_gpu=True)) - slots) * bank.expert_bytes
        if missing:
            short, held = explain.gib(missing), explain.gib(limit)
            raise PinError(
                f"What is pinned to the GPU needs {short} more than a budget of {held} holds.",
                done="Nothing was changed.",
                remedy="Raise the budget, or take a pin away.",
            )

    # --- choices ----------------------------------------------------------------------------------------------

    @property
    def _decode(self) -> bool:
        return self.mode is not Mode.PREFILL

    def _timed(self, choice: Choice) -> Choice:
        astray = sum(pin is True and not there for pin, there in zip(self._pinned, choice.on_gpu, strict=True))
        return replace(choice, seconds=self.times.seconds(choice, decode=self._decode) + astray * _ASTRAY_SECONDS)

    @cached_property
    def _cpu_only(self) -> Choice:
        return self._timed(Choice((False,) * len(self.items), (0,) * len(self.banks)))

    @cached_property
    def _chain(self) -> DeviceChain:
        return self._chain_of((self.times.decode if self._decode else self.times.prefill).beside_gpu)

    @cached_property
    def _chain_with_buffers(self) -> DeviceChain:
        return self._chain_of(self.times.passing)

    def _chain_of(self, in_ram: Sequence[float]) -> DeviceChain:
        """`in_ram`: seconds of each item there."""
        there = (self.times.decode if self._decode else self.times.prefill).gpu
        switch = self.times.switch_seconds(decode=self._decode)
        here = [
            seconds + (_ASTRAY_SECONDS if pin is True else 0.0)
            for seconds, pin in zip(in_ram, self._pinned, strict=True)
        ]
        return DeviceChain(here, there, self.sizes, self._stays, switch)

    @cached_property
    def _prefetch_room(self) -> PrefetchRoom:
        most = [not stays for stays in self._stays]
        return PrefetchRoom(self.times, most, self.buffer_bytes, self._chain.all_bytes)

    @cached_property
    def _stays(self) -> list[bool]:
        """What is never on the GPU: a token reads one row of the embedding."""
        return [
            item.kind is ItemKind.EMBEDDING or pin is False for item, pin in zip(self.items, self._pinned, strict=True)
        ]

    @cached_property
    def _slot_order(self) -> tuple[IntArray, IntArray]:
        """Bank and bytes of every slot of the model, the most seconds saved per byte first."""
        if not self.banks:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        gains_of: dict[int, npt.NDArray[np.float64]] = {}
        gains = []
        for bank, curve in zip(self.banks, self.times.curves, strict=True):
            if id(curve) not in gains_of:
                gains_of[id(curve)] = self._gains(curve)
            gains.append(self._bounded(gains_of[id(curve)] / max(1, bank.expert_bytes), bank))
        banks = [np.full(len(saved), index) for index, saved in enumerate(gains)]
        numbers = [np.arange(len(saved)) for saved in gains]
        order = np.lexsort((np.concatenate(banks), np.concatenate(numbers), -np.concatenate(gains)))
        bank_of = np.concatenate(banks)[order]
        each = np.array([bank.expert_bytes for bank in self.banks], np.int64)
        return bank_of, each[bank_of]

    def _bounded(self, gains: npt.NDArray[np.float64], bank: ExpertBank) -> npt.NDArray[np.float64]:
        """Slots for pinned experts come first; there are none for those that stay in RAM."""
        if not self.pins:
            return gains
        least = len(self.pins.experts(bank.key, on_gpu=True))
        most = bank.count - len(self.pins.experts(bank.key, on_gpu=False))
        bounded = gains[:most].copy()
        bounded[:least] = np.inf
        return bounded

    def _gains(self, curve: ExpertCurve) -> npt.NDArray[np.float64]:
        return convex_gains(curve.decode if self._decode else curve.prefill)

    @cached_property
    def _candidates(self) -> list[_Candidate]:
        return self._candidates_of(self._chain, depth=0)

    @cached_property
    def _candidates_with_buffers(self) -> list[_Candidate]:
        return self._candidates_of(self._chain_with_buffers, depth=1)

    def _candidates_of(self, chain: DeviceChain, depth: int) -> list[_Candidate]:
        shares = range(1, _SHARES + 1) if self.banks else (_SHARES,)
        choices = [chain.on_gpu(chain.all_bytes * share // _SHARES) for share in shares]
        choices.append(tuple(not stays for stays in self._stays))
        return [self._candidate(on_gpu, depth) for on_gpu in dict.fromkeys(choices)]

    def _candidate(self, on_gpu: tuple[bool, ...], depth: int) -> _Candidate:
        used = sum(size for size, there in zip(self.sizes, on_gpu, strict=True) if there)
        attached = np.zeros(len(self.banks), bool)
        for item, there in zip(self.items, on_gpu, strict=True):
            bank = self.times.bank_after(item)
            if bank is not None:
                attached[bank] = there
        banks, sizes = self._slot_order
        mask = attached[banks]
        bare = self._timed(Choice(on_gpu, (0,) * len(self.banks), prefetch_depth=depth))
        return _Candidate(on_gpu, used, bare.seconds, banks[mask], np.cumsum(sizes[mask]))

    def _slots(self, candidate: _Candidate, room: int) -> IntArray:
        """Slots per bank that fit into `room` bytes."""
        bought = int(np.searchsorted(candidate.costs, room, side="right"))
        return np.bincount(candidate.order[:bought], minlength=len(self.banks))

    @cached_property
    def _curve_values(self) -> npt.NDArray[np.float64]:
        return self.times.curve_values(decode=self._decode)

    def _slot_seconds(self, slots: IntArray) -> float:
        """Seconds that slots change, against none: negative."""
        if not len(slots):
            return 0.0
        values = self._curve_values
        return float((values[np.arange(len(slots)), slots] - values[:, 0]).sum())

    def _smallest(self, best: Choice, limit: int) -> Choice:
        """LEAST_MEMORY: the smallest limit that keeps KEPT_SPEED, found by halving, as speed rises with it."""
        low, high = 0, limit
        while high - low > 1 << 20:
            middle = (low + high) // 2
            if self.choose(middle).seconds * KEPT_SPEED <= best.seconds:
                high = middle
            else:
                low = middle
        return self.choose(high)

    # --- the plan ---------------------------------------------------------------------------------------------

    def _build(self, choice: Choice, limit: int, budget: Budget) -> PlacementPlan:
        uses_gpu = choice.uses_gpu
        placed = tuple(
            Placed(item, Device.GPU if there else Device.CPU, state, explain.item_reason(item, there, uses_gpu, pin))
            for item, there, state, pin in zip(self.items, choice.on_gpu, self.state_bytes, self._pinned, strict=True)
        )
        for index in choice.lent:
            placed = (*placed[:index], replace(placed[index], reason=explain.LENT), *placed[index + 1 :])
        experts = tuple(
            PlacedExperts(
                bank,
                slots,
                self._hottest(index, slots),
                explain.expert_reason(bank, slots, self.times.hit_rates[index]),
            )
            for index, (bank, slots) in enumerate(zip(self.banks, choice.slots, strict=True))
        )
        return PlacementPlan(
            items=placed,
            experts=experts,
            gpu=self._gpu_use(placed, experts, choice) if uses_gpu else MemoryUse(),
            ram=self._ram_use(placed, experts),
            gpu_budget=limit,
            predicted=self.times.speeds(choice),
            prefetch_depth=choice.prefetch_depth if uses_gpu else 0,
            lent=frozenset(self.items[index].key for index in choice.lent),
            notes=explain.notes(self, choice, limit, budget),
        )

    def _hottest(self, bank: int, slots: int) -> tuple[int, ...]:
        key, count = self.banks[bank].key, self.banks[bank].count
        wanted, unwanted = (self.pins.experts(key, on_gpu=there) for there in (True, False))
        if self.times.heat is None and not wanted and not unwanted:
            return ()
        heat = np.zeros(count) if self.times.heat is None else np.array(self.times.heat[bank], np.float64)
        heat[list(wanted)], heat[list(unwanted)] = np.inf, -np.inf
        order = np.argsort(-heat, kind="stable")
        return tuple(sorted(int(e) for e in order[:slots]))

    def _gpu_use(self, placed: Sequence[Placed], experts: Sequence[PlacedExperts], choice: Choice) -> MemoryUse:
        there = [p for p in placed if p.device is Device.GPU]
        lent = sum(self.items[index].bytes for index in choice.lent)
        return MemoryUse(
            weights=sum(p.item.bytes for p in there),
            experts=sum(e.slots * e.bank.expert_bytes for e in experts),
            state=sum(p.state_bytes for p in there),
            overhead=self.overhead + (lent or choice.prefetch_depth * self.buffer_bytes),
        )

    def _ram_use(self, placed: Sequence[Placed], experts: Sequence[PlacedExperts]) -> MemoryUse:
        here = [p for p in placed if p.device is Device.CPU]
        return MemoryUse(
            weights=sum(p.item.bytes - p.item.tied_bytes for p in here),
            experts=sum((e.bank.count - e.slots) * e.bank.expert_bytes for e in experts),
            state=sum(p.state_bytes for p in here),
            overhead=ram_overhead(self.shape, self.work),
        )


def plan(
    shape: ModelShape,
    hardware: HardwareProfile,
    budget: Budget,
    work: Workload | None = None,
    mode: Mode = Mode.DECODE,
    heat: Heat | None = None,
) -> PlacementPlan:
    return Planner(shape, hardware, work, mode, heat).plan(budget)
