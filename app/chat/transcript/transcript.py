"""The transcript widget: paints what is visible, whatever the conversation's length.

Only blocks near the screen are laid out (`layouts`); everything else is an estimated height. When an estimate turns out
wrong, the text on screen stays where it is (`place`): an anchor block is kept, or the bottom, if the reader is there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

from app.chat.generation import Generation
from app.chat.markdown.formulas import Formulas, Run
from app.chat.transcript.geometry import Column
from app.chat.transcript.keyboard_steps import KeyboardSteps
from app.chat.transcript.layouts import Layouts
from app.chat.transcript.markdown_view import MarkdownView
from app.chat.transcript.message_view import MessageView
from app.chat.transcript.overlay import Overlay
from app.chat.transcript.place import Place
from app.chat.transcript.progress import Progress
from app.chat.transcript.selecting import Selecting
from app.chat.transcript.selection import Selection
from app.chat.transcript.style import COLUMN_WIDTH, SIDE_MARGIN, TranscriptStyle
from app.menu import open_menu
from app.store.records import Message
from app.theme.theme import Theme
from app.translation import tr

GROW_INTERVAL_MS = 33
PAINTED_AROUND = 8  # pixels that a block may paint above or below itself
FEEDS_PER_LAYOUT = 8  # slices of a very long message between two looks at the screen


class Transcript(QAbstractScrollArea):
    """Shows messages; knows nothing of where they come from."""

    link_activated = Signal(str)
    action_requested = Signal(str, object)  # name of an action (see MessageFooter), Message
    version_requested = Signal(object, int)  # Message, step to another version of its turn
    at_bottom_changed = Signal(bool)

    def __init__(self, theme: Theme, parent: QWidget | None = None, run: Run | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("transcript")
        self.setAccessibleName(tr("Conversation"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.viewport().setMouseTracking(True)
        # Painted by us, ground included: only so does Qt move what is on screen instead of painting it again.
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self._theme = theme
        self._formulas = Formulas(run, self)
        self._formulas.ready.connect(self._formulas_ready)
        self._style = TranscriptStyle.of(theme, self._formulas)
        self._messages: list[MessageView] = []
        self._by_id: dict[str, MessageView] = {}
        self._column = Column()
        self._layouts = Layouts(self._column, self._messages)
        self._place = Place(self, self._column)
        self._place.at_bottom_changed.connect(self.at_bottom_changed)
        self._overlay = Overlay(self, theme)
        self.can_continue: Callable[[Message], bool] = lambda _message: False
        self.versions: Callable[[Message], tuple[int, int]] = lambda _message: (1, 1)
        self._grow_timer = _timer(self, GROW_INTERVAL_MS, self._grow_now)
        self._growing: set[str] = set()
        self._grown_at = -math.inf
        self._progress = Progress(self._overlay.show_progress, self)
        self._feeds = 0
        self._feed_timer = _timer(self, 0, self._feed_on)
        self.selecting = Selecting(self)
        self._steps = KeyboardSteps(self, self._overlay)
        self.verticalScrollBar().setSingleStep(48)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        theme.changed.connect(self._theme_changed)

    # --- content ---

    @property
    def message_views(self) -> list[MessageView]:
        return self._messages

    @property
    def is_at_bottom(self) -> bool:
        return self._place.is_at_bottom

    def set_messages(self, messages: list[Message], *, keep_place: bool = False) -> None:
        """Show another path. `keep_place`: messages shown before keep their blocks, and the reader the place."""
        value = self.verticalScrollBar().value()
        old = self._by_id if keep_place else {}
        width = self.column_width()
        self._messages = [old.get(m.id) or MessageView(m, self._style, width) for m in messages]
        self._by_id = {view.message.id: view for view in self._messages}
        self._growing &= self._by_id.keys()
        self.selection.clear()
        self._overlay.forget_all()
        self._column.set_items(self._messages)
        self._layouts.set_messages(self._messages)
        if not keep_place:
            self._place.is_at_bottom = True
        self._layout_visible()
        if keep_place and not self._place.is_at_bottom:
            self._place.move_to(value)
            self._layout_visible()

    def append(self, message: Message) -> None:
        """A new message at the end. The reader's own one brings the view to the bottom."""
        view = MessageView(message, self._style, self.column_width())
        self._messages.append(view)
        self._by_id[message.id] = view
        self._column.set_items(self._messages)
        if message.role == "user":
            self._place.set_at_bottom(True)
        self._layout_visible()

    def grow(self, message: Message) -> None:
        """The message's content became longer; laid out at most every GROW_INTERVAL_MS."""
        self._growing.add(message.id)
        if self._grow_timer.isActive():
            return
        due = self._grown_at + GROW_INTERVAL_MS / 1000 - time.monotonic()
        if due > 0:
            self._grow_timer.start(math.ceil(due * 1000))
        else:
            self._grow_now()

    def refresh(self, message: Message) -> None:
        """Status or details of a message changed."""
        view = self._by_id.get(message.id)
        if view is None:
            return
        self._progress.drop(message.id)
        self._grow_now()
        view.grow()
        view.refresh()
        self._overlay.forget(message.id)
        self._column.update()
        self._layout_visible()

    def replace(self, message: Message) -> None:
        """The content of a message is another one."""
        if (view := self._by_id.get(message.id)) is not None:
            view.replace()
            self.selection.clear()
            self._overlay.forget(message.id)
            self._column.update()
            self._layout_visible()

    def toggle_fold(self, message_id: str, key: str) -> None:
        """Fold or unfold what a model thought, or a tool call; the header stays where it is."""
        view = self._by_id[message_id]
        index = self._messages.index(view)
        value = self.verticalScrollBar().value()
        view.toggle_fold(key)
        self._place.set_at_bottom(False, move=False)
        self._column.update(index)
        self._place.set_range()
        self._place.move_to(value)
        self._layout_visible()

    def show_progress(self, generation: Generation) -> None:
        self._progress.add(generation)

    def set_read_only(self, read_only: bool) -> None:
        """While an answer is being written, nothing can be answered again."""
        self._overlay.set_read_only(read_only)

    def scroll_to_bottom(self) -> None:
        self._place.set_at_bottom(True)
        self._layout_visible()

    def scroll_to_message(self, message_id: str) -> None:
        for index, view in enumerate(self._messages):
            if view.message.id == message_id:
                self._place.set_at_bottom(False)
                self._place.move_to(round(self._column.tops[index]) - 40)
                self._layout_visible()
                self._place.move_to(round(self._column.tops[index]) - 40)
                return

    def step_message(self, step: int) -> None:
        """Bring the keyboard to the message before (-1) or after (1)."""
        self._steps.step(step)

    # --- geometry ---

    def heights_changed(self) -> None:
        """Blocks were laid out that are not on screen."""
        self._column.update()

    def column_left(self) -> float:
        return (self.viewport().width() - self.column_width()) / 2

    def column_width(self) -> float:
        return float(max(160, min(COLUMN_WIDTH, self.viewport().width() - 2 * SIDE_MARGIN)))

    def visible_messages(self) -> list[tuple[int, MessageView, float]]:
        """(index, view, top on screen) of every message that shows."""
        top, bottom = self._screen()
        found = []
        for index in range(self._column.index_at(top), len(self._messages)):
            message_top = self._column.tops[index]
            if message_top >= bottom:
                break
            found.append((index, self._messages[index], message_top - top))
        return found

    def _screen(self) -> tuple[int, int]:
        """Between which heights of the column it is."""
        top = self.verticalScrollBar().value()
        return top, top + self.viewport().height()

    def _layout_visible(self, changed: float = 0.0) -> None:
        """Lay out what shows. Heights found may bring other blocks on screen: until nothing changes.

        Above `changed`, a height of the column, nothing looks different: there the screen is only moved.
        """
        place = self._place
        if not self._messages:
            place.set_range()
            self._overlay.place([])
            self.viewport().update()
            return
        for _ in range(12):
            place.set_range()
            anchor = place.anchor(self._messages)
            first, top = self._layouts.lay_out(*self._screen(), self.column_width())
            changed = min(changed, top)
            if first is None:
                break
            self._column.update(first)
            place.set_range()
            place.return_to(anchor, self._messages)
        self._layouts.release_far(*self._screen())
        self._overlay.place(self.visible_messages())
        self._update_part(changed)
        if not self._feed_timer.isActive() and self._layouts.first_unfed() is not None:
            self._feed_timer.start()

    def _grow_now(self) -> None:
        self._grow_timer.stop()
        if not self._growing:
            return
        growing, self._growing = self._growing, set()
        self._grown_at = time.monotonic()
        first, changed, is_line = len(self._messages), self._column.height, True
        for index in range(len(self._messages) - 1, -1, -1):
            if self._messages[index].message.id in growing:
                top, is_only_line = self._messages[index].grow()
                changed, is_line = min(changed, self._column.tops[index] + top), is_line and is_only_line
                first = index
                if len(growing) == 1:
                    break
        if is_line and len(growing) == 1 and first < len(self._messages):
            bottom = self._column.tops[first] + self._messages[first].body_height
            self._update_part(changed, bottom - PAINTED_AROUND)  # not the footer: a line has its leading below it
            return
        self._column.update(first)
        self._layout_visible(changed)

    def _update_part(self, top: float, bottom: float = math.inf) -> None:
        """Paint what lies between two heights of the column."""
        value, viewport = self.verticalScrollBar().value(), self.viewport()
        first = max(0.0, top - value - PAINTED_AROUND)
        last = min(float(viewport.height()), bottom - value + PAINTED_AROUND)
        if last > first:
            viewport.update(0, int(first), viewport.width(), math.ceil(last) - int(first))

    def _feed_on(self) -> None:
        """Cut the rest of a very long message, a slice per turn of the event loop."""
        index = self._layouts.first_unfed()
        if index is None:
            return
        anchor = self._place.anchor(self._messages)
        view = self._messages[index]
        view.feed_slice()
        self._column.update(index)
        self._feeds += 1
        if not view.is_fed and self._feeds % FEEDS_PER_LAYOUT:
            self._feed_timer.start()
            return
        self._place.set_range()
        self._place.return_to(anchor, self._messages)
        self._layout_visible()

    # --- events ---

    def _scrolled(self) -> None:
        place = self._place
        if place.is_moving:
            return
        place.scrolled_by_reader()
        stick, place.is_at_bottom = place.is_at_bottom, False  # laying out must not move the text under the reader
        self._layout_visible(changed=math.inf)
        place.is_at_bottom = stick

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        """What is on screen is moved, widgets included; only what comes into view is painted."""
        self.viewport().scroll(dx, dy)

    def _theme_changed(self) -> None:
        self._style = TranscriptStyle.of(self._theme, self._formulas)
        for view in self._messages:
            view.set_style(self._style, self.column_width())
        self._column.update()
        self._layout_visible()

    def _formulas_ready(self) -> None:
        """Formulas that stood as text can be drawn now."""
        for block in self._layouts.blocks():
            if isinstance(block, MarkdownView) and block.has_pending_formulas:
                block.release()
        self._layout_visible()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            anchor = self._place.anchor(self._messages) if self._messages and self._column.tops else None
            for view in self._messages:
                view.set_width(self.column_width())
            self._column.update()
            self._place.set_range()
            if anchor is not None:
                self._place.return_to(anchor, self._messages)
        self._layout_visible()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.SmoothPixmapTransform)
        clip = QRectF(event.rect())
        painter.fillRect(event.rect(), QColor(self._style.window))
        left = self.column_left()
        for index, message, top in self.visible_messages():
            if not message.is_built:
                continue
            for number, block, block_top in message.blocks_from(clip.top() - top):
                y = top + block_top
                if y > clip.bottom():
                    break
                if y + block.height < clip.top() - PAINTED_AROUND:
                    continue
                span = self.selection.span(index, number, block.length)
                block.paint(painter, QPointF(left, y), clip, span)
        painter.end()

    # --- selecting and links: what the pointer and the keys do is decided by Selecting ---

    @property
    def selection(self) -> Selection:
        return self.selecting.selection

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton:
            self.selecting.press(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self.selecting.move(event.position())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if link := self.selecting.release():
            self.link_activated.emit(link)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.selecting.select_word(event.position())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.selecting.copy()
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.selecting.select_all()
        elif event.key() == Qt.Key.Key_Home:
            self.verticalScrollBar().setValue(0)
        elif event.key() == Qt.Key.Key_End:
            self.scroll_to_bottom()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        open_menu(self.selecting.menu_at(event.globalPos()), event.globalPos())

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip:
            point = QPoint(event.pos())  # type: ignore[attr-defined]
            self.viewport().setToolTip(self.selecting.link_at(QPointF(point)))
        return super().viewportEvent(event)


def _timer(parent: Transcript, milliseconds: int, run: object) -> QTimer:
    timer = QTimer(parent)
    timer.setSingleShot(True)
    timer.setInterval(milliseconds)
    timer.timeout.connect(run)
    return timer
