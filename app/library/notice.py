"""A quiet sentence in the middle of a page, or an error with its remedy and a button to try again."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.problems import Problem
from app.translation import sentences, tr


class Notice(QFrame):
    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("notice")
        self.cause = QLabel(self)
        self.cause.setTextFormat(Qt.TextFormat.PlainText)
        self.cause.setWordWrap(True)
        self.rest = QLabel(self)
        self.rest.setTextFormat(Qt.TextFormat.PlainText)
        self.rest.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.rest.setObjectName("problemRest")
        self.rest.setWordWrap(True)
        self.button = QPushButton(tr("Try again"), self)
        self.button.setObjectName("secondary")
        self.button.clicked.connect(self._pressed)
        self._run: Callable[[], None] | None = None
        layout = QVBoxLayout(self)
        layout.setContentsMargins(14, 12, 14, 12)
        layout.setSpacing(6)
        layout.addWidget(self.cause)
        layout.addWidget(self.rest)
        row = QHBoxLayout()
        row.addWidget(self.button)
        row.addStretch(1)
        layout.addLayout(row)

    def show_words(self, words: str) -> None:
        self._set(words, "", None, serious=False)

    def show_error(self, error: BaseException, again: Callable[[], None]) -> None:
        problem = Problem.from_exception("hub", error)
        rest = sentences(problem.done, problem.remedy)
        self._set(problem.cause, rest, again, serious=True)

    def _set(self, cause: str, rest: str, run: Callable[[], None] | None, *, serious: bool) -> None:
        self.cause.setText(cause)
        self.rest.setText(rest)
        self.rest.setVisible(bool(rest))
        self._run = run
        self.button.setVisible(run is not None)
        if self.property("serious") != serious:
            self.setProperty("serious", serious)
            self.style().unpolish(self)
            self.style().polish(self)
        self.show()

    def _pressed(self) -> None:
        if self._run is not None:
            self._run()
