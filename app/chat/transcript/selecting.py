"""Selecting with pointer and keys, links under the pointer, and what is copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QMouseEvent
from PySide6.QtWidgets import QMenu

from app.chat.transcript.block_view import BlockView
from app.chat.transcript.selection import Selection, TextPlace
from app.translation import tr

if TYPE_CHECKING:
    from app.chat.transcript.transcript import Transcript

COPY_LAYOUT_LIMIT = 400  # blocks of a selection that are laid out to be copied; more: their source is taken
DRAG_MS = 40


class Selecting(QObject):
    def __init__(self, transcript: Transcript) -> None:
        super().__init__(transcript)
        self._transcript = transcript
        self.selection = Selection()
        self._pressed_link = ""
        self._dragging = False
        self._timer = QTimer(self)
        self._timer.setInterval(DRAG_MS)
        self._timer.timeout.connect(self._drag_on)

    def hit(self, point: QPointF) -> tuple[TextPlace, BlockView, QPointF] | None:
        """The block at (or nearest to) a point, and the point inside it."""
        found: tuple[TextPlace, BlockView, QPointF] | None = None
        left = self._transcript.column_left()
        for index, message, top in self._transcript.visible_messages():
            if not message.is_built:
                continue
            for number, block, block_top in message.blocks_from(point.y() - top):
                y = top + block_top
                if found is not None and y > point.y():
                    return found
                inside = QPointF(point.x() - left, min(point.y() - y, block.height - 1))
                found = (TextPlace(index, number, block.position_at(inside)), block, inside)
        return found

    def link_at(self, point: QPointF) -> str:
        hit = self.hit(point)
        return hit[1].link_at(hit[2]) if hit is not None else ""

    def press(self, event: QMouseEvent) -> None:
        """Begin a selection, or with Shift go on with the one there is."""
        self._pressed_link = self.link_at(event.position())
        hit = self.hit(event.position())
        if hit is not None:
            extend = event.modifiers() & Qt.KeyboardModifier.ShiftModifier and self.selection.anchor is not None
            anchor = self.selection.anchor if extend else hit[0]
            assert anchor is not None
            self.selection.set(anchor, hit[0])
            self._dragging = True
        self._transcript.viewport().update()

    def move(self, point: QPointF) -> None:
        viewport = self._transcript.viewport()
        if self._dragging:
            self._drag_to(point)
            outside = not viewport.rect().contains(point.toPoint())
            if outside and not self._timer.isActive():
                self._timer.start()
            elif not outside:
                self._timer.stop()
            return
        hand = bool(self.link_at(point))
        inside = abs(point.x() - viewport.width() / 2) < self._transcript.column_width() / 2
        shape = Qt.CursorShape.PointingHandCursor if hand else Qt.CursorShape.IBeamCursor
        viewport.setCursor(shape if inside or hand else Qt.CursorShape.ArrowCursor)

    def release(self) -> str:
        """The link that was clicked, if one was and nothing was selected."""
        self._dragging = False
        self._timer.stop()
        link, self._pressed_link = self._pressed_link, ""
        return link if self.selection.is_empty else ""

    def select_word(self, point: QPointF) -> None:
        hit = self.hit(point)
        if hit is not None:
            place, block, _ = hit
            word = block.word_at(place.position)
            start = TextPlace(place.message, place.block, word.start)
            self.selection.set(start, TextPlace(place.message, place.block, word.end))
            self._transcript.viewport().update()

    def _drag_to(self, point: QPointF) -> None:
        hit = self.hit(point)
        if hit is not None and self.selection.anchor is not None:
            self.selection.set(self.selection.anchor, hit[0])
            self._transcript.viewport().update()

    def _drag_on(self) -> None:
        """The pointer is held outside: scroll, and select on."""
        point = self._transcript.viewport().mapFromGlobal(self._transcript.cursor().pos())
        height = self._transcript.viewport().height()
        step = point.y() if point.y() < 0 else max(0, point.y() - height)
        bar = self._transcript.verticalScrollBar()
        bar.setValue(bar.value() + max(-60, min(60, step)))
        self._drag_to(QPointF(point.x(), max(0, min(height - 1, point.y()))))

    def select_all(self) -> None:
        if not self._transcript.message_views:
            return
        last = self._transcript.message_views[-1]
        last.build()
        end = TextPlace(len(self._transcript.message_views) - 1, max(0, len(last.views) - 1), 1 << 30)
        self.selection.set(TextPlace(0, 0, 0), end)
        self._transcript.viewport().update()

    def selected_text(self) -> str:
        """Selected text as it is read; of a very long selection, its Markdown."""
        bounds = self.selection.bounds
        if bounds is None:
            return ""
        first, last = bounds
        width = self._transcript.column_width()
        pieces: list[tuple[str, str]] = []  # what stands before, text
        laid_out = 0
        for index in range(first.message, min(last.message, len(self._transcript.message_views) - 1) + 1):
            message = self._transcript.message_views[index]
            if not message.is_built and laid_out > COPY_LAYOUT_LIMIT:
                pieces.append(("\n\n", message.message.content))
                continue
            message.build()
            for number, block in enumerate(message.views):
                if not block.is_laid_out and laid_out <= COPY_LAYOUT_LIMIT:
                    block.layout(width)
                    laid_out += 1
                if block.is_laid_out:
                    span = self.selection.span(index, number, block.length)
                    if span is not None:
                        pieces.append((block.break_before, block.text(span)))
                elif (first.message, first.block) <= (index, number) <= (last.message, last.block):
                    pieces.append((block.break_before, block.source))
        self._transcript.heights_changed()
        return "".join(("" if number == 0 else gap) + text for number, (gap, text) in enumerate(pieces))

    def copy(self) -> None:
        if text := self.selected_text():
            QGuiApplication.clipboard().setText(text)

    def menu_at(self, point: QPoint) -> QMenu:
        """The context menu at a point of the screen."""
        menu = QMenu(self._transcript)
        copy = menu.addAction(tr("Copy"), self.copy)
        copy.setEnabled(not self.selection.is_empty)
        menu.addAction(tr("Select all"), self.select_all)
        if link := self.link_at(QPointF(self._transcript.viewport().mapFromGlobal(point))):
            menu.addSeparator()
            menu.addAction(tr("Copy link"), lambda: QGuiApplication.clipboard().setText(link))
        return menu
