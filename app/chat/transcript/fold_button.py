"""The button over what is folded, a model's reasoning or a tool call: says what it is, folds and unfolds it."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QToolButton, QWidget

from app.chat.transcript.plain_view import FoldHeader
from app.theme.theme import Theme
from app.translation import tr


class FoldButton(QToolButton):
    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("fold")
        self._theme = theme
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setIconSize(QSize(16, 16))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    def show_state(self, header: FoldHeader) -> None:
        self.setText(header.words.replace("&", "&&"))
        self.setIcon(self._theme.icon("chevron-down" if header.is_unfolded else "chevron-right"))
        self.setAccessibleName(header.words)
        self.setAccessibleDescription(tr("Unfolded") if header.is_unfolded else tr("Folded"))
        self.setToolTip(tr("Fold") if header.is_unfolded else tr("Unfold"))
        self.adjustSize()
