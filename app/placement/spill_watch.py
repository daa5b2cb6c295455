"""Tells when the driver has moved memory of the card to RAM, and offers the budget at which it comes back."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app.placement.placement_controller import PlacementController
from app.placement.spill import lower_budget, spilled_bytes
from app.placement.words import gib
from app.problems import Action, Problem, Problems
from app.telemetry.telemetry_feed import TelemetryFeed
from app.translation import tr

PROBLEM = "spill"
LOOKS = 8  # in a row, at four a second: a migration is no spill


class SpillWatch(QObject):
    def __init__(self, feed: TelemetryFeed, placement: PlacementController, problems: Problems) -> None:
        super().__init__(feed)
        self._feed, self._placement, self._problems = feed, placement, problems
        self._looks = 0
        feed.updated.connect(self._look)

    def _look(self) -> None:
        feed = self._feed
        gpu = feed.snapshot.gpu if feed.snapshot is not None else None
        spilled = 0 if self._placement.live.progress is not None else spilled_bytes(feed.residency, gpu)
        if not spilled:
            if self._looks >= LOOKS:
                self._problems.clear(PROBLEM)
            self._looks = 0
            return
        self._looks += 1
        if self._looks == LOOKS:
            self._tell(spilled)

    def _tell(self, spilled: int) -> None:
        residency = self._feed.residency
        assert residency is not None
        budget = lower_budget(residency, spilled)
        lower = Action(
            tr("Lower the budget to {size}", size=gib(budget)),
            lambda: self._placement.live.set_budget(budget),
            primary=True,
        )
        self._problems.show(
            Problem(
                PROBLEM,
                tr(
                    "The driver has moved {size} of the card's memory to RAM: answers are slower.",
                    size=gib(spilled),
                ),
                remedy=tr("Other programs want the card too, or the budget is too large."),
                actions=(lower,),
            )
        )
