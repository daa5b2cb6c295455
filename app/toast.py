"""A short remark at the window's upper edge, with one button: “Deleted. Undo”."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QWidget

SHOWN_MS = 8000
TOP = 56  # below the bar with the model


class Toast(QFrame):
    """One at a time; it keeps itself at its parent's top, in the middle of `over`."""

    def __init__(self, parent: QWidget, over: QWidget) -> None:
        super().__init__(parent)
        self._window, self._over = parent, over
        self.setObjectName("toast")
        self._label = QLabel(self)
        self._label.setObjectName("toastText")
        self._label.setTextFormat(Qt.TextFormat.PlainText)
        self._label.setMaximumWidth(420)
        self.button = QPushButton(self)
        self.button.setObjectName("toastButton")
        self.button.clicked.connect(self._clicked)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 6, 8, 6)
        row.addWidget(self._label)
        row.addWidget(self.button)
        self._run: Callable[[], None] | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.hide)
        over.installEventFilter(self)
        self.hide()

    def show_text(self, text: str, action: str = "", run: Callable[[], None] | None = None) -> None:
        self._run = run
        self._label.setText(self._label.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, 380))
        self.button.setText(action)
        self.button.setVisible(run is not None)
        self.adjustSize()
        self._place()
        self.show()
        self.raise_()
        self._timer.start(SHOWN_MS)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Move) and self.isVisible():
            self._place()
        return False

    def _place(self) -> None:
        middle = self._over.mapTo(self._window, self._over.rect().center()).x()
        self.move(middle - self.width() // 2, TOP)

    def _clicked(self) -> None:
        self.hide()
        if self._run is not None:
            self._run()
