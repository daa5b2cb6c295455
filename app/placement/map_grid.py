"""Where the map's cells lie on screen: device pixels to rows and columns, as arrays. Free of Qt.

Every cell is a whole number of device pixels, so that the grid is even at every screen scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from app.placement.map_cells import MapCells

Index = npt.NDArray[np.int32]

GAP_ROWS = 3  # rows' worth of pixels between the layers and what lies outside them, in device-independent pixels
BANK_GAP = 10  # between tensors and experts
TENSOR_WIDTH = 9  # of a tensor beside experts
MOST_WIDER = 7  # by which a tensor's cell may grow
GROUP, MOST_GROUP_GAP = 16, 5
LEAST_ROW, MOST_ROW = 3, 11


@dataclass(frozen=True, slots=True)
class MapGrid:
    """`row_of_y[y]` and `column_of_x[x]` name the cell under a device pixel, -1 between cells.

    `outer_of_x` is the same for the first and the last row, whose cells are wider.
    """

    row_of_y: Index
    column_of_x: Index
    outer_of_x: Index
    expert_x: int  # where the experts begin

    @property
    def width(self) -> int:
        return len(self.column_of_x)

    @property
    def height(self) -> int:
        return len(self.row_of_y)

    def cell_at(self, x: int, y: int, rows: int) -> tuple[int, int] | None:
        if not (0 <= x < self.width and 0 <= y < self.height):
            return None
        row = int(self.row_of_y[y])
        column = int((self.outer_of_x if row in (0, rows - 1) else self.column_of_x)[x])
        return None if row < 0 or column < 0 else (row, column)

    def span(self, row: int, column: int, rows: int) -> tuple[int, int, int, int]:
        """x, y, width and height of a cell; a width of 0 where it is not on screen."""
        xs = np.flatnonzero((self.outer_of_x if row in (0, rows - 1) else self.column_of_x) == column)
        ys = np.flatnonzero(self.row_of_y == row)
        if not len(xs) or not len(ys):
            return 0, 0, 0, 0
        return int(xs[0]), int(ys[0]), int(xs[-1] - xs[0] + 1), int(ys[-1] - ys[0] + 1)


def map_grid(cells: MapCells, width: int, height: int, scale: float, zoom: float = 1.0) -> MapGrid:
    """A grid that fills `width` device pixels where it can, at most `height` high before zooming.

    `scale`: device pixels per device-independent one.
    """
    row_height = np.clip(height / scale / cells.rows, LEAST_ROW, MOST_ROW) * zoom
    row_pixels = max(2, int(row_height * scale))
    rows = _runs([row_pixels] * cells.rows, _gap(row_pixels, scale))
    outer_gap = np.full(round(GAP_ROWS * scale), -1, np.int32)
    last = np.flatnonzero(rows == cells.rows - 1)[0]
    rows = np.concatenate((rows[:row_pixels], outer_gap, rows[row_pixels:last], outer_gap, rows[last:]))
    room = int(width * zoom)
    widths, gap = _tensor_widths(cells, room, scale, zoom)
    tensors = _runs(widths, gap)
    if not cells.experts:
        return MapGrid(rows, tensors, _outer(tensors, cells), len(tensors))
    bank_gap = np.full(round(BANK_GAP * scale), -1, np.int32)
    free = room - len(tensors) - len(bank_gap)
    experts = _expert_columns(cells.experts, free, scale)
    experts[experts >= 0] += cells.tensor_columns
    columns = np.concatenate((tensors, bank_gap, experts)).astype(np.int32)
    outer = np.concatenate((_outer(tensors, cells), np.full(len(columns) - len(tensors), -1, np.int32)))
    return MapGrid(rows, columns, outer.astype(np.int32), len(tensors) + len(bank_gap))


def _expert_columns(count: int, free: int, scale: float) -> Index:
    """Even cells with lines between them; with too few pixels for lines, cells fill the width as they can."""
    each = max(1, free // count)
    if _gap(each, scale):
        group_gap = _group_gap(count, free - each * count, scale)
        return _groups(_runs([each] * count, _gap(each, scale)), each * GROUP, group_gap)
    edges = np.rint(np.linspace(0, max(free, count), count + 1)).astype(int)
    return _runs(np.diff(edges).tolist(), 0)


def _group_gap(experts: int, spare: int, scale: float) -> int:
    """What is left of the width goes between groups of GROUP experts, which helps counting them."""
    return min(round(MOST_GROUP_GAP * scale), spare // max(1, (experts - 1) // GROUP))


def _groups(columns: Index, pixels: int, gap: int) -> Index:
    """With `gap` empty pixels after every `pixels`."""
    if not gap:
        return columns
    groups = [columns[start : start + pixels] for start in range(0, len(columns), pixels)]
    empty = np.full(gap, -1, np.int32)
    return np.concatenate([part for group in groups for part in (group, empty)][:-1])


def _tensor_widths(cells: MapCells, room: int, scale: float, zoom: float) -> tuple[list[int], int]:
    """Beside experts all alike; alone they share the room, large tensors taking more of it."""
    count = cells.tensor_columns
    if cells.experts:
        has_lines = _gap(room // cells.experts, scale) > 0
        spare = room % cells.experts // count if has_lines else 0  # pixels that whole experts cannot use
        each = max(3, round(TENSOR_WIDTH * scale * zoom) + min(spare, round(MOST_WIDER * scale)))
        return [each] * count, _gap(each, scale)
    roots = np.sqrt([cells.bytes_of_part(part) for part in range(count)])
    shares = 0.25 * roots.max() + roots
    edges = np.rint(np.cumsum(shares) / shares.sum() * room).astype(int)
    return [max(3, int(w)) for w in np.diff(edges, prepend=0)], max(1, round(2 * scale))


def _outer(tensors: Index, cells: MapCells) -> Index:
    """Without gaps but before the last tensor's own column: the big tensor reads as one bar."""
    filled = tensors.copy()
    for x in range(1, len(filled)):
        if filled[x] < 0 and filled[x - 1] >= 1:
            filled[x] = filled[x - 1]
    return filled


def _gap(pixels: int, scale: float) -> int:
    """Cells of few pixels touch each other; there is no room for lines between them."""
    return max(1, round(scale)) if pixels >= 3 * scale else 0


def _runs(pixels: list[int], gap: int) -> Index:
    """Numbers 0, 1, … each repeated `pixels` times, the last `gap` of them replaced by -1."""
    total = np.repeat(np.arange(len(pixels), dtype=np.int32), pixels)
    if gap:
        ends = np.cumsum(pixels)
        for back in range(1, gap + 1):
            total[ends - back] = -1
    return total
