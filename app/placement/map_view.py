"""The expert and tensor map, drawn as one image: hover for facts, arrow keys for a cursor, zoom with Ctrl and wheel."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QToolTip, QWidget

from app.placement.map_cells import Cell, MapCells, Places
from app.placement.map_colors import Levels, map_palette
from app.placement.map_grid import MapGrid, map_grid
from app.placement.map_image import MapImage
from app.placement.map_labels import HEAD, LABELS, MapLabels
from app.theme.theme import Theme
from app.translation import tr

ZOOMS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
HEIGHT = 380  # pixels that the map may take before it scrolls


class MapView(QAbstractScrollArea):
    """`describe` gives the words for a cell. Where a cell is (`places`) may differ from where it would go (`ghost`):
    such cells are drawn in squares of the colour of moving and that of their goal."""

    cell_changed = Signal(object)  # Cell or None: under the cursor
    cell_pressed = Signal(object, object)  # Cell, and where on the screen: by the mouse or a key

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("map")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.viewport().setMouseTracking(True)
        self.setAccessibleName(tr("Map of tensors and experts"))
        self.describe: Callable[[Cell], str] = lambda cell: cell.name
        self._theme = theme
        self._cells: MapCells | None = None
        self._places: Places | None = None
        self._ghost: Places | None = None
        self._levels: Levels | None = None
        self._pinned: list[tuple[int, int]] = []
        self._grid: MapGrid | None = None
        self._image: MapImage | None = None
        self._is_drawn = False  # the image shows what the cells are now
        self._labels: MapLabels | None = None
        self._zoom = 0
        self._cursor: tuple[int, int] | None = None
        self._hover: tuple[int, int] | None = None
        self._palette = map_palette(theme.colors)
        theme.changed.connect(self._apply_theme)
        for bar in (self.horizontalScrollBar(), self.verticalScrollBar()):
            bar.valueChanged.connect(self._moved)

    # --- what is shown ----------------------------------------------------------------------------------------

    def show_cells(self, cells: MapCells | None) -> None:
        """Another model."""
        self._cells, self._places, self._ghost, self._levels = cells, None, None, None
        self._cursor = self._hover = None
        self._zoom = 0
        self._arrange()
        self.updateGeometry()

    def show_places(self, places: Places, levels: Levels | None = None, ghost: Places | None = None) -> None:
        """Where the cells are now, how recently each was used, and where they would go."""
        self._places, self._levels, self._ghost = places, levels, ghost
        self._is_drawn = False
        self.viewport().update()

    def show_pins(self, cells: list[tuple[int, int]]) -> None:
        """Rows and columns of what stays where its owner wants it."""
        if cells != self._pinned:
            self._pinned = cells
            self.viewport().update()

    @property
    def zoom(self) -> float:
        return ZOOMS[self._zoom]

    def zoom_by(self, steps: int, at: QPointF | None = None) -> None:
        level = min(max(self._zoom + steps, 0), len(ZOOMS) - 1)
        if level == self._zoom:
            return
        at = at or QPointF(self.viewport().width() / 2, self.viewport().height() / 2)
        held = self.cell_at(at)
        self._zoom = level
        self._arrange()
        if held is not None:  # stays where it is on screen
            moved = self.cell_box(held.row, held.column).center() - at
            self.horizontalScrollBar().setValue(self.horizontalScrollBar().value() + round(moved.x()))
            self.verticalScrollBar().setValue(self.verticalScrollBar().value() + round(moved.y()))

    # --- geometry ---------------------------------------------------------------------------------------------

    def sizeHint(self) -> QSize:
        return QSize(640, self.minimumSizeHint().height())

    def minimumSizeHint(self) -> QSize:
        if self._grid is None or self._zoom:
            return QSize(280, self.height() if self._zoom else 120)
        return QSize(280, min(HEIGHT + 20, round(self._grid.height / self._scale)) + HEAD + 2)

    @property
    def _scale(self) -> float:
        return self.devicePixelRatioF()

    def _arrange(self) -> None:
        """Cells to pixels, after a change of size, model or zoom."""
        self._grid = None
        if self._cells is not None:
            scale = self._scale
            width = max(80, self.width() - LABELS - 2)
            self._grid = map_grid(self._cells, int(width * scale), int(HEIGHT * scale), scale, self.zoom)
            view = self.viewport().size()
            for bar, size, page in (
                (self.horizontalScrollBar(), round(self._grid.width / scale) + LABELS, view.width()),
                (self.verticalScrollBar(), round(self._grid.height / scale) + HEAD, view.height()),
            ):
                bar.setRange(0, max(0, size - page) if self._zoom else 0)
                bar.setPageStep(page)
                bar.setSingleStep(24)
        self._moved()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()
        if event.oldSize().width() != event.size().width():
            self.updateGeometry()

    def _moved(self) -> None:
        self._labels = self._image = None
        self.viewport().update()

    def _apply_theme(self) -> None:
        self._palette = map_palette(self._theme.colors)
        self._moved()

    def _offset(self) -> QPoint:
        """Of the grid's visible part, in device pixels."""
        return QPoint(
            round(self.horizontalScrollBar().value() * self._scale),
            round(self.verticalScrollBar().value() * self._scale),
        )

    # --- drawing ----------------------------------------------------------------------------------------------

    def drawn_image(self) -> MapImage | None:
        """The visible part of the grid, at the screen's own resolution."""
        cells, grid, places = self._cells, self._grid, self._places
        if cells is None or grid is None or places is None:
            return None
        if self._image is None:
            view = self.viewport().size() * self._scale
            self._image = MapImage(grid, cells.rows, cells.columns, self._offset(), view)
            self._image.picture.setDevicePixelRatio(self._scale)
            self._is_drawn = False
        if not self._is_drawn:
            self._image.draw(self._palette, places, self._levels, self._ghost)
            self._is_drawn = True
        return self._image

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        image = self.drawn_image()
        if image is not None:
            painter.drawImage(QPointF(LABELS, HEAD), image.picture)
            if self._labels is None:
                assert self._cells is not None and self._grid is not None
                view = self.viewport().size()
                self._labels = MapLabels(self._theme, self._cells, self._grid, self._scale, self._offset(), view)
            self._labels.paint(painter)
            for pinned in self._pinned:
                self._draw_pin(painter, pinned)
            for cell, color in ((self._hover, "text"), (self._cursor if self.hasFocus() else None, "accent")):
                if cell is not None:
                    self._draw_frame(painter, cell, color)
        painter.end()

    def _draw_pin(self, painter: QPainter, cell: tuple[int, int]) -> None:
        """A dot in the cell's middle that leaves its colour to be seen; the whole of a cell too small for both."""
        box = self.cell_box(*cell)
        low = min(box.width(), box.height())
        size = low if low < 3 else min(low, max(2.0, box.height() / 2), 5.0)
        dot = QRectF(0, 0, size, size)
        dot.moveCenter(box.center())
        if low < 3 or low >= size + 4:
            painter.fillRect(dot.adjusted(-1, -1, 1, 1), self._theme.color("card"))
        painter.fillRect(dot, self._theme.color("text"))

    def _draw_frame(self, painter: QPainter, cell: tuple[int, int], color: str) -> None:
        box = self.cell_box(*cell)
        if box.isEmpty():
            return
        painter.setPen(QPen(self._theme.color(color), 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(box.adjusted(-1.5, -1.5, 1.5, 1.5))

    def cell_box(self, row: int, column: int) -> QRectF:
        """A cell's place in the viewport."""
        assert self._cells is not None and self._grid is not None
        x, y, width, height = self._grid.span(row, column, self._cells.rows)
        offset, scale = self._offset(), self._scale
        return QRectF((x - offset.x()) / scale + LABELS, (y - offset.y()) / scale + HEAD, width / scale, height / scale)

    # --- mouse and keys ---------------------------------------------------------------------------------------

    def cell_at(self, position: QPointF) -> Cell | None:
        if self._grid is None or self._cells is None or position.x() < LABELS or position.y() < HEAD:
            return None
        offset, scale = self._offset(), self._scale
        x, y = int((position.x() - LABELS) * scale) + offset.x(), int((position.y() - HEAD) * scale) + offset.y()
        found = self._grid.cell_at(x, y, self._cells.rows)
        return self._cells.at(*found) if found is not None else None

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._set_hover(self.cell_at(event.position()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        cell = self.cell_at(event.position())
        if event.button() == Qt.MouseButton.LeftButton and cell is not None:
            self.cell_pressed.emit(cell, event.globalPosition().toPoint())

    def _set_hover(self, cell: Cell | None) -> None:
        hover = None if cell is None else (cell.row, cell.column)
        if hover != self._hover:
            self._hover = hover
            self.cell_changed.emit(cell)
            self.viewport().update()

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            cell = self.cell_at(QPointF(event.pos()))
            QToolTip.showText(event.globalPos(), self.describe(cell) if cell is not None else "", self)
            return True
        if event.type() == QEvent.Type.Leave:
            self._set_hover(None)
        return super().viewportEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.zoom_by(1 if event.angleDelta().y() > 0 else -1, event.position())
        elif self._zoom:
            super().wheelEvent(event)
        else:
            event.ignore()  # the page scrolls

    def keyPressEvent(self, event: QKeyEvent) -> None:
        moves = {
            Qt.Key.Key_Left: (0, -1),
            Qt.Key.Key_Right: (0, 1),
            Qt.Key.Key_Up: (-1, 0),
            Qt.Key.Key_Down: (1, 0),
        }
        if event.key() in moves and self._cells is not None:
            self._move_cursor(*moves[Qt.Key(event.key())])
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and self._cursor is not None:
            assert self._cells is not None
            cell, box = self._cells.at(*self._cursor), self.cell_box(*self._cursor)
            self.cell_pressed.emit(cell, self.viewport().mapToGlobal(box.center().toPoint()))
        elif event.key() in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom_by(1)
        elif event.key() == Qt.Key.Key_Minus:
            self.zoom_by(-1)
        else:
            super().keyPressEvent(event)

    def _move_cursor(self, rows: int, columns: int) -> None:
        """To the next cell in that direction; over gaps, and never outside."""
        assert self._cells is not None
        row, column = self._cursor or (1, 0)
        cell = self._cells.at(row, column) if self._cursor is None else None
        while cell is None:
            row, column = row + rows, column + columns
            if not (0 <= row < self._cells.rows and 0 <= column < self._cells.columns):
                return
            cell = self._cells.at(row, column)
        self._cursor = cell.row, cell.column
        self.setAccessibleDescription(self.describe(cell))
        self.cell_changed.emit(cell)
        self._keep_in_view()
        self.viewport().update()

    def _keep_in_view(self) -> None:
        assert self._cursor is not None
        box, view = self.cell_box(*self._cursor), self.viewport().rect().adjusted(LABELS, HEAD, 0, 0)
        for bar, low, high, first, last in (
            (self.horizontalScrollBar(), box.left(), box.right(), view.left(), view.right()),
            (self.verticalScrollBar(), box.top(), box.bottom(), view.top(), view.bottom()),
        ):
            if low < first:
                bar.setValue(bar.value() - round(first - low))
            elif high > last:
                bar.setValue(bar.value() + round(high - last))

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.cell_changed.emit(None)
        self.viewport().update()
