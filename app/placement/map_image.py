"""The map's cells as pixels: one line of pixels per row of cells, repeated down the row's height.

All memory is kept between frames: at 2x a picture is five megabytes, and fresh pages cost more than what they take.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPoint, QSize
from PySide6.QtGui import QImage

from app.placement.map_cells import MOVING, Places
from app.placement.map_colors import LEVELS, Levels, Pixels
from app.placement.map_grid import MapGrid

_HATCH = 2  # pixels of the squares in which a cell's place and its goal stand beside each other

Index = npt.NDArray[np.intp]


class MapImage:
    """The part of the grid at `offset`, of `size`, both in device pixels; `rows` and `columns` are those of the cells.

    `picture` shows what was drawn last; `pixels` are its memory, [height, width] as 0xffRRGGBB.
    """

    def __init__(self, grid: MapGrid, rows: int, columns: int, offset: QPoint, size: QSize) -> None:
        xs = slice(offset.x(), min(grid.width, offset.x() + size.width()))
        row_of_y = grid.row_of_y[offset.y() : min(grid.height, offset.y() + size.height())]
        self.pixels: npt.NDArray[np.uint32] = np.zeros((len(row_of_y), len(grid.column_of_x[xs])), np.uint32)
        height, width = self.pixels.shape
        self.picture = QImage(self.pixels.data, width, height, width * 4, QImage.Format.Format_RGB32)
        self._rows, self._columns = rows, columns
        # What -1 names in the grid is the empty cell behind the last row and column.
        self._inner, self._outer = (xs_of % (columns + 1) for xs_of in (grid.column_of_x[xs], grid.outer_of_x[xs]))
        self._row_of_y = row_of_y % (rows + 1)
        self._colors = np.zeros((rows + 1, 2, columns + 1), np.uint32)  # of cells: now, and as they would be
        self._lines = np.zeros((2, rows + 1, width), np.uint32)  # of pixels: two kinds, which a ghost alternates
        self._is_goal_first = np.arange(width) // _HATCH % 2 == 1
        self._is_second_kind = np.arange(height) // _HATCH % 2 == 1

    def draw(self, palette: Pixels, places: Places, levels: Levels | None, ghost: Places | None = None) -> None:
        """Where the cells are, how recently each was used, and where they would go: cells that would move are drawn in
        squares of the colour of moving and that of their goal. `palette`: as `map_palette` makes it."""
        self._color(0, palette, places, levels)
        if ghost is None:
            self._draw_lines(0, self._inner, self._outer)
            rows = self._row_of_y
        else:
            self._color(1, palette, ghost, levels)
            now = self._colors[: self._rows, 0, : self._columns]
            now[ghost != places] = palette[MOVING, 0]
            for kind, goal in enumerate((self._is_goal_first, ~self._is_goal_first)):
                shift = goal * (self._columns + 1)
                self._draw_lines(kind, self._inner + shift, self._outer + shift)
            rows = self._row_of_y + self._is_second_kind * (self._rows + 1)
        lines = self._lines.reshape(-1, self._lines.shape[2])
        np.take(lines, rows, axis=0, out=self.pixels, mode="clip")  # without a mode numpy would copy twice

    def _color(self, which: int, palette: Pixels, places: Places, levels: Levels | None) -> None:
        colors = self._colors[:, which]
        colors[-1] = colors[:, -1] = palette[0, 0]
        index: Index = places.astype(np.intp)
        index *= LEVELS
        if levels is not None:
            index += levels
        colors[:-1, :-1] = palette.reshape(-1)[index]

    def _draw_lines(self, kind: int, inner: Index, outer: Index) -> None:
        colors, lines = self._colors.reshape(self._rows + 1, -1), self._lines[kind]
        np.take(colors, inner, axis=1, out=lines, mode="clip")
        for row in (0, self._rows - 1):
            lines[row] = colors[row, outer]
