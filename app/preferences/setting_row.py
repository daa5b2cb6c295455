"""One setting on the page: title, explanation, the control its type asks for, and a way back to the default."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QCheckBox,
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QToolButton,
    QWidget,
)

from app.settings.table import Setting
from app.theme.theme import Theme
from app.titled_text import TitledText
from app.translation import sentences, tr

_NARROW, _LEAST_WIDTH = 460, 330  # pixels


class SettingRow(QWidget):
    changed = Signal(str, object)  # name, value

    def __init__(self, setting: Setting, value: Any, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setting = setting
        self._theme = theme
        self.has_line = False  # above, to the row before
        self._showing = False
        words = sentences(
            tr(setting.help),
            tr("Takes effect when a model is loaded.") if setting.needs_reload else "",
            tr("Takes effect after a restart.") if setting.needs_restart else "",
        )
        self.words = f"{tr(setting.title)} {words} {setting.name} {tr(setting.group)}".lower()
        self.reset = QToolButton(self)
        self.reset.setObjectName("quiet")
        self.reset.setIconSize(QSize(14, 14))
        self.reset.setToolTip(tr("Back to the default"))
        self.reset.setAccessibleName(tr("Reset {name}", name=tr(setting.title)))
        self.reset.clicked.connect(lambda: self.changed.emit(setting.name, setting.default))
        policy = self.reset.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.reset.setSizePolicy(policy)
        self.control = self._make_control()
        self.control.setAccessibleName(tr(setting.title))
        self.control.setAccessibleDescription(words)
        entry = QHBoxLayout()
        entry.setSpacing(12)
        entry.addWidget(self.reset)
        entry.addWidget(self.control)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._row.setContentsMargins(16, 12, 16, 12)
        self._row.setSpacing(12)
        self._row.addLayout(TitledText(tr(setting.title), words, self), 1)
        self._row.addLayout(entry)
        if setting.name.endswith(("_folder", "_file")):
            browse = QPushButton(tr("Browse…"), self)
            browse.setObjectName("secondary")
            browse.clicked.connect(self._browse)
            entry.addWidget(browse)
        theme.changed.connect(self._apply_theme)
        self._apply_theme()
        self.show_value(value)

    def minimumSizeHint(self) -> QSize:
        return QSize(_LEAST_WIDTH, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """In a narrow window the control stands below the words."""
        down, across = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._row.setDirection(down if event.size().width() < _NARROW else across)
        super().resizeEvent(event)

    def show_value(self, value: Any) -> None:
        self._showing = True
        control = self.control
        if isinstance(control, QComboBox):
            control.setCurrentIndex(control.findData(value))
        elif isinstance(control, QCheckBox):
            control.setChecked(value)
        elif isinstance(control, QSpinBox):
            control.setValue(value)
        elif isinstance(control, QLineEdit) and control.text() != value:
            control.setText(value)
        self._showing = False
        self.reset.setVisible(value != self.setting.default)

    def _tell(self, value: Any) -> None:
        if not self._showing:
            self.changed.emit(self.setting.name, value)

    def _make_control(self) -> QWidget:
        setting = self.setting
        if setting.choices:
            box = QComboBox(self)
            for choice, words in setting.choices:
                box.addItem(tr(words), choice)
            box.currentIndexChanged.connect(lambda: self._tell(box.currentData()))
            box.setMinimumWidth(180)
            box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            return box
        if isinstance(setting.default, bool):
            check = QCheckBox(self)
            check.toggled.connect(self._tell)
            return check
        if isinstance(setting.default, int):
            spin = QSpinBox(self)
            spin.setRange(int(setting.minimum or 0), int(min(setting.maximum or 2**31 - 1, 2**31 - 1)))
            if setting.default == 0 and setting.minimum == 0:
                spin.setSpecialValueText(tr(setting.zero))
            spin.setMinimumWidth(120)
            spin.lineEdit().setTextMargins(6, 0, 0, 0)  # the stylesheet's padding does not reach it
            spin.setKeyboardTracking(False)
            spin.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            spin.valueChanged.connect(self._tell)
            return spin
        line = QLineEdit(self)
        line.setMinimumWidth(200)
        line.setPlaceholderText(tr(setting.zero))
        line.editingFinished.connect(lambda: self._tell(line.text()))
        return line

    def _browse(self) -> None:
        assert isinstance(self.control, QLineEdit)
        title, start = tr(self.setting.title), self.control.text()
        if self.setting.name.endswith("_file"):
            chosen, _ = QFileDialog.getOpenFileName(self, title, start)
        else:
            chosen = QFileDialog.getExistingDirectory(self, title, start)
        if chosen:
            self.changed.emit(self.setting.name, chosen)

    def _apply_theme(self) -> None:
        self.reset.setIcon(self._theme.icon("refresh"))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.has_line:
            painter = QPainter(self)
            painter.fillRect(0, 0, self.width(), 1, QColor(self._theme.colors.border))
            painter.end()
