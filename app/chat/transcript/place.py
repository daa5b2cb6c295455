"""Where the reader is: at the bottom, or at a block that stays put while heights above it change."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QAbstractScrollArea

from app.chat.transcript.geometry import Anchor, Column
from app.chat.transcript.message_view import MessageView

STICK_DISTANCE = 64  # pixels from the bottom within which the reader counts as being there


class Place(QObject):
    """Of the column of messages in the scroll area, whose scroll bar it moves."""

    at_bottom_changed = Signal(bool)

    def __init__(self, area: QAbstractScrollArea, column: Column) -> None:
        super().__init__(area)
        self._area, self._bar, self._column = area, area.verticalScrollBar(), column
        self.is_at_bottom = True
        self.is_moving = False  # the scroll bar is set by us, not by the reader

    def set_range(self) -> None:
        """After the column's height changed. Called some times per layout: the bar is only told what is new to it."""
        bar = self._bar
        page = self._area.viewport().height()
        most = max(0, round(self._column.height) - page)
        self.is_moving = True
        if bar.maximum() != most or bar.pageStep() != page:
            bar.setPageStep(page)
            bar.setRange(0, most)
        if self.is_at_bottom and bar.value() != most:
            bar.setValue(most)
        self.is_moving = False

    def move_to(self, value: int) -> None:
        self.is_moving = True
        self._bar.setValue(value)
        self.is_moving = False

    def set_at_bottom(self, at_bottom: bool, *, move: bool = True) -> None:
        if at_bottom != self.is_at_bottom:
            self.is_at_bottom = at_bottom
            self.at_bottom_changed.emit(at_bottom)
        if at_bottom and move:
            self.set_range()

    def scrolled_by_reader(self) -> None:
        """The reader is at the bottom now, or no longer."""
        self.set_at_bottom(self._bar.maximum() - self._bar.value() <= STICK_DISTANCE, move=False)

    def anchor(self, messages: Sequence[MessageView]) -> Anchor:
        """The first block on screen."""
        y = self._bar.value()
        index = self._column.index_at(y)
        inside = y - self._column.tops[index]
        view = messages[index]
        if not view.is_built or not view.views:
            return Anchor(index, 0, inside)
        number, _, top = next(view.blocks_from(inside))
        return Anchor(index, number, inside - top)

    def return_to(self, anchor: Anchor, messages: Sequence[MessageView]) -> None:
        """Heights have changed: the anchor comes where it was; at the bottom nothing is to be done."""
        if self.is_at_bottom:
            return
        view = messages[anchor.message]
        y = self._column.tops[anchor.message] + anchor.offset
        if view.is_built and anchor.block < len(view.views):
            y += view.tops()[anchor.block]
        self.move_to(round(y))
