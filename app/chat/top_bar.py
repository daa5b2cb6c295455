"""Above the conversation: which model answers, how full its context is, and the way to the parameters."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QWidget

from app.chat.context_meter import ContextMeter
from app.chat.model_picker import ModelPicker, StopLoading
from app.model_controller import ModelController
from app.theme.theme import Theme
from app.translation import tr


class TopBar(QWidget):
    def __init__(self, theme: Theme, models: ModelController, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("topBar")
        self._theme = theme
        self.sidebar_button = self._button(tr("Show the sidebar"), 18)
        self.sidebar_button.hide()
        self.picker = ModelPicker(theme, models, self)
        self.stop_loading = StopLoading(theme, models, self)
        self.meter = ContextMeter(theme, self)
        self.parameters_button = self._button(tr("Parameters"), 20)
        self.parameters_button.setCheckable(True)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 8, 14, 8)
        row.addWidget(self.sidebar_button)
        row.addWidget(self.picker)
        row.addWidget(self.stop_loading)
        row.addStretch(1)
        row.addWidget(self.meter)
        row.addWidget(self.parameters_button)
        theme.changed.connect(self._apply_theme)
        self._apply_theme()

    def _button(self, name: str, size: int) -> QToolButton:
        button = QToolButton(self)
        button.setObjectName("quiet")
        button.setIconSize(QSize(size, size))
        button.setToolTip(name)
        button.setAccessibleName(name)
        return button

    def _apply_theme(self) -> None:
        self.sidebar_button.setIcon(self._theme.icon("sidebar"))
        self.parameters_button.setIcon(self._theme.icon("sliders"))
