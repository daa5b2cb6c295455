"""FirstFit: hands out ranges of one space of addresses, the lowest that is free and large enough."""

from __future__ import annotations

import bisect


class FirstFit:
    """Ranges of [0, size), in units of `alignment`."""

    def __init__(self, size: int, alignment: int) -> None:
        self._alignment = alignment
        self._begins = [0]  # of free ranges, rising; none touches the next
        self._ends = [size]
        self._sizes: dict[int, int] = {}  # of ranges in use, by where they begin

    def allocate(self, size: int) -> int | None:
        """Where the range begins; None where no free one is large enough."""
        size = max(1, -(-size // self._alignment)) * self._alignment
        for index, (begin, end) in enumerate(zip(self._begins, self._ends, strict=True)):
            if end - begin >= size:
                if end - begin == size:
                    del self._begins[index], self._ends[index]
                else:
                    self._begins[index] += size
                self._sizes[begin] = size
                return begin
        return None

    def free(self, begin: int) -> None:
        end = begin + self._sizes.pop(begin)
        index = bisect.bisect(self._begins, begin)
        self._begins.insert(index, begin)
        self._ends.insert(index, end)
        if index + 1 < len(self._begins) and self._begins[index + 1] == end:
            self._ends[index] = self._ends[index + 1]
            del self._begins[index + 1], self._ends[index + 1]
        if index and self._ends[index - 1] == begin:
            self._ends[index - 1] = self._ends[index]
            del self._begins[index], self._ends[index]
