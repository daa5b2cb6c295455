"""Where every message of the transcript lies: a column of heights, most of them estimates. Free of Qt."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

TOP_MARGIN = 28.0
BOTTOM_MARGIN = 20.0
MESSAGE_GAP = 14.0


class HasHeight(Protocol):
    @property
    def height(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place in the text that must not move on the screen: a block, and a distance below its top."""

    message: int
    block: int
    offset: float


class Column:
    """Tops of the messages. A change of the last message costs nothing, another one a pass over all heights."""

    def __init__(self) -> None:
        self._items: Sequence[HasHeight] = ()
        self.tops: list[float] = []

    def set_items(self, items: Sequence[HasHeight]) -> None:
        self._items = items
        self.update()

    def update(self, first: int = 0) -> None:
        """Heights from `first` on may have changed."""
        items = self._items
        if first >= len(items) - 1 and len(self.tops) == len(items):
            return  # a last height moves no top
        steps = (item.height + MESSAGE_GAP for item in items)
        self.tops = list(accumulate(steps, initial=TOP_MARGIN))[: len(items)]

    @property
    def height(self) -> float:
        if not self.tops:
            return 0.0
        return self.tops[-1] + self._items[-1].height + BOTTOM_MARGIN

    def index_at(self, y: float) -> int:
        """The message at this height, or the nearest above; 0 where there is none."""
        return max(0, bisect_right(self.tops, y) - 1)
