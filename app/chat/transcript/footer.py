"""The row under a message: what can be done with it, and under an answer what was measured."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QToolButton, QWidget

from app.chat.answer_facts import progress, summary, tooltip
from app.chat.generation import Generation
from app.store.records import Message, Status
from app.theme.theme import Theme
from app.translation import tr


class ElidedLabel(QLabel):
    """One line of text that ends in an ellipsis where there is no room for it."""

    def minimumSizeHint(self) -> QSize:
        return QSize(24, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        text = QFontMetrics(self.font()).elidedText(self.text(), Qt.TextElideMode.ElideRight, self.width())
        painter.drawText(self.rect(), int(self.alignment() | Qt.AlignmentFlag.AlignVCenter), text)
        painter.end()


class MessageFooter(QWidget):
    """Buttons emit the message they belong to; one footer serves many messages, one after another."""

    copy_requested = Signal(object)
    regenerate_requested = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("footer")
        self._theme = theme
        self.message: Message | None = None
        self._layout = QHBoxLayout(self)
        self._layout.setContentsMargins(0, 2, 0, 2)
        self._layout.setSpacing(2)
        self.copy = self._button("copy", tr("Copy"), lambda: self.copy_requested.emit(self.message))
        self.regenerate = self._button(
            "refresh", tr("Answer again"), lambda: self.regenerate_requested.emit(self.message)
        )
        self.facts = ElidedLabel(self)
        self.facts.setObjectName("facts")
        self.facts.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._layout.addSpacing(4)
        self._layout.addWidget(self.facts, 1)
        self.apply_theme()
        theme.changed.connect(self.apply_theme)

    def show_message(self, message: Message, *, can_regenerate: bool) -> None:
        self.message = message
        is_answer = message.role == "assistant"
        streaming = message.status is Status.STREAMING
        self.copy.setVisible(not streaming)
        self.regenerate.setVisible(is_answer and not streaming)
        self.regenerate.setEnabled(can_regenerate)
        self.facts.setText("")
        self.facts.setToolTip("")
        self._layout.setDirection(QHBoxLayout.Direction.LeftToRight if is_answer else QHBoxLayout.Direction.RightToLeft)
        if is_answer and not streaming:
            self.facts.setText(summary(message))
            self.facts.setToolTip(tooltip(message))

    def show_progress(self, generation: Generation) -> None:
        self.facts.setText(progress(generation))

    def apply_theme(self) -> None:
        self.copy.setIcon(self._theme.icon("copy"))
        self.regenerate.setIcon(self._theme.icon("refresh"))

    def _button(self, icon: str, name: str, run: object) -> QToolButton:
        button = QToolButton(self)
        button.setObjectName("quiet")
        button.setIcon(self._theme.icon(icon))
        button.setIconSize(QSize(18, 18))
        button.setToolTip(name)
        button.setAccessibleName(name)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(run)
        self._layout.addWidget(button)
        return button
