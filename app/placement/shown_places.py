"""What the map shows: where everything is, as the executor tells, and where it would be, as planned."""

from __future__ import annotations

from app.placement.live_cells import LiveCells, live_levels, recorded_heat, with_disk
from app.placement.map_card import MapCard
from app.placement.map_cells import MapCells
from app.placement.map_colors import Levels, use_levels
from app.placement.page_words import plan_hint
from app.placement.placement_controller import Answer
from app.translation import tr
from engine.placement.plan import PlacementPlan
from engine.telemetry.residency import RamUse, ResidencySnapshot


class ShownPlaces:
    """Keeps what was made of the last residency, for as long as it holds."""

    def __init__(self) -> None:
        self._seen: LiveCells | None = None
        self._levels: Levels | None = None  # of what was seen
        self.on_disk: frozenset[tuple[str, int]] = frozenset()  # as the map shows it

    def show(
        self,
        card: MapCard,
        answer: Answer,
        plan: PlacementPlan,
        residency: ResidencySnapshot | None,
        ram: RamUse | None,
    ) -> None:
        """`plan` is that of the answer. `residency` and `ram` as they are told of what runs, None where the answer is
        of another machine."""
        cells = answer.cells
        self.on_disk = ram.on_disk if ram is not None else frozenset()
        if residency is None or not residency.items:
            self._seen = None
            recorded = answer.outlook.recorded
            levels = use_levels(recorded_heat(cells, recorded.counts)) if recorded is not None else None
            card.show_places(with_disk(cells, cells.of_plan(plan), ram), levels)
            card.show_hint(plan_hint(plan, recorded))
            return
        seen = self._look(cells, residency)
        ghost = None
        if answer.preview.budget != residency.budget_bytes:
            ghost = with_disk(cells, seen.wished(plan, answer.wish.pins), ram)
        card.show_places(with_disk(cells, seen.places, ram), self._levels, ghost, seen.heat)
        card.show_hint(tr("Violet: would move with the budget above.") if ghost is not None else "")

    def _look(self, cells: MapCells, residency: ResidencySnapshot) -> LiveCells:
        if self._seen is None or self._seen.residency is not residency or self._seen.cells is not cells:
            before = self._seen.heat if self._seen is not None else None
            self._seen = LiveCells(cells, residency)
            self._levels = live_levels(cells, self._seen.heat, before)
        return self._seen
