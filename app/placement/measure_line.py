"""What a page's speeds were predicted from, and a button to measure this machine (again)."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QProgressBar, QPushButton, QSizePolicy, QWidget

from app.elided_label import ElidedLabel
from app.placement.own_machine import OwnMachine
from app.translation import engine_text, tr


class MeasureLine(QWidget):
    def __init__(self, machine: OwnMachine, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._machine = machine
        self._words = ""
        self._is_measured = False
        self.words = ElidedLabel(self)
        self.words.setObjectName("settingHelp")
        self.words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.button = QPushButton(self)
        self.button.setObjectName("link")
        self.button.setToolTip(
            tr("Takes the whole processor for up to ten seconds; best while nothing else is going on.")
        )
        self.button.clicked.connect(machine.measure)
        self.bar = QProgressBar(self)
        self.bar.setObjectName("progress")
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(6)
        self.bar.setRange(0, 1000)
        layout = QGridLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setVerticalSpacing(6)
        layout.addWidget(self.words, 0, 0)
        layout.addWidget(self.button, 0, 1, Qt.AlignmentFlag.AlignRight)
        layout.addWidget(self.bar, 1, 0, 1, 2)
        layout.setColumnStretch(0, 1)
        machine.progressed.connect(self._show)
        self._show()

    def show_words(self, words: str, *, is_measured: bool) -> None:
        """`words`: while nothing is being measured."""
        self._words, self._is_measured = words, is_measured
        self._show()

    def _show(self) -> None:
        machine = self._machine
        words = self._words
        if machine.is_measuring:
            words = tr("Measuring this machine: {what}", what=engine_text(machine.stage))
        self.words.setText(words)
        self.button.setText(tr("Measure again") if self._is_measured else tr("Measure this machine"))
        self.button.setEnabled(not machine.is_measuring)
        self.bar.setVisible(machine.is_measuring)
        self.bar.setValue(round(1000 * machine.fraction))
        self.bar.setAccessibleName(words)
