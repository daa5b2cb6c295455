"""The panel at the right: how this conversation is answered."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QMenu,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.parameters.parameter_row import ParameterRow
from app.chat.parameters.presets import BUILT_IN, Presets
from app.chat.parameters.table import PARAMETERS, changed_only
from app.menu import open_below
from app.theme.theme import Theme
from app.translation import tr

PANEL_WIDTH = 320


class ParametersPanel(QFrame):
    changed = Signal(dict)  # parameters that differ from the defaults
    close_requested = Signal()

    def __init__(self, theme: Theme, presets: Presets, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("parameters")
        self.setFixedWidth(PANEL_WIDTH)
        self._theme = theme
        self._presets = presets
        self._values: dict[str, Any] = {}
        self.rows: dict[str, ParameterRow] = {}
        self.preset = QComboBox(self)
        self.preset.setAccessibleName(tr("Preset"))
        self.preset.activated.connect(self._chosen)
        self.more = self._button("more", tr("Save or delete a preset"), self._open_menu)
        self.close_button = self._button("close", tr("Close"), self.close_requested.emit)
        title = QLabel(tr("Parameters"), self)
        title.setObjectName("panelTitle")
        head = QHBoxLayout()
        head.addWidget(title)
        head.addStretch(1)
        head.addWidget(self.close_button)
        presets_row = QHBoxLayout()
        presets_row.addWidget(self.preset, 1)
        presets_row.addWidget(self.more)
        body = QWidget(self)
        body.setObjectName("pageBody")
        rows = QVBoxLayout(body)
        rows.setContentsMargins(18, 0, 14, 18)
        rows.setSpacing(4)
        self._fill(rows)
        scroll = QScrollArea(self)
        scroll.setAccessibleName(tr("Parameters"))
        scroll.setObjectName("page")
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(body)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        for row in (head, presets_row):
            row.setContentsMargins(18, 8, 10, 0)
            layout.addLayout(row)
        layout.addWidget(scroll, 1)
        theme.changed.connect(self._apply_theme)
        self._apply_theme()
        self.show_values({})

    def add_above(self, widget: QWidget) -> None:
        """Something of the window's own, between the presets and the parameters."""
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.insertWidget(2, widget)

    def show_values(self, values: dict[str, Any]) -> None:
        self._values = changed_only(values)
        for name, row in self.rows.items():
            row.show_value(self._values.get(name, row.parameter.default))
        self._show_preset()

    def offer_reasoning(self, offered: bool) -> None:
        """Whether the loaded model lets its reasoning be switched."""
        self.rows["reasoning"].setEnabled(offered)

    def _fill(self, rows: QVBoxLayout) -> None:
        group = ""
        for parameter in PARAMETERS:
            if parameter.group != group:
                group = parameter.group
                heading = QLabel(tr(group), self)
                heading.setObjectName("groupTitle")
                rows.addSpacing(10)
                rows.addWidget(heading)
            row = ParameterRow(parameter, self._theme, self)
            row.changed.connect(self._row_changed)
            self.rows[parameter.name] = row
            rows.addWidget(row)
        rows.addStretch(1)

    def _row_changed(self, name: str, value: object) -> None:
        self._values = changed_only({**self._values, name: value})
        self._show_preset()
        self.changed.emit(dict(self._values))

    # --- presets ---

    def _show_preset(self) -> None:
        name = self._presets.name_of(self._values)
        self.preset.clear()
        for one in self._presets.names():
            self.preset.addItem(tr(one) if one in BUILT_IN else one, one)
        if not name:
            self.preset.addItem(tr("Changed"), "")
        self.preset.setCurrentIndex(self.preset.findData(name))

    def _chosen(self) -> None:
        name = self.preset.currentData()
        if name:
            self.show_values(self._presets[name])
            self.changed.emit(dict(self._values))

    def _open_menu(self) -> None:
        menu = QMenu(self)
        menu.addAction(tr("Save as a preset…"), self._ask_name)
        name = self.preset.currentData()
        delete = menu.addAction(tr("Delete this preset"), lambda: self._delete(name))
        delete.setEnabled(bool(name) and self._presets.is_own(name))
        open_below(menu, self.more)

    def _ask_name(self) -> None:
        name, accepted = QInputDialog.getText(self, tr("Save as a preset"), tr("Name"))
        if accepted and name.strip():
            self.save_preset(name.strip())

    def save_preset(self, name: str) -> None:
        self._presets.save(name, self._values)
        self._show_preset()

    def _delete(self, name: str) -> None:
        self._presets.delete(name)
        self._show_preset()

    def _button(self, icon: str, words: str, run: object) -> QToolButton:
        button = QToolButton(self)
        button.setObjectName("quiet")
        button.setProperty("icon_name", icon)
        button.setIconSize(QSize(18, 18))
        button.setToolTip(words)
        button.setAccessibleName(words)
        button.clicked.connect(run)
        return button

    def _apply_theme(self) -> None:
        for button in (self.more, self.close_button):
            button.setIcon(self._theme.icon(button.property("icon_name")))
