"""BudgetControl: from a budget to a plan, from a plan to a migration, step by step while answers go on."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from engine.errors import EngineError
from engine.messages import ErrorInfo, Event, MigrationProgress, PlacementChanged, PlacementRolledBack
from engine.placement.budget import Budget
from engine.placement.costs import Workload
from engine.placement.expert_curves import prefill_split
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.items import Device as Side
from engine.placement.pin_store import PinStore
from engine.placement.pins import Pin, Pins
from engine.placement.plan import PlacementPlan
from engine.placement.planner import Planner
from engine.placement.prefetch import choose_passing
from engine.placement.shape import ModelShape
from engine.placement.simulator import choice_of, simulate
from engine.placement.step_times import Heat
from engine.runtime.devices.open import machine_of
from engine.runtime.executor import LARGEST_MICRO_BATCH
from engine.runtime.hybrid import HybridExecutor
from engine.runtime.loaded import LoadedModel
from engine.runtime.migration import MigrationStep, migrate
from engine.runtime.pace import Pace, corrected
from engine.runtime.placement import Placement
from engine.telemetry.residency import BankResidency, ItemResidency, ResidencySnapshot

_MEASURED_STEPS = 5  # decode steps before their speed is told
_SIMULATED_TOKENS = 4


class BudgetControl:
    """Owns what is on the device. All calls come from the engine's thread, between steps."""

    def __init__(self, executor: HybridExecutor, planner: Planner, emit: Callable[[Event], None]) -> None:
        self.executor = executor
        self.planner = planner
        self.emit = emit
        self.pin_store: PinStore | None = None  # where pins are kept
        self.ram_bytes: int | None = None  # that plans keep within; None: what the machine has
        planner.overhead = executor.overhead_bytes
        self._plan: PlacementPlan = planner.plan(Budget(0))
        self._migration: Iterator[MigrationStep] | None = None
        self._goal = (0, self._plan, 0.0)  # of the migration under way: budget, plan, when it was asked for
        self._next: tuple[int, float] | None = None  # the budget asked for meanwhile
        self._pace = self._pace_of(self._plan)
        self.replans = 0
        self._pace_factors: dict[str, float] = {}  # of each lane, over all corrections
        self._last_measured: float | None = None  # decode speed of this placement before its times were cleared

    @classmethod
    def of(
        cls, model: LoadedModel, shape: ModelShape, emit: Callable[[Event], None], heat: Heat | None = None
    ) -> BudgetControl:
        """For a model with a device, which must be there; `shape` is that of its file, `heat` what was recorded."""
        assert model.hybrid is not None
        pool = model.pool
        work = Workload(
            context=pool.blocks * pool.block_tokens,
            chunk=LARGEST_MICRO_BATCH,
            value_bytes=pool.quant_type.row_bytes(256) / 256,
        )
        planner = Planner(shape, machine_of(model.hybrid.device), work, heat=heat)
        return cls(model.hybrid, planner, emit)

    @property
    def is_busy(self) -> bool:
        return self._migration is not None or self._next is not None

    def set_budget(self, gpu_bytes: int) -> None:
        """Begins as soon as what is under way is done. A later budget replaces one that has not begun."""
        if gpu_bytes < 0:
            raise EngineError("A budget cannot be negative.", done="Nothing was changed.")
        if not self.is_busy and not self.executor.placement.uses_device:
            self._try_again()
        self._next = gpu_bytes, time.perf_counter()

    def _try_again(self) -> None:
        """Nobody measures a card that is not used, and who took it may be gone: its rates count until it is seen."""
        factor = self._pace_factors.pop("GPU", None)
        if factor is not None:
            hardware = corrected(self.planner.hardware, {"GPU": 1 / factor})
            self.planner = self._planner(hardware, self.planner.times.heat, self.planner.pins)

    def set_pins(self, pins: frozenset[Pin]) -> None:
        """A new plan for the present budget, with what is pinned as it is pinned; or an error, and the pins before."""
        before, budget = self.planner, self.executor.device.memory.limit
        try:
            self.planner = self._planner(before.hardware, before.times.heat, Pins.of(pins))
            self.planner.plan(Budget(budget, self.ram_bytes))
        except EngineError as error:
            self.planner = before
            self.emit(PlacementRolledBack(budget, ErrorInfo.from_exception(error), self.snapshot()))
            return
        for bank in self.planner.banks:
            wanted, unwanted = (self.planner.pins.experts(bank.key, on_gpu=there) for there in (True, False))
            self.executor.heat.pin(bank.key, wanted, unwanted)
        if self.pin_store is not None:
            with contextlib.suppress(OSError):  # a disk that refuses costs them at the next start
                self.pin_store.save(self.planner.pins)
        if self._next is None and self._migration is None:
            self.set_budget(budget)

    def _planner(self, hardware: HardwareProfile, heat: Heat | None, pins: Pins) -> Planner:
        old = self.planner
        planner = Planner(old.shape, hardware, old.work, old.mode, heat, pins)
        planner.overhead = old.overhead
        return planner

    def advance(self) -> None:
        """One migration step. Tells of progress, and of the end. Plans anew where steps are not as fast as planned."""
        if not self.is_busy:
            self._watch()
        try:
            if self._migration is None and self._next is not None:
                self._begin(*self._next)
            if self._migration is not None:
                self._go_on(self._migration)
        except EngineError as error:
            budget = self._goal[0]
            self._migration = None
            self.emit(PlacementRolledBack(budget, ErrorInfo.from_exception(error), self.snapshot()))

    def finish(self) -> None:
        """Does all that was asked for, at once."""
        while self.is_busy:
            self.advance()

    def _watch(self) -> None:
        if not self.executor.device.keeps_rates:
            return
        factors = self._pace.correction(self.executor.times.latest, self.executor.times.decoding)
        if factors is None:
            return
        began = time.perf_counter()
        for lane, factor in factors.items():
            self._pace_factors[lane] = self._pace_factors.get(lane, 1.0) * factor
        old, budget = self.planner, self.executor.device.memory.limit
        self.planner = self._planner(corrected(old.hardware, factors), old.times.heat, old.pins)
        plan = self.planner.plan(Budget(budget, self.ram_bytes))
        self.replans += 1
        pace = self._pace_of(plan)
        self._last_measured = self._measured()
        self.executor.times.clear()
        if self._placement(plan) != self.executor.placement:
            self._next = budget, began
        self._plan = plan if self._next is None else self._plan
        self._pace = replace(pace, planning_seconds=time.perf_counter() - began)

    def _pace_of(self, plan: PlacementPlan, planning_seconds: float = 0.0) -> Pace:
        simulation = simulate(plan, self.planner.times, _SIMULATED_TOKENS)
        seconds = simulation.decode.seconds / _SIMULATED_TOKENS
        lanes = {lane: share * seconds for lane, share in simulation.utilisation().items() if lane != "link"}
        return Pace(seconds, lanes, planning_seconds)

    def _begin(self, gpu_bytes: int, asked: float) -> None:
        """Preflight: a plan that fits, or an error with nothing changed."""
        self._next, self._goal = None, (gpu_bytes, self._plan, asked)
        plan = self.planner.plan(Budget(gpu_bytes, self.ram_bytes))
        self._goal = gpu_bytes, plan, asked
        self._migration = migrate(self.executor, self._placement(plan), gpu_bytes)

    def _go_on(self, migration: Iterator[MigrationStep]) -> None:
        budget, plan, asked = self._goal
        step = next(migration, None)
        if step is not None:
            self.emit(MigrationProgress(budget, step.done_bytes, step.total_bytes, step.experts))
            return
        self._migration, self._plan = None, plan
        self._pace = self._pace_of(plan, self._pace.planning_seconds)
        self._last_measured = None
        self.executor.times.clear()
        self.emit(PlacementChanged(self.snapshot(), time.perf_counter() - asked))

    def _placement(self, plan: PlacementPlan) -> Placement:
        """The plan, and what comes over the link for a step: as many experts for each part of a prompt as keep both
        sides busy, and of the items in RAM those that are done earlier so."""
        hardware, streamed = self.planner.hardware, {}
        for placed in plan.experts:
            if hardware.link is not None and 0 < placed.slots < placed.bank.count:
                split = prefill_split(placed.bank, hardware, self.planner.work)
                count = float(split.link[placed.slots]) * hardware.link.to_gpu / placed.bank.expert_bytes
                streamed[placed.bank.key] = round(count)
        prompts, few = (choose_passing(self.planner.times, choice_of(plan), decode=step) for step in (False, True))

        def keys(indices: Iterable[int]) -> frozenset[str]:
            return frozenset(plan.items[index].item.key for index in indices)

        return replace(
            Placement.of(plan, streamed),
            prefetched_for_prompts=keys(prompts.prefetched),
            prefetched_for_few=keys(few.prefetched),
            lent=keys(few.kept),
        )

    # --- what is shown ----------------------------------------------------------------------------------------

    def snapshot(self) -> ResidencySnapshot:
        """What is on the device now, read back from its memory rather than from the plan."""
        executor = self.executor
        residency, plan = executor.residency, self._plan
        items = tuple(
            ItemResidency(
                name=placed.item.key,
                kind=placed.item.kind.value,
                layer=placed.item.layer,
                on_device=placed.item.key in residency.items,
                weight_bytes=placed.item.bytes,
                state_bytes=placed.state_bytes,
                reason=placed.reason if (placed.device is Side.GPU) == (placed.item.key in residency.items) else "",
            )
            for placed in plan.items
        )
        return ResidencySnapshot(
            device=executor.device.label,
            budget_bytes=executor.device.memory.limit,
            used_bytes=executor.device.memory.used,
            items=items,
            banks=self._banks(),
            hit_rate=executor.heat.hit_rate,
            promoted=executor.promoter.promoted,
            bytes_to_device=residency.traffic.to_device,
            bytes_to_host=residency.traffic.to_host,
            predicted_decode=plan.predicted.decode,
            measured_decode=self._measured(),
            notes=(*plan.notes, *executor.device.notes),
            pins=self.planner.pins.all,
            pace=tuple(sorted(self._told_pace().items())),
            prefetch_depth=executor.placement.prefetch_depth if executor.placement.uses_device else 0,
            lent=executor.placement.lent,
        )

    def _told_pace(self) -> dict[str, float]:
        """Of lanes that are in use: of a card that was left, nobody knows."""
        is_used = self.executor.placement.uses_device
        return {lane: factor for lane, factor in self._pace_factors.items() if is_used or lane != "GPU"}

    def _banks(self) -> tuple[BankResidency, ...]:
        residency, heat = self.executor.residency, self.executor.heat
        found = []
        for placed in self._plan.experts:
            bank = placed.bank
            memory = residency.banks.get(bank.key)
            found.append(
                BankResidency(
                    name=bank.key,
                    layer=bank.layer,
                    count=bank.count,
                    used=bank.used,
                    slots=len(memory.table.experts) if memory else 0,
                    expert_bytes=bank.expert_bytes,
                    residents=memory.table.residents if memory else (),
                    heat=tuple(heat.of(bank.key)[: bank.count].tolist()),
                    reason=placed.reason,
                )
            )
        return tuple(found)

    def _measured(self) -> float | None:
        seconds = [time.seconds for time in self.executor.times.latest if time.tokens == 1]
        return 1 / statistics.median(seconds) if len(seconds) >= _MEASURED_STEPS else self._last_measured
