"""Which blocks are laid out: those around the screen; far from it they give their layouts back. Free of widgets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from app.chat.transcript.block_view import BlockView
from app.chat.transcript.geometry import Column
from app.chat.transcript.message_view import MessageView

AHEAD = 300  # pixels above and below the screen that are laid out too
RELEASE_DISTANCE = 6000  # pixels from the screen at which layouts are given back


class Layouts:
    """Of the messages in a column."""

    def __init__(self, column: Column, messages: Sequence[MessageView]) -> None:
        self._column, self._messages = column, messages
        self._active: set[int] = set()  # messages whose blocks may be laid out

    def set_messages(self, messages: Sequence[MessageView]) -> None:
        """Those of another path. Messages may be appended to what was given."""
        self._messages = messages
        self._active = {index for index, view in enumerate(messages) if view.is_built}

    def blocks(self) -> Iterator[BlockView]:
        """Those that are laid out."""
        for index in self._active:
            yield from self._messages[index].laid_out()

    def first_unfed(self) -> int | None:
        """A message of whose text not all has been cut into blocks."""
        return next((index for index in self._active if not self._messages[index].is_fed), None)

    def lay_out(self, top: float, bottom: float, width: float) -> tuple[int | None, float]:
        """Build and lay out around the screen; the first message whose height changed, and where the column did."""
        top, bottom = top - AHEAD, bottom + AHEAD
        changed: int | None = None
        changed_from = math.inf
        for index in range(self._column.index_at(top), len(self._messages)):
            message_top = self._column.tops[index]
            if message_top >= bottom:
                break
            view = self._messages[index]
            before = view.height
            if not view.is_built:
                view.build()
                changed_from = min(changed_from, message_top)
            self._active.add(index)
            block_top = _lay_out_blocks(view, top - message_top, bottom - message_top, width)
            changed_from = min(changed_from, message_top + block_top)
            if changed is None and abs(view.height - before) > 0.5:
                changed = index
        return changed, changed_from

    def release_far(self, top: float, bottom: float) -> None:
        """From a screen between these heights of the column."""
        top, bottom = top - RELEASE_DISTANCE, bottom + RELEASE_DISTANCE
        for index in tuple(self._active):
            view, y = self._messages[index], self._column.tops[index]
            if (y > bottom or y + view.height < top) and view.is_fed:
                self._active.discard(index)
                for block in view.laid_out():
                    block.release()


def _lay_out_blocks(message: MessageView, top: float, bottom: float, width: float) -> float:
    """Where the first block that was laid out anew begins."""
    grown, first = False, math.inf
    for _, block, block_top in message.blocks_from(top):
        if block_top > bottom:
            break
        if block.is_laid_out:
            continue
        before, first = block.height, min(first, block_top)
        block.layout(width)
        grown = grown or abs(block.height - before) > 0.5
    if grown:
        message.changed()
    return first
