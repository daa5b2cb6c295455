"""Streaming: which experts come over the link for a part of a prompt, and into which tile each of them goes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from engine.runtime.expert_slots import ExpertHeat, Ids, SlotTable

FEWEST_TOKENS = 32  # of a step, for streaming to be worth while: below, most experts have a token or none


class Tiles:
    """One step's choice: of each bank the most used experts without a slot, in tiles of `sizes[bank]`."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self._experts: dict[str, tuple[int, ...]] = {}
        self._places: dict[str, Ids] = {}

    def choose(self, counts: Mapping[str, int], tables: Mapping[str, SlotTable], heat: ExpertHeat) -> None:
        """`counts[bank]` experts of each bank, or as many as have no slot."""
        for bank, count in counts.items():
            table = tables[bank]
            ranked = heat.hottest(bank, table.count, table.count)
            chosen = tuple([expert for expert in ranked if table.slots[expert] < 0][:count])
            places = np.full(table.count, -1, np.int32)
            places[list(chosen)] = np.arange(len(chosen))
            self._experts[bank], self._places[bank] = chosen, places

    def experts(self, bank: str, tile: int) -> tuple[int, ...]:
        size = self._sizes[bank]
        return self._experts[bank][tile * size : (tile + 1) * size]

    def look_up(self, bank: str, tile: int, ids: Ids) -> Ids:
        """Places of experts in a tile; -1 for those that are not in it."""
        size, places = self._sizes[bank], self._places[bank].take(ids)
        found: Ids = np.where(places // size == tile, places % size, np.int32(-1))
        return found

    def is_streamed(self, bank: str) -> npt.NDArray[np.bool_]:
        """Which experts of a bank are in any tile."""
        return self._places[bank] >= 0
