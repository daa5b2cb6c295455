"""How long the tokens of an answer took, counted in steps of 2 %, so that many answers' times can be put together.

An answer of any length keeps some dozens of numbers; a percentile read from them is right within 1 %.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

_STEP = math.log(1.02)
_SHORTEST = 1e-6  # seconds


def count_times(seconds: Iterable[float]) -> dict[str, int]:
    """How many of the times lie around each power of 1.02 seconds; keys as JSON wants them."""
    return dict(Counter(str(round(math.log(max(time, _SHORTEST)) / _STEP)) for time in seconds))


def merged_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    merged: Counter[str] = Counter()
    for one in counts:
        merged.update(one)
    return dict(merged)


def percentile(counts: Mapping[str, int], share: float) -> float:
    """Seconds that `share` of the times do not exceed, by the nearest rank; `counts` must not be empty."""
    rank = round(share * (sum(counts.values()) - 1))
    for step in sorted(map(int, counts)):
        rank -= counts[str(step)]
        if rank < 0:
            break
    return math.exp(step * _STEP)
