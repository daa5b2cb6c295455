"""The card of the map: picture or table, legend, zoom, and the facts of the cell under the pointer."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.menu import open_menu
from app.placement.map_cells import Cell, MapCells, Places
from app.placement.map_colors import Levels
from app.placement.map_lines import PLACE_WORDS, MapLines, MapText, Reasons
from app.placement.map_table import MapTable
from app.placement.map_view import MapView
from app.placement.pin_menu import pin_menu, pinned
from app.placement.words import gib
from app.theme.kept_picture import KeptPicture
from app.theme.theme import Theme
from app.translation import tr
from engine.placement.pins import Pins
from engine.placement.plan import PlacementPlan

FACTS = 36  # pixels for two lines, so that nothing below moves when they change


class Legend(QWidget):
    """Hues of the places, and what depth of colour means."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._parts = [("place_gpu", "GPU"), ("place_ram", "RAM"), ("place_moving", "moving"), ("place_disk", "disk")]
        self._picture = KeptPicture(self, theme, self._draw)
        self.setFixedHeight(18)
        theme.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        self._picture.paint()

    def _draw(self, painter: QPainter) -> None:
        theme = self._theme
        painter.setFont(theme.font(theme.type.tiny))
        metrics, x = painter.fontMetrics(), 0.0
        for token, words in self._parts:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(theme.color(token))
            painter.drawRoundedRect(QRectF(x, 3.5, 11, 11), 2.5, 2.5)
            painter.setPen(theme.color("muted"))
            painter.drawText(QPointF(x + 16, 13), tr(words))
            x += 16 + metrics.horizontalAdvance(tr(words)) + 16
        for token in ("place_gpu", "place_ram"):
            for step in range(5):
                painter.fillRect(QRectF(x, 3.5, 7, 11), _between(theme, token, step / 4))
                x += 7
            x += 4
        painter.setPen(theme.color("muted"))
        painter.drawText(QPointF(x + 4, 13), self._depth_words)

    @property
    def _depth_words(self) -> str:
        return tr("deeper: used lately") if self._theme.name == "light" else tr("brighter: used lately")

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(self._theme.font(self._theme.type.tiny))
        places = sum(32 + metrics.horizontalAdvance(tr(words)) for _, words in self._parts)
        return QSize(places + 2 * 39 + 4 + metrics.horizontalAdvance(self._depth_words) + 2, 18)


def _between(theme: Theme, token: str, share: float):
    cold, hot = theme.color(token), theme.color(f"{token}_hot")
    cold.setRgbF(*(c + (h - c) * share for c, h in zip(cold.getRgbF()[:3], hot.getRgbF()[:3], strict=True)))
    return cold


class MapCard(QFrame):
    """Pressing a cell opens its menu: where its owner wants it."""

    pin_requested = Signal(str, int, object)  # key of the item or bank, expert or -1, True: GPU, False: RAM, None

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self._theme = theme
        self._cells: MapCells | None = None
        self._places: Places | None = None
        self._lines: MapLines | None = None
        self._reasons = Reasons()
        self._use = None
        self.view = MapView(theme, self)
        self.view.describe = self.describe
        self.view.cell_changed.connect(self._show_cell)
        self.view.cell_pressed.connect(self._open_menu)
        self._pins = Pins()
        self._table: MapTable | None = None
        self.legend = Legend(theme, self)
        self.stack = QStackedWidget(self)
        self.stack.addWidget(self.view)
        self.facts = QLabel(self)
        self.facts.setObjectName("settingHelp")
        self.facts.setWordWrap(True)
        self.facts.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.facts.setFixedHeight(FACTS)
        self.hint = ""
        self.as_table = QPushButton(tr("As a table"), self)
        self.as_table.setObjectName("tab")
        self.as_table.setCheckable(True)
        self.as_table.toggled.connect(self._show_table)
        self._zoom_buttons = {1: QToolButton(self), -1: QToolButton(self)}
        self._lay_out()
        theme.changed.connect(self._apply_theme)
        self._apply_theme()

    def _lay_out(self) -> None:
        title = QLabel(tr("Where everything is"), self)
        title.setObjectName("cardTitle")
        head = QHBoxLayout()
        head.setSpacing(4)
        head.addWidget(title)
        head.addStretch(1)
        for step, words in ((-1, tr("Smaller")), (1, tr("Larger"))):
            button = self._zoom_buttons[step]
            button.setObjectName("quiet")
            button.setIconSize(QSize(16, 16))
            button.setToolTip(words)
            button.setAccessibleName(words)
            button.clicked.connect(lambda _=False, step=step: self.view.zoom_by(step))
            head.addWidget(button)
        head.addWidget(self.as_table)
        foot = QHBoxLayout()
        foot.addWidget(self.legend, 0)
        foot.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 14, 20, 14)
        layout.setSpacing(8)
        layout.addLayout(head)
        layout.addWidget(self.stack)
        layout.addLayout(foot)
        layout.addWidget(self.facts)

    # --- what is shown ----------------------------------------------------------------------------------------

    def show_cells(self, cells: MapCells | None) -> None:
        self._cells, self._places, self._lines = cells, None, None
        self.view.show_cells(cells)
        self._refresh_table()

    def show_places(self, places: Places, levels: Levels | None = None, ghost: Places | None = None, use=None) -> None:
        self._places, self._use = places, use
        self.view.show_places(places, levels, ghost)
        self._refresh_table()

    def show_reasons(self, plan: PlacementPlan) -> None:
        """Sentences of the plan, by item."""
        self._reasons = Reasons(plan)

    def show_pins(self, pins: Pins) -> None:
        self._pins = pins
        cells = self._cells.cells_of(pins) if self._cells is not None and pins else []
        self.view.show_pins(cells)

    def _open_menu(self, cell: Cell, at: QPoint) -> None:
        menu = pin_menu(cell, self._pins, lambda to: self.pin_requested.emit(cell.item, cell.expert, to), self)
        open_menu(menu, at)

    def show_hint(self, words: str) -> None:
        """What stands below while no cell is under the pointer."""
        self.hint = words or tr(
            "Point at a cell, or move with the arrow keys: what it is, and why it is there. Press it to pin it."
        )
        self.facts.setText(self.hint)

    def describe(self, cell: Cell) -> str:
        place = PLACE_WORDS.get(int(self._places[cell.row, cell.column]), "") if self._places is not None else ""
        parts = [cell.name, cell.type_name, gib(cell.bytes), tr(place)]
        if cell.expert < 0:
            parts.append(tr("used by every token"))
        elif self._use is not None:
            parts.append(tr("recent uses {count}", count=f"{self._use[cell.row, cell.column]:.1f}"))
        if cell.expert >= 0 and (there := pinned(cell, self._pins)) is not None:
            parts.append(tr("kept on the GPU by you") if there else tr("kept in RAM by you"))
        reason = self._reasons.of(cell.item)
        return "  ·  ".join(part for part in parts if part) + (f"\n{reason}" if reason else "")

    def _show_cell(self, cell: Cell | None) -> None:
        self.facts.setText(self.hint if cell is None else self.describe(cell).replace("\n", "  ·  "))

    @property
    def table(self) -> MapTable:
        """Made when it is first asked for."""
        if self._table is None:
            self._table = MapTable(self.stack)
            self._table.cell_pressed.connect(self._open_menu)
            self._table.cell_changed.connect(self._show_cell)  # its reason is longer than its column
            self.stack.addWidget(self._table)
        return self._table

    @property
    def text(self) -> MapText | None:
        """What the table says now, shown or not; None without a model."""
        if self._lines is None and self._cells is not None:
            self._lines = MapLines(self._cells)
        return MapText(self._lines, self._places, self._reasons, self._use) if self._lines is not None else None

    def _refresh_table(self) -> None:
        if self._table is not None and self.as_table.isChecked():
            self._table.rows.show_text(self.text)

    def _show_table(self, shown: bool) -> None:
        if shown:
            self.table.rows.show_text(self.text)
        self.stack.setCurrentWidget(self.table if shown else self.view)
        for button in self._zoom_buttons.values():
            button.setVisible(not shown)

    def _apply_theme(self) -> None:
        for step, button in self._zoom_buttons.items():
            button.setIcon(self._theme.icon("plus" if step > 0 else "minus"))
