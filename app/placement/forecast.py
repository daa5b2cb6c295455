"""What a budget would mean for a model on a machine: marks, the curve of speeds, and plans. Free of Qt.

A `Forecast` is made once per model, machine and context; a plan for any budget is then a matter of milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import EngineError
from engine.placement.budget import Budget, gpu_limit, ram_limit, recommended_budget
from engine.placement.costs import Workload
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.heat import RecordedHeat
from engine.placement.items import model_items
from engine.placement.pins import Pins
from engine.placement.plan import PlacementPlan
from engine.placement.planner import Planner
from engine.placement.shape import ModelShape
from engine.placement.step_times import Choice

MiB = 1 << 20
CURVE_POINTS = 97
# The recommended budget is the smallest that keeps this share of the speed at the largest safe one.
RECOMMENDED_SPEED = 0.95


@dataclass(frozen=True, slots=True)
class Marks:
    """Budgets in bytes worth a mark on the slider. All 0 where there is no GPU."""

    minimum: int = 0  # below, the GPU stays unused
    recommended: int = 0
    largest_safe: int = 0
    card: int = 0  # all memory of the card


@dataclass(frozen=True, slots=True)
class Preview:
    """One budget and what it gives. `problem` is set, and `plan` is not, where the rest does not fit into RAM."""

    budget: int
    plan: PlacementPlan | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """All that is drawn around the slider; the same for every budget."""

    shape: ModelShape
    hardware: HardwareProfile
    work: Workload
    marks: Marks
    curve: tuple[tuple[int, float], ...]  # budget in bytes, predicted decode tokens/s; never falling
    ram_limit: int
    ram_most: int  # without a RAM budget
    recorded: RecordedHeat | None = None  # use of the experts that plans go by


class Forecast:
    """`taken`: GPU memory that other programs hold. `overhead`: what the running device needs besides weights and
    caches; None: an estimate. `recorded`: the model's use of its experts so far."""

    def __init__(
        self,
        shape: ModelShape,
        hardware: HardwareProfile,
        work: Workload,
        *,
        ram: int | None = None,
        taken: int = 0,
        overhead: int | None = None,
        recorded: RecordedHeat | None = None,
    ) -> None:
        heat = recorded.of(model_items(shape).banks) if recorded is not None else None
        self.planner = Planner(shape, hardware, work, heat=heat)
        if overhead is not None:
            self.planner.overhead = overhead
        self._heat = heat
        self._pinned: Planner | None = None  # made for the pins that were asked for last
        self._ram = ram
        self._safe = recommended_budget(hardware, taken).gpu_bytes
        limit, most = ram_limit(Budget(0, ram), hardware), ram_limit(Budget(0), hardware)
        known = recorded if heat is not None else None
        self.outlook = Outlook(shape, hardware, work, self._marks(), self._curve(), limit, most, known)

    def preview(self, budget: int, pins: Pins | None = None) -> Preview:
        """Pins bind the plan alone: marks and curve are those of the model."""
        try:
            return Preview(budget, self._planner(pins or Pins()).plan(Budget(budget, self._ram)))
        except EngineError as error:
            return Preview(budget, None, str(error))

    def _planner(self, pins: Pins) -> Planner:
        if not pins:
            return self.planner
        if self._pinned is None or self._pinned.pins != pins:
            free = self.planner
            self._pinned = Planner(free.shape, free.hardware, free.work, heat=self._heat, pins=pins)
            self._pinned.overhead = free.overhead
        return self._pinned

    def _choose(self, budget: int) -> Choice:
        return self.planner.choose(gpu_limit(Budget(budget), self.planner.hardware))

    def _speed(self, budget: int) -> float:
        return 1 / self.planner.times.seconds(self._choose(budget), decode=True)

    def _marks(self) -> Marks:
        gpu = self.planner.hardware.gpu
        if gpu is None:
            return Marks()
        if not self._choose(self._safe).uses_gpu:
            return Marks(self._safe, self._safe, self._safe, gpu.memory_bytes)
        goal = self._speed(self._safe) * RECOMMENDED_SPEED
        minimum = self._smallest(lambda budget: self._choose(budget).uses_gpu)
        recommended = self._smallest(lambda budget: self._speed(budget) >= goal)
        return Marks(minimum, max(minimum, recommended), self._safe, gpu.memory_bytes)

    def _smallest(self, holds) -> int:
        """The smallest budget, in whole MiB, for which `holds`; speeds never fall with it."""
        low, high = 0, self._safe // MiB
        while low < high:
            middle = (low + high) // 2
            if holds(middle * MiB):
                high = middle
            else:
                low = middle + 1
        return low * MiB

    def _curve(self) -> tuple[tuple[int, float], ...]:
        budgets = [self._safe * i // (CURVE_POINTS - 1) for i in range(CURVE_POINTS)] if self._safe else []
        return tuple((budget, self._speed(budget)) for budget in budgets)
