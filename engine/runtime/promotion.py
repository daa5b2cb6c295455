"""Promotion: experts that are used more than others move into slots, in the background, while the link is idle."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.runtime.devices.streams import Event, Launch, Span, Task
from engine.runtime.expert_slots import ExpertHeat, Ids, Promotion, Uses
from engine.runtime.residency import Residency
from engine.runtime.staging import Rows

# Weights on their way at a time: as many as come over the link within about a token's time.
_AT_ONCE = 4
_NOBODY: Ids = np.empty((0, 0), np.int32)
_TOKENS_BETWEEN = 4  # so that choosing costs little beside decoding


@dataclass(frozen=True, slots=True, eq=False)
class _UnderWay:
    promotions: tuple[Promotion, ...]
    launch: Launch
    done: Event


class Promoter:
    """Counts uses during a step, and between steps lets the most profitable swaps begin and takes in finished ones."""

    def __init__(self, residency: Residency, heat: ExpertHeat) -> None:
        self._residency = residency
        self._heat = heat
        self._used: dict[str, Ids] = {}
        self._uses: tuple[Uses, ...] = ()
        self._under_way: _UnderWay | None = None
        self._since = 0
        self.promoted = 0
        self.changed: set[str] = set()  # banks whose tables differ from what the programs were told
        self.is_enabled = True
        self.trace: list[Span] | None = None
        self.now = 0.0  # on a virtual clock

    def note(self, bank: str, ids: Rows) -> None:
        """Called on the device's stream with the experts that the step uses."""
        self._used[bank] = ids.copy()

    def note_all(self, uses: tuple[Uses, ...]) -> None:
        """The same for all banks at once, where nobody changes the arrays before `after_step`."""
        self._uses = uses

    def used(self, bank: str) -> Ids:
        """The experts that the present step uses, a row per token that is left in that layer."""
        return self._used.get(bank, _NOBODY)

    def after_step(self, tokens: int) -> None:
        """Counts what was used; begins promotions where nothing is under way."""
        uses, self._uses = self._uses or Uses.of(self._used), ()
        self._used.clear()
        if not uses:
            return
        self._heat.note(uses)
        self._since += tokens
        if self.is_enabled and self._under_way is None and self._since >= _TOKENS_BETWEEN:
            self._since = 0
            banks = uses[0].banks if len(uses) == 1 else tuple(bank for part in uses for bank in part.banks)
            self.begin(self._heat.promotions(banks, _AT_ONCE))

    def settle(self) -> None:
        """Before a step: takes finished promotions into the tables; waits for none."""
        self._used.clear()  # of a step that failed or was left
        self._uses = ()
        if self._under_way is not None and self._under_way.done.is_set_within(0):
            self._take_in(self._under_way)

    def finish(self) -> None:
        """Waits for what is under way; nothing moves afterwards until the next step."""
        if self._under_way is not None:
            self._under_way.done.wait()
            self._take_in(self._under_way)

    def begin(self, promotions: Sequence[Promotion]) -> None:
        """Empties the slots and lets the copies begin; nothing else may be under way."""
        assert self._under_way is None
        if not promotions:
            return
        for promotion in promotions:
            self._residency.banks[promotion.bank].table.evict(promotion.slot)
            self.changed.add(promotion.bank)
        launch = Launch(self.now, spans=self.trace)
        tasks = [self._copy(promotion) for promotion in promotions]
        done = self._residency.device.weights.launch(tasks, launch)
        self._under_way = _UnderWay(tuple(promotions), launch, done)

    def _copy(self, promotion: Promotion) -> Task:
        residency, device = self._residency, self._residency.device
        size = sum(residency.banks[promotion.bank].expert_bytes.values())

        def work() -> None:
            began = time.perf_counter()
            residency.copy_expert(promotion.bank, promotion.expert, promotion.slot)
            device.hold_link("weights", size, time.perf_counter() - began)

        name = f"{promotion.bank} {promotion.expert} to slot {promotion.slot}"
        return Task(name, "link", work, cost=lambda: device.link.seconds(size))

    def _take_in(self, under_way: _UnderWay) -> None:
        self._under_way = None
        if under_way.launch.failure is not None:
            return  # the slots stay empty; what was used most tries again
        for promotion in under_way.promotions:
            self._residency.banks[promotion.bank].table.install(promotion.slot, promotion.expert)
            self.changed.add(promotion.bank)
            self.promoted += 1
