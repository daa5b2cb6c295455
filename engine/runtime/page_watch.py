"""PageWatch: which weights that the processor reads are not in RAM, a few at a time."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from engine.memory.page_cache import pages_in_ram
from engine.memory.weight_store import WeightStore
from engine.models.graph import Experts, Graph, op_weights

_LOOK_BYTES, _LOOK_ITEMS = 256 << 20, 8  # at most, per look: well below a millisecond beside a generation
_MOSTLY = 0.5  # of an item's or expert's pages


class PageWatch:
    """`on_disk`: keys of items, and of a bank with an expert's number, most of whose pages a step would have to wait
    for. An item without experts has number -1."""

    def __init__(self, graph: Graph, weights: WeightStore) -> None:
        self.on_disk: set[tuple[str, int]] = set()
        self._weights = weights
        self._experts: dict[str, int] = {}
        self._tensors: defaultdict[str, list[str]] = defaultdict(list)
        for op in graph.ops:
            if isinstance(op, Experts):
                self._experts[op.item] = graph.weights[op.gate].count
                self._tensors[op.item] += op.tensors
            else:
                self._tensors[op.item] += op_weights(op)
        self._sizes = {key: sum(graph.weights[n].nbytes for n in names) for key, names in self._tensors.items()}
        self._turn: Iterator[str] = itertools.cycle(self._tensors)

    def look(self) -> None:
        """At some more of the model; four times a second, a large one has been seen after some ten seconds."""
        seen = 0
        for _ in range(min(_LOOK_ITEMS, len(self._tensors))):
            key = next(self._turn)
            self._look_at(key)
            seen += self._sizes[key]
            if seen >= _LOOK_BYTES:
                return

    def _look_at(self, key: str) -> None:
        count = self._experts.get(key, 1)
        there, all_pages = np.zeros(count), np.zeros(count)
        for name in self._tensors[key]:
            pages = pages_in_ram(self._weights.buffer(name))
            if pages is None:
                return
            starts = np.arange(count) * len(pages) // count
            there += np.add.reduceat(pages.astype(np.int64), starts)
            all_pages += np.diff(starts, append=len(pages))
        missing = there < _MOSTLY * all_pages
        for number in range(count):
            place = (key, number if key in self._experts else -1)
            self.on_disk.add(place) if missing[number] else self.on_disk.discard(place)
