"""A problem on screen: what happened, what was done, what to do, and the buttons for it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from app.flow_layout import FlowLayout
from app.problems import Action, Problem
from app.theme.theme import Theme
from app.translation import sentences, tr


class ProblemCard(QFrame):
    closed = Signal(str)  # the problem's key

    def __init__(self, problem: Problem, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.problem = problem
        self._theme = theme
        self.setObjectName("problem")
        self.setProperty("serious", problem.serious)
        self.setAccessibleName(tr("Problem") if problem.serious else tr("Note"))
        self.setAccessibleDescription(sentences(problem.cause, problem.done, problem.remedy))
        self._icon = QLabel(self)
        self._icon.setFixedSize(22, 22)
        texts = QVBoxLayout()
        texts.setSpacing(3)
        texts.addWidget(self._label(problem.cause, "problemCause"))
        if rest := sentences(problem.done, problem.remedy):
            texts.addWidget(self._label(rest, "problemRest"))
        if problem.actions:
            texts.addSpacing(6)
            texts.addLayout(self._buttons())
        self._close = QToolButton(self)
        self._close.setObjectName("quiet")
        self._close.setIconSize(QSize(16, 16))
        self._close.setToolTip(tr("Close"))
        self._close.setAccessibleName(tr("Close"))
        self._close.clicked.connect(lambda: self.closed.emit(problem.key))
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 12, 8, 12)
        row.setSpacing(10)
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(texts, 1)
        row.addWidget(self._close, 0, Qt.AlignmentFlag.AlignTop)
        theme.changed.connect(self._apply_theme)
        self._apply_theme()

    def _label(self, text: str, name: str) -> QLabel:
        label = QLabel(text, self)
        label.setObjectName(name)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        return label

    def _buttons(self) -> FlowLayout:
        row = FlowLayout()
        for action in self.problem.actions:
            button = QPushButton(action.label, self)
            button.setObjectName("primary" if action.primary else "secondary")
            button.clicked.connect(lambda _checked=False, action=action: self._run(action))
            row.addWidget(button)
        return row

    def _run(self, action: Action) -> None:
        if not action.keeps_open:
            self.closed.emit(self.problem.key)
        action.run()

    def _apply_theme(self) -> None:
        serious = self.problem.serious
        icon = self._theme.icon("error" if serious else "warning", "danger" if serious else "warning")
        self._icon.setPixmap(icon.pixmap(QSize(22, 22), self.devicePixelRatioF()))
        self._close.setIcon(self._theme.icon("close"))
