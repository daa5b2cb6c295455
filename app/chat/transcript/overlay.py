"""Real widgets over the painted transcript: footers and the buttons of code blocks, for what shows only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QToolButton

from app.chat.generation import Generation
from app.chat.transcript.code_view import CodeView
from app.chat.transcript.fold_button import FoldButton
from app.chat.transcript.footer import MessageFooter
from app.chat.transcript.message_view import FOOTER_HEIGHT, MessageView
from app.chat.transcript.plain_view import FoldHeader
from app.chat.transcript.style import CODE_HEADER
from app.theme.theme import Theme
from app.translation import tr

if TYPE_CHECKING:
    from app.chat.transcript.transcript import Transcript

COPIED_MS = 1500
BUTTON_INSET = 5  # so that the icons, not the buttons around them, line up with the text


class Overlay:
    """Keeps a small pool of each kind of widget and moves them with the text."""

    def __init__(self, transcript: Transcript, theme: Theme) -> None:
        self._transcript = transcript
        self._theme = theme
        self._footers: dict[str, MessageFooter] = {}
        self._free: list[MessageFooter] = []
        self._code_buttons: list[QToolButton] = []
        self._code: list[tuple[CodeView, MessageView]] = []
        self._folds: dict[tuple[str, str], FoldButton] = {}  # by message and key of the header
        self._read_only = False
        self._progress: dict[str, Generation] = {}
        theme.changed.connect(self._apply_theme)

    def place(self, visible: list[tuple[int, MessageView, float]]) -> None:
        """Show a footer under each message that shows, and a button on each code block."""
        shown = {message.message.id for _, message, _ in visible}
        for key in [key for key in self._footers if key not in shown]:
            self.forget(key)
        transcript = self._transcript
        left, width = (
            round(transcript.column_left()),
            round(transcript.viewport().width() - 2 * transcript.column_left()),
        )
        self._code = []
        headers: set[tuple[str, str]] = set()
        for _, message, top in visible:
            footer = self._footers.get(message.message.id) or self._take(message)
            y = round(top + message.body_height)
            footer.setGeometry(left - BUTTON_INSET, y, width + 2 * BUTTON_INSET, int(FOOTER_HEIGHT))
            footer.show()
            if message.is_built:
                self._place_code(message, top, left + width)
                headers |= self._place_folds(message, top, left)
        for button in self._code_buttons[len(self._code) :]:
            button.hide()
        for key in self._folds.keys() - headers:
            gone = self._folds.pop(key)
            gone.hide()
            gone.deleteLater()

    def forget(self, message_id: str) -> None:
        """The footer is free, or must be filled anew."""
        footer = self._footers.pop(message_id, None)
        if footer is not None:
            footer.hide()
            self._free.append(footer)

    def forget_all(self) -> None:
        for key in list(self._footers):
            self.forget(key)

    def focused(self) -> str:
        """The message whose footer has the keyboard, or an empty string."""
        widget = QApplication.focusWidget()
        found = (key for key, footer in self._footers.items() if widget is not None and footer.isAncestorOf(widget))
        return next(found, "")

    def focus(self, message_id: str) -> bool:
        """Give the keyboard to a message that shows."""
        footer = self._footers.get(message_id)
        return footer is not None and footer.take_focus()

    def show_progress(self, generation: Generation) -> None:
        footer = self._footers.get(generation.message.id)
        if footer is not None:
            footer.show_progress(generation)

    def set_read_only(self, read_only: bool) -> None:
        self._read_only = read_only
        for footer in self._footers.values():
            footer.set_read_only(read_only)

    def _take(self, message: MessageView) -> MessageFooter:
        if self._free:
            footer = self._free.pop()
        else:
            footer = MessageFooter(self._theme, self._transcript.viewport())
            footer.action_requested.connect(self._transcript.action_requested)
            footer.version_requested.connect(self._transcript.version_requested)
            footer.link_requested.connect(self._transcript.link_activated)
        transcript, shown = self._transcript, message.message
        footer.show_message(shown, transcript.versions(shown), can_continue=transcript.can_continue(shown))
        footer.set_read_only(self._read_only)
        self._footers[message.message.id] = footer
        return footer

    # --- what is folded ---

    def _place_folds(self, message: MessageView, top: float, left: int) -> set[tuple[str, str]]:
        """A button on each header that shows, and on the first block: it keeps the focus while the text scrolls."""
        placed: set[tuple[str, str]] = set()
        height = self._transcript.viewport().height()
        shown = {number: (block, y) for number, block, y in message.blocks_from(-top) if top + y <= height}
        if message.views:
            shown.setdefault(0, (message.views[0], 0.0))
        for block, y in shown.values():
            if isinstance(block, FoldHeader):
                key = message.message.id, block.key
                button = self._folds.get(key) or self._fold_button(*key)
                button.show_state(block)
                button.move(left - BUTTON_INSET, round(top + y))
                button.show()
                placed.add(key)
        return placed

    def _fold_button(self, message_id: str, key: str) -> FoldButton:
        button = FoldButton(self._theme, self._transcript.viewport())
        button.clicked.connect(lambda: self._transcript.toggle_fold(message_id, key))
        self._folds[message_id, key] = button
        return button

    # --- code ---

    def _place_code(self, message: MessageView, top: float, right: int) -> None:
        height = self._transcript.viewport().height()
        for _, block, block_top in message.blocks_from(-top):
            y = top + block_top
            if y > height:
                break
            if isinstance(block, CodeView) and block.part == 0 and y + CODE_HEADER > 0:
                number = len(self._code)
                if number == len(self._code_buttons):
                    self._code_buttons.append(self._code_button(number))
                button = self._code_buttons[number]
                self._code.append((block, message))
                button.move(right - button.width() - 4, round(y) + 3)
                button.show()

    def _code_button(self, number: int) -> QToolButton:
        button = QToolButton(self._transcript.viewport())
        button.setObjectName("quiet")
        button.setIcon(self._theme.icon("copy"))
        button.setIconSize(QSize(17, 17))
        button.setToolTip(tr("Copy code"))
        button.setAccessibleName(tr("Copy code"))
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.clicked.connect(lambda: self._copy_code(number))
        button.resize(28, 28)
        return button

    def _copy_code(self, number: int) -> None:
        """All pieces of the block, exactly as they were written."""
        first, message = self._code[number]
        start = message.views.index(first)
        code = first.source
        for block in message.views[start + 1 :]:
            if not isinstance(block, CodeView) or block.part == 0:
                break
            code += block.break_before + block.source
        QGuiApplication.clipboard().setText(code)
        self._confirm(self._code_buttons[number])

    def _confirm(self, button: QToolButton) -> None:
        button.setIcon(self._theme.icon("check", "accent"))
        QTimer.singleShot(COPIED_MS, button, lambda: button.setIcon(self._theme.icon("copy")))

    def _apply_theme(self) -> None:
        for button in self._code_buttons:
            button.setIcon(self._theme.icon("copy"))
