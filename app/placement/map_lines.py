"""What the map's table and its file say, line by line: one per tensor and expert, made when it is asked for. Free of
widgets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from app.placement.map_cells import DISK, GPU, MOVING, RAM, Cell, MapCells, Places
from app.placement.words import gib
from app.translation import engine_text, tr
from engine.placement.plan import PlacementPlan

PLACE_WORDS = {GPU: "GPU", RAM: "RAM", MOVING: "moving", DISK: "disk"}
HEADS = ("Name", "Type", "Size", "Place", "Use", "Why")


class MapLines:
    """The cells in the map's order, each tensor once; found by their number, since there may be twenty thousand."""

    def __init__(self, cells: MapCells) -> None:
        self._cells = cells
        self._tensors: list[list[Cell]] = [[] for _ in range(cells.rows)]
        seen = set()
        for at in sorted(cells.tensors):
            cell = cells.tensors[at]
            if cell.name not in seen:
                seen.add(cell.name)
                self._tensors[cell.row].append(cell)
        experts = [cells.banks[row - 1].count if row - 1 in cells.banks else 0 for row in range(cells.rows)]
        counts = (len(tensors) + count for tensors, count in zip(self._tensors, experts, strict=True))
        self._starts = list(accumulate(counts, initial=0))  # of rows, and the end

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, line: int) -> Cell:
        if not 0 <= line < len(self):
            raise IndexError(line)
        row = bisect_right(self._starts, line) - 1
        tensors, place = self._tensors[row], line - self._starts[row]
        if place < len(tensors):
            return tensors[place]
        cell = self._cells.at(row, self._cells.tensor_columns + place - len(tensors))
        assert cell is not None
        return cell


class Reasons:
    """Why the plan's items are where they are; put into the owner's language when somebody reads them."""

    def __init__(self, plan: PlacementPlan | None = None) -> None:
        self._said = {placed.item.key: placed.reason for placed in plan.items} if plan is not None else {}
        self._said |= {placed.bank.key: placed.reason for placed in plan.experts} if plan is not None else {}
        self._words: dict[str, str] = {}

    def of(self, item: str) -> str:
        if item not in self._words:
            self._words[item] = engine_text(self._said.get(item, ""))
        return self._words[item]


@dataclass(frozen=True, slots=True)
class MapText:
    """The table as it is at a moment. `use`: recent uses per cell, decayed; None where nothing is known."""

    lines: MapLines
    places: Places | None = None
    reasons: Reasons | None = None
    use: np.ndarray | None = None

    def words(self, cell: Cell, column: int) -> str:
        if column == 0:
            return cell.name
        if column == 1:
            return cell.type_name
        if column == 2:
            return gib(cell.bytes)
        if column == 3:
            return "" if self.places is None else tr(PLACE_WORDS[int(self.places[cell.row, cell.column])])
        if column == 4:
            if cell.expert < 0:
                return tr("every token")
            return "" if self.use is None else f"{self.use[cell.row, cell.column]:.1f}"
        return self.reasons.of(cell.item) if self.reasons is not None else ""

    def rows(self) -> Iterator[list[str]]:
        """The head, and every line."""
        columns = range(len(HEADS))
        yield [tr(HEADS[column]) for column in columns]
        for cell in self.lines:
            yield [self.words(cell, column) for column in columns]
