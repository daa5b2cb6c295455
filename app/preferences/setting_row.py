"""One setting on the page: title, explanation, and the control its type asks for."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.settings.table import Setting
from app.translation import tr


class SettingRow(QWidget):
    changed = Signal(str, object)  # name, value

    def __init__(self, setting: Setting, value: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setting = setting
        title = QLabel(tr(setting.title), self)
        title.setObjectName("settingTitle")
        words = tr(setting.help)
        if setting.needs_reload:
            words += " " + tr("Takes effect when a model is loaded.")
        if setting.needs_restart:
            words += " " + tr("Takes effect after a restart.")
        explanation = QLabel(words, self)
        explanation.setObjectName("settingHelp")
        explanation.setWordWrap(True)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(title)
        texts.addWidget(explanation)
        self.control = self._make_control(value)
        self.control.setAccessibleName(tr(setting.title))
        self.control.setAccessibleDescription(words)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 12, 16, 12)
        row.setSpacing(24)
        row.addLayout(texts, 1)
        row.addWidget(self.control)
        if setting.name.endswith("_folder"):
            browse = QPushButton(tr("Browse…"), self)
            browse.setObjectName("secondary")
            browse.clicked.connect(self._browse)
            row.addWidget(browse)

    def _make_control(self, value: Any) -> QWidget:
        setting, name = self.setting, self.setting.name
        if setting.choices:
            box = QComboBox(self)
            for choice, words in setting.choices:
                box.addItem(tr(words), choice)
            box.setCurrentIndex(box.findData(value))
            box.currentIndexChanged.connect(lambda: self.changed.emit(name, box.currentData()))
            box.setMinimumWidth(180)
            return box
        if isinstance(setting.default, bool):
            check = QCheckBox(self)
            check.setChecked(value)
            check.toggled.connect(lambda on: self.changed.emit(name, on))
            return check
        if isinstance(setting.default, int):
            spin = QSpinBox(self)
            spin.setRange(int(setting.minimum or 0), int(min(setting.maximum or 2**31 - 1, 2**31 - 1)))
            if setting.default == 0 and setting.minimum == 0:
                spin.setSpecialValueText(tr("Automatic"))
            spin.setValue(value)
            spin.setMinimumWidth(120)
            spin.setKeyboardTracking(False)
            spin.valueChanged.connect(lambda number: self.changed.emit(name, number))
            return spin
        line = QLineEdit(str(value), self)
        line.setMinimumWidth(220)
        line.editingFinished.connect(lambda: self.changed.emit(name, line.text()))
        return line

    def _browse(self) -> None:
        assert isinstance(self.control, QLineEdit)
        folder = QFileDialog.getExistingDirectory(self, tr(self.setting.title), self.control.text())
        if folder:
            self.control.setText(folder)
            self.changed.emit(self.setting.name, folder)
