"""The button over a model's reasoning: says how long it took, folds and unfolds it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QToolButton, QWidget

from app.chat.answer_facts import format_seconds
from app.chat.transcript.message_view import MessageView
from app.theme.theme import Theme
from app.translation import tr


class ThinkingButton(QToolButton):
    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("thinking")
        self._theme = theme
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setIconSize(QSize(16, 16))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    def show_state(self, message: MessageView) -> None:
        seconds = message.message.details.get("reasoning_seconds")
        if message.is_thinking:
            words = tr("Thinking…")
        elif seconds is not None:
            words = tr("Thought for {seconds}", seconds=format_seconds(seconds))
        else:
            words = tr("Thoughts")
        unfolded = message.is_unfolded
        self.setText(words)
        self.setIcon(self._theme.icon("chevron-down" if unfolded else "chevron-right"))
        self.setAccessibleName(words)
        self.setAccessibleDescription(tr("Unfolded") if unfolded else tr("Folded"))
        self.setToolTip(tr("Fold") if unfolded else tr("Unfold"))
        self.adjustSize()
