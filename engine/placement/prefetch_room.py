"""How much GPU memory is kept for weights that only pass through it: buffers for as many items as pay for their room.

What buffers take is taken from weights that would stay. With n items left in RAM, a step takes

    base + n × (seconds that such an item adds with buffers for so many),

and each item that there are buffers for puts one more into RAM. So buffers pay where much is left there: the larger the
budget, the fewer. What they gain is found out once, with all that can be prefetched in RAM.

    room = PrefetchRoom(times, on_gpu, item_bytes, all_bytes)
    room.paying(12)  # items in RAM → items that buffers should hold
    room.depth(6 * GiB)  # of memory for weights and buffers → items that buffers hold
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import inf

from engine.placement.prefetch import MOST_DEPTH, choose_prefetch, is_prefetchable, prefetched_seconds
from engine.placement.step_times import Choice, StepTimes

_ROOM_PER_BUFFERS = 4  # bytes of room for each that weights only pass through


class PrefetchRoom:
    """`on_gpu`: where everything fits, `all_bytes`. An item takes `item_bytes` of buffers. `decode`: whether the steps
    are tokens, or chunks of a prompt."""

    def __init__(
        self,
        times: StepTimes,
        on_gpu: Sequence[bool],
        item_bytes: int,
        all_bytes: int,
        *,
        decode: bool = False,
    ) -> None:
        self._times = times
        self._on_gpu = tuple(on_gpu)
        self._item_bytes = item_bytes
        self._all_bytes = all_bytes
        self._decode = decode
        self._items = [i for i, item in enumerate(times.model.items) if on_gpu[i] and is_prefetchable(item)]

    def depth(self, room: int) -> int:
        """For how many items there are buffers within `room` bytes for weights and buffers."""
        return min(MOST_DEPTH, (room - self.capacity(room)) // self._item_bytes) if self._item_bytes else 0

    def capacity(self, room: int) -> int:
        """What is left of it to weights that stay: never less than of less room."""
        if not self._item_bytes:
            return room
        steps = (_ROOM_PER_BUFFERS * depth * self._item_bytes for depth in range(1, MOST_DEPTH + 1))
        before = (step - 1 for step in steps if step <= room)  # where more buffers begin to fit, nothing is lost
        return max(at - self._wanted(at) * self._item_bytes for at in (room, *before))

    def most(self, room: int) -> int:
        """Items for which there may be buffers."""
        return min(MOST_DEPTH, room // (_ROOM_PER_BUFFERS * self._item_bytes)) if self._item_bytes else 0

    def paying(self, items: float, most: int = MOST_DEPTH) -> int:
        """For how many items buffers pay where so many are left in RAM; `most` at most."""
        return next((depth for depth in range(most, 0, -1) if items >= self._least_left[depth - 1]), 0)

    def _wanted(self, room: int) -> int:
        if room >= self._all_bytes:
            return 0
        most = self.most(room)
        return max(min(1, most), self.paying((self._all_bytes - room) / self._item_bytes, most))

    @cached_property
    def _least_left(self) -> list[float]:
        """By depth from 1 on: how many items have to be left in RAM for it to be better than every smaller one."""
        count, times = len(self._items), self._times
        if not count or times.hardware.link is None:
            return [inf] * MOST_DEPTH
        left = tuple(there and i not in self._items for i, there in enumerate(self._on_gpu))
        base = times.seconds(Choice(self._on_gpu, (0,) * len(times.model.banks)), decode=self._decode)
        each: list[float] = []  # by depth: seconds that an item in RAM adds
        for depth in range(MOST_DEPTH + 1):
            choice = Choice(left, (), prefetch_depth=depth)
            chosen = choose_prefetch(times, choice, decode=self._decode)
            each.append((prefetched_seconds(times, choice, chosen, decode=self._decode) - base) / count)

        def seconds(depth: int, items: int) -> float:
            return base + (items + depth) * each[depth]

        def pays(depth: int, items: int) -> bool:
            return seconds(depth, items) < min(seconds(less, items) for less in range(depth))

        return [next((n for n in range(1, count + 1) if pays(d, n)), inf) for d in range(1, MOST_DEPTH + 1)]
