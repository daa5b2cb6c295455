"""The row under a message: what can be done with it, and under an answer what was measured."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QMenu, QSizePolicy, QToolButton, QWidget

from app.chat.answer_facts import SEPARATOR, progress, summary, tooltip
from app.chat.generation import Generation
from app.chat.readable import links
from app.menu import open_below
from app.store.records import Message, Status
from app.theme.theme import Theme
from app.translation import tr

COPIED_MS = 1500
SPOKEN = 2000  # characters of the message that are told to screen readers, which do not see what is painted
LINK_LENGTH = 60  # characters of an address in the menu


class FactsLabel(QLabel):
    """As many of the facts, from the first on, as there is room for; none is cut but a single one."""

    def minimumSizeHint(self) -> QSize:
        return QSize(24, super().minimumSizeHint().height())

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._fitted: tuple[tuple[str, int, str], str] | None = None  # measured once, painted often

    def shown_text(self) -> str:
        key = self.text(), self.width(), self.font().key()
        if self._fitted is None or self._fitted[0] != key:
            self._fitted = key, self._fit()
        return self._fitted[1]

    def _fit(self) -> str:
        metrics, parts = QFontMetrics(self.font()), self.text().split(SEPARATOR)
        while len(parts) > 1 and metrics.horizontalAdvance(SEPARATOR.join(parts)) > self.width():
            parts.pop()
        return metrics.elidedText(SEPARATOR.join(parts), Qt.TextElideMode.ElideRight, self.width())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        painter.drawText(self.rect(), int(self.alignment() | Qt.AlignmentFlag.AlignVCenter), self.shown_text())
        painter.end()


class MessageFooter(QWidget):
    """One footer serves many messages, one after another.

    Actions are named "copy", "edit", "regenerate", "continue", "delete", "copy_markdown", "details".
    """

    action_requested = Signal(str, object)  # action, Message
    version_requested = Signal(object, int)  # Message, -1 or +1
    link_requested = Signal(str)

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("footer")
        self._theme = theme
        self.message: Message | None = None
        self._read_only = False
        self._layout = QHBoxLayout(self)
        self._layout.setContentsMargins(0, 2, 0, 2)
        self._layout.setSpacing(2)
        self._space = QWidget(self)  # keeps the buttons of the owner's messages on the right
        self._layout.addWidget(self._space, 1)
        self.earlier = self._button("chevron-left", tr("Earlier version"), lambda: self._step(-1))
        self.version = QLabel(self)
        self.version.setObjectName("version")
        self._layout.addWidget(self.version)
        self.later = self._button("chevron-right", tr("Later version"), lambda: self._step(1))
        self.copy = self._button("copy", tr("Copy"), self._copy)
        self.edit = self._button("pencil", tr("Edit"), lambda: self._act("edit"))
        self.regenerate = self._button("refresh", tr("Answer again"), lambda: self._act("regenerate"))
        self.go_on = self._button("play", tr("Continue"), lambda: self._act("continue"))
        self.more = self._button("more", tr("More"), self._open_menu)
        self.facts = FactsLabel(self)
        self.facts.setObjectName("facts")
        self.facts.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._layout.addSpacing(4)
        self._layout.addWidget(self.facts, 1)
        self.apply_theme()
        theme.changed.connect(self.apply_theme)

    def show_message(self, message: Message, versions: tuple[int, int], *, can_continue: bool = False) -> None:
        """`versions`: which of how many versions of its turn this is."""
        self.message = message
        is_answer = message.role == "assistant"
        streaming = message.status is Status.STREAMING
        self.setAccessibleName(tr("Answer") if is_answer else tr("Your message"))
        self.setAccessibleDescription(message.content[:SPOKEN])
        number, count = versions
        for widget in (self.earlier, self.version, self.later):
            widget.setVisible(count > 1 and not streaming)
        self.version.setText(f"{number}/{count}")
        self.version.setAccessibleName(tr("Version {number} of {count}", number=number, count=count))
        self.earlier.setEnabled(number > 1)
        self.later.setEnabled(number < count)
        for button in (self.copy, self.more):
            button.setVisible(not streaming)
        self.edit.setVisible(not is_answer)
        self.regenerate.setVisible(is_answer and not streaming)
        self.go_on.setVisible(can_continue)
        self.facts.setText("")
        self.facts.setToolTip("")
        self._space.setVisible(not is_answer)
        self.facts.setVisible(is_answer)
        if is_answer and not streaming:
            self.facts.setText(summary(message))
            self.facts.setToolTip(tooltip(message))

    def set_read_only(self, read_only: bool) -> None:
        """While an answer is being written, the conversation stays as it is."""
        self._read_only = read_only
        self.edit.setEnabled(not read_only)
        self.regenerate.setEnabled(not read_only)
        self.go_on.setEnabled(not read_only)

    def show_progress(self, generation: Generation) -> None:
        self.facts.setText(progress(generation))

    def build_menu(self) -> QMenu:
        menu = QMenu(self)
        is_answer = self.message is not None and self.message.role == "assistant"
        if is_answer:
            menu.addAction(self._theme.icon("copy"), tr("Copy as Markdown"), lambda: self._act("copy_markdown"))
            menu.addAction(self._theme.icon("info"), tr("Details"), lambda: self._act("details"))
            self._add_links(menu)
        edit = menu.addAction(self._theme.icon("pencil"), tr("Edit"), lambda: self._act("edit"))
        menu.addSeparator()
        delete = menu.addAction(self._theme.icon("trash"), tr("Delete from here"), lambda: self._act("delete"))
        for action in (edit, delete):
            action.setEnabled(not self._read_only)
        return menu

    def _add_links(self, menu: QMenu) -> None:
        """The answer's links, which are painted text, for those who use the keyboard."""
        if self.message is None or not (found := links(self.message)):
            return
        submenu = menu.addMenu(tr("Open a link"))
        for link in found:
            words = link if len(link) <= LINK_LENGTH else f"{link[: LINK_LENGTH - 1]}…"
            submenu.addAction(words.replace("&", "&&"), lambda link=link: self.link_requested.emit(link))

    def take_focus(self) -> bool:
        """Give the keyboard to the first button that shows; False where none does."""
        button = next((button for button in self.findChildren(QToolButton) if button.isVisibleTo(self)), None)
        if button is not None:
            button.setFocus(Qt.FocusReason.TabFocusReason)
        return button is not None

    def apply_theme(self) -> None:
        for button, icon in (
            (self.earlier, "chevron-left"),
            (self.later, "chevron-right"),
            (self.copy, "copy"),
            (self.edit, "pencil"),
            (self.regenerate, "refresh"),
            (self.go_on, "play"),
            (self.more, "more"),
        ):
            button.setIcon(self._theme.icon(icon))

    def _open_menu(self) -> None:
        open_below(self.build_menu(), self.more)

    def _copy(self) -> None:
        self._act("copy")
        self.copy.setIcon(self._theme.icon("check", "accent"))
        QTimer.singleShot(COPIED_MS, self.copy, lambda: self.copy.setIcon(self._theme.icon("copy")))

    def _act(self, action: str) -> None:
        if self.message is not None:
            self.action_requested.emit(action, self.message)

    def _step(self, step: int) -> None:
        if self.message is not None and not self._read_only:
            self.version_requested.emit(self.message, step)

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
