"""Names beside and above the map, drawn once per geometry: at ten updates a second text would cost most of a frame."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPoint, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPixmap

from app.placement.map_cells import MapCells
from app.placement.map_grid import MapGrid
from app.theme.theme import Theme
from app.translation import tr

LABELS = 30  # pixels at the left for layer numbers
HEAD = 18  # pixels above for column names
_STEPS = (1, 2, 4, 5, 8, 10, 16, 20, 50, 100)


class MapLabels:
    """`offset`: of the grid's visible part, in device pixels."""

    def __init__(self, theme: Theme, cells: MapCells, grid: MapGrid, scale: float, offset: QPoint, view: QSize) -> None:
        self._theme, self._cells, self._grid = theme, cells, grid
        self._scale, self._offset, self._view = scale, offset, view
        self._left = self._drawn(QSize(LABELS, view.height()), self._draw_rows)
        self._top = self._drawn(QSize(view.width(), HEAD), self._draw_columns)

    def paint(self, painter: QPainter) -> None:
        painter.drawPixmap(0, 0, self._top)
        painter.drawPixmap(0, 0, self._left)  # the first row's label reaches a little above it

    def _drawn(self, size: QSize, draw) -> QPixmap:
        pixmap = QPixmap(size * self._scale)
        pixmap.setDevicePixelRatio(self._scale)
        pixmap.fill(self._theme.color("card"))
        painter = QPainter(pixmap)
        painter.setPen(self._theme.color("muted"))
        painter.setFont(self._theme.font(11))
        draw(painter)
        painter.end()
        return pixmap

    def _draw_rows(self, painter: QPainter) -> None:
        cells, grid, scale = self._cells, self._grid, self._scale
        rows, starts = np.unique(grid.row_of_y, return_index=True)
        row_height = max(1.0, grid.height / scale / cells.rows)
        every = next((step for step in _STEPS if step * row_height >= 15), _STEPS[-1])
        for row, start in zip(rows.tolist(), starts.tolist(), strict=True):
            middle = (start - self._offset.y()) / scale + HEAD + row_height / 2 - 1
            outer = row in (0, cells.rows - 1)
            too_close = not outer and ((row - 1) % every or (cells.rows - 1 - row) * row_height < 13)
            if row < 0 or middle < HEAD - 1 or too_close or (row == 1 and row_height < 9):
                continue
            box = QRectF(0, middle - 7, LABELS - 7, 14)
            painter.drawText(box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, cells.label(row))

    def _draw_columns(self, painter: QPainter) -> None:
        for words, start, end in self._heads():
            left = max(float(LABELS), (start - self._offset.x()) / self._scale + LABELS)
            width = max(0.0, (end - self._offset.x()) / self._scale + LABELS - left)
            text = painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, int(width))
            painter.drawText(QRectF(left, 0, width, HEAD - 3), Qt.AlignmentFlag.AlignVCenter, text)

    def _heads(self) -> list[tuple[str, int, int]]:
        """Names, and from where to where they may reach in device pixels."""
        cells, grid = self._cells, self._grid
        if cells.experts:
            gap = round(8 * self._scale)
            words = tr("{count} experts per layer", count=cells.experts)
            return [(tr("tensors"), 0, grid.expert_x - gap), (words, grid.expert_x, grid.width)]
        found = []
        for column, name in enumerate(cells.parts):
            xs = np.flatnonzero(grid.column_of_x == column)
            if len(xs):
                found.append((_short(name), int(xs[0]), int(xs[-1]) + 1))
        return found


def _short(part: str) -> str:
    for start in ("attn_", "ffn_"):
        if part.startswith(start):
            return part.removeprefix(start)
    return part
