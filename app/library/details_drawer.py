"""Everything about one model on disk: state, facts, what is odd in its header, its metadata, and what can be done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.library.entry_words import MOODS, fact_rows, state_words
from app.library.metadata_table import MetadataTable
from app.library.pill import Pill
from app.theme.theme import Theme
from app.translation import engine_text, tr

if TYPE_CHECKING:
    from engine.hub.library import LibraryEntry

LOADABLE = ("READY", "CRASHED")
ORDERS = ("load", "verify", "reveal", "rename", "delete", "fetch")


class DetailsDrawer(QScrollArea):
    ordered = Signal(str)  # one of ORDERS, or "stop" while verifying

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("drawer")
        self.setAccessibleName(tr("Details"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.entry: LibraryEntry | None = None
        self._shown: Path | None = None  # whose metadata stands in the table
        self._fact_labels: list[tuple[QLabel, QLabel]] = []
        body = QWidget(self)
        body.setObjectName("drawerBody")
        layout = QVBoxLayout(body)
        layout.setContentsMargins(20, 16, 20, 20)
        layout.setSpacing(10)
        self.title = QLabel(body)
        self.title.setObjectName("drawerTitle")
        self.title.setWordWrap(True)
        self.title.setTextFormat(Qt.TextFormat.PlainText)
        self.pill = Pill("", "quiet", body)
        self.why = self._words(body)
        self.buttons: dict[str, QPushButton] = {}
        self.facts = QGridLayout()
        self.facts.setHorizontalSpacing(16)
        self.facts.setVerticalSpacing(5)
        self.facts.setColumnStretch(1, 1)
        self.quirks = self._words(body)
        self.quirks.setObjectName("quirks")
        self.metadata = MetadataTable(body)
        layout.addWidget(self.title)
        layout.addWidget(self.pill, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(self.why)
        layout.addLayout(self._button_grid(body))
        layout.addLayout(self.facts)
        layout.addWidget(self.quirks)
        layout.addWidget(self.metadata, 100)
        layout.addStretch(1)  # takes the room where there is no metadata to show
        self.setWidget(body)

    def _words(self, parent: QWidget) -> QLabel:
        label = QLabel(parent)
        label.setObjectName("settingHelp")
        label.setWordWrap(True)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        return label

    def _button_grid(self, parent: QWidget) -> QGridLayout:
        words = {
            "load": tr("Load"),
            "verify": tr("Verify again"),
            "reveal": tr("Show the file"),
            "rename": tr("Rename…"),
            "delete": tr("Delete…"),
            "fetch": tr("Fetch the rest"),
        }
        grid = QGridLayout()
        grid.setSpacing(6)
        for position, name in enumerate(ORDERS):
            button = QPushButton(words[name], parent)
            button.setObjectName("primary" if name == "load" else "secondary")
            button.clicked.connect(lambda _=False, name=name: self._press(name))
            grid.addWidget(button, position // 2, position % 2)
            self.buttons[name] = button
        return grid

    def _press(self, name: str) -> None:
        if name == "verify" and self.buttons["verify"].property("running"):
            name = "stop"
        self.ordered.emit(name)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Never so narrow that something of it would be cut off; there is no sideways scrolling."""
        super().resizeEvent(event)
        self.setMinimumWidth(self.widget().minimumSizeHint().width() + self.verticalScrollBar().sizeHint().width())

    def show_entry(self, entry: LibraryEntry | None, kv_type: str, *, is_loading: bool = False) -> None:
        """`kv_type`: of keys and values. `is_loading`: it is being loaded, and the button that loads stops that."""
        self.entry = entry
        self.setVisible(entry is not None)
        if entry is None:
            return
        why = engine_text(entry.why)
        self.title.setText(entry.title)
        self.pill.show_text(state_words(entry), MOODS[entry.state.name], why)
        self.why.setText(why)
        self.why.setVisible(bool(entry.why))
        self._show_facts(fact_rows(entry, kv_type))
        quirks = entry.facts.quirks if entry.facts is not None else ()
        self.quirks.setText("\n".join(f"•  {engine_text(quirk)}" for quirk in quirks))
        self.quirks.setVisible(bool(quirks))
        self._show_buttons(entry, is_loading)
        if entry.path != self._shown:
            self._shown = entry.path
            self.metadata.clear()
            self.show_verifying(None)

    def _show_buttons(self, entry: LibraryEntry, is_loading: bool) -> None:
        on_disk = bool(entry.files)
        words = {"IN_USE": tr("Loaded"), "CRASHED": tr("Try again")}.get(entry.state.name, tr("Load"))
        self.buttons["load"].setText(tr("Stop loading") if is_loading else words)
        self.buttons["load"].setEnabled(is_loading or entry.state.name in LOADABLE)
        for name in ("verify", "reveal", "rename", "delete"):
            self.buttons[name].setEnabled(on_disk)
        self.buttons["fetch"].setVisible(bool(entry.missing and entry.repository))

    def _show_facts(self, rows: list[tuple[str, str]]) -> None:
        while len(self._fact_labels) < len(rows):
            self._fact_labels.append(self._add_fact(len(self._fact_labels)))
        for position, (left, right) in enumerate(self._fact_labels):
            name, value = rows[position] if position < len(rows) else ("", "")
            left.setText(name)
            right.setText(value)
            left.setVisible(bool(name))
            right.setVisible(bool(name))

    def _add_fact(self, row: int) -> tuple[QLabel, QLabel]:
        left, right = QLabel(self.widget()), QLabel(self.widget())
        left.setObjectName("settingHelp")
        right.setObjectName("factValue")
        right.setTextFormat(Qt.TextFormat.PlainText)
        right.setWordWrap(True)
        self.facts.addWidget(left, row, 0, Qt.AlignmentFlag.AlignTop)
        self.facts.addWidget(right, row, 1)
        return left, right

    def show_verifying(self, fraction: float | None) -> None:
        """How far a check is; None when none is running."""
        button = self.buttons["verify"]
        button.setProperty("running", fraction is not None)
        button.setText(
            tr("Verify again") if fraction is None else tr("Stop  {percent} %", percent=round(100 * fraction))
        )
