"""HeatRecorder: keeps a running model's use of experts on disk, and gives what was kept to the next start."""

from __future__ import annotations

import contextlib
from pathlib import Path

from engine.placement.heat import HeatStore, RecordedHeat
from engine.placement.items import model_items
from engine.placement.locality import chances_in_order
from engine.placement.shape import ModelShape
from engine.runtime.expert_slots import HALF_LIFE_TOKENS, ExpertHeat

_TOKENS_BETWEEN = 512  # two saves
_TRUST = 0.5  # in what was hot the last time, against what this conversation uses


class HeatRecorder:
    """All calls come from the engine's thread, between steps."""

    def __init__(self, folder: Path, shape: ModelShape, heat: ExpertHeat) -> None:
        self._store = HeatStore(folder, shape)
        self._heat = heat
        self._banks = model_items(shape).banks
        self.record: RecordedHeat = self._store.load()
        self._seed()

    @property
    def for_planner(self) -> list[list[float]] | None:
        return self.record.of(self._banks)

    def _seed(self) -> None:
        """The most used experts of last time come into the slots first."""
        rows = self.for_planner
        if rows is None:
            return
        steady = HALF_LIFE_TOKENS / 0.693  # decayed tokens that a running count remembers
        for bank, row in zip(self._banks, rows, strict=True):
            self._heat.of(bank.key)[: bank.count] = [
                chance * steady * _TRUST for chance in chances_in_order(row, bank.used)
            ]

    def save(self, *, at_once: bool = False) -> None:
        """Where enough was used since the last time. A disk that refuses costs the record, not the answer."""
        if self._heat.recorded_tokens < (1 if at_once else _TOKENS_BETWEEN):
            return
        counts, tokens = self._heat.take_record()
        self.record = self.record.after(counts, tokens)
        with contextlib.suppress(OSError):
            self._store.save(self.record)
