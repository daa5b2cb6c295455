"""One parameter on the panel: its name, a control, a way back to the default, an explanation."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QComboBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QSpinBox,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.chat.parameters.table import Parameter
from app.theme.theme import Theme
from app.translation import tr

TYPING_MS = 400


class ParameterRow(QWidget):
    changed = Signal(str, object)  # name, value

    def __init__(self, parameter: Parameter, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.parameter = parameter
        self._theme = theme
        self._showing = False
        title = QLabel(tr(parameter.title), self)
        title.setObjectName("settingTitle")
        title.setWordWrap(True)  # beside a wide control
        self.reset = QToolButton(self)
        self.reset.setObjectName("quiet")
        self.reset.setIconSize(QSize(14, 14))
        self.reset.setToolTip(tr("Back to the default"))
        self.reset.setAccessibleName(tr("Reset {name}", name=tr(parameter.title)))
        self.reset.clicked.connect(self._reset)
        policy = self.reset.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.reset.setSizePolicy(policy)
        explanation = QLabel(tr(parameter.help), self)
        explanation.setObjectName("settingHelp")
        explanation.setWordWrap(True)
        self.control: QWidget = self._make_control()
        self.control.setAccessibleName(tr(parameter.title))
        self.control.setAccessibleDescription(tr(parameter.help))
        head = QHBoxLayout()
        head.setSpacing(4)
        head.addWidget(title, 1)
        head.addWidget(self.reset)
        if not parameter.lines:
            head.addWidget(self.control)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 6, 0, 6)
        layout.setSpacing(3)
        layout.addLayout(head)
        if parameter.lines:
            layout.addWidget(self.control)
        layout.addWidget(explanation)
        theme.changed.connect(self._apply_theme)
        self._apply_theme()
        self.show_value(parameter.default)

    @property
    def value(self) -> Any:
        if isinstance(self.control, QPlainTextEdit):
            return self.control.toPlainText()
        if isinstance(self.control, QComboBox):
            return self.control.currentData()
        assert isinstance(self.control, QSpinBox | QDoubleSpinBox)
        value = self.control.value()
        return round(value, 4) if isinstance(self.parameter.default, float) else value

    def show_value(self, value: Any) -> None:
        self._showing = True
        if isinstance(self.control, QPlainTextEdit):
            if self.control.toPlainText() != value:
                self.control.setPlainText(str(value))
        elif isinstance(self.control, QComboBox):
            self.control.setCurrentIndex(max(0, self.control.findData(value)))
        else:
            self.control.setValue(value)  # type: ignore[attr-defined]
        self._showing = False
        self.reset.setVisible(self.value != self.parameter.default)

    def _reset(self) -> None:
        self.show_value(self.parameter.default)
        self._tell()

    def _tell(self) -> None:
        if not self._showing:
            self.reset.setVisible(self.value != self.parameter.default)
            self.changed.emit(self.parameter.name, self.value)

    def _make_control(self) -> QWidget:
        if self.parameter.choices:
            return self._choice()
        return self._text() if self.parameter.lines else self._number()

    def _choice(self) -> QComboBox:
        box = QComboBox(self)
        for value, words in self.parameter.choices:
            box.addItem(tr(words), value)
        box.currentIndexChanged.connect(self._tell)
        box.setMinimumWidth(130)
        box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        return box

    def _number(self) -> QAbstractSpinBox:
        parameter = self.parameter
        if isinstance(parameter.default, float):
            double = QDoubleSpinBox(self)
            double.setDecimals(2)
            double.setRange(parameter.minimum, parameter.maximum)
            double.setSingleStep(parameter.step)
            double.valueChanged.connect(self._tell)
            box: QAbstractSpinBox = double
        else:
            spin = QSpinBox(self)
            spin.setRange(int(parameter.minimum), int(parameter.maximum))
            spin.setSingleStep(int(parameter.step))
            spin.valueChanged.connect(self._tell)
            box = spin
        if parameter.off is not None and parameter.off[0] == parameter.minimum:
            box.setSpecialValueText(tr(parameter.off[1]))
        box.setKeyboardTracking(False)
        box.lineEdit().setTextMargins(6, 0, 0, 0)  # the stylesheet's padding does not reach it
        box.setMinimumWidth(104)
        box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        return box

    def _text(self) -> QPlainTextEdit:
        edit = QPlainTextEdit(self)
        edit.setTabChangesFocus(True)
        edit.setFixedHeight(edit.fontMetrics().lineSpacing() * self.parameter.lines + 18)
        timer = QTimer(edit)
        timer.setSingleShot(True)
        timer.setInterval(TYPING_MS)
        timer.timeout.connect(self._tell)
        edit.textChanged.connect(lambda: None if self._showing else timer.start())
        return edit

    def _apply_theme(self) -> None:
        self.reset.setIcon(self._theme.icon("refresh"))
