"""PageWatch: which weights that the processor reads are not in RAM, a few at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

from engine.memory.page_cache import shares_in_ram
from engine.memory.weight_store import WeightStore
from engine.models.graph import Experts, Graph, op_weights

_LOOK_WINDOWS = 32  # per look, after which no other tensor is begun: some 0.2 ms beside a generation
_WINDOW_BYTES, _MOST_WINDOWS = 2 << 20, 16  # of a tensor without experts: one window per so much of it, up to so many
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
        self._looks = self._look_at_all()

    def look(self) -> None:
        """At some more of the model; four times a second, a large one has been seen after a minute."""
        seen = 0
        for windows in islice(self._looks, sum(map(len, self._tensors.values()))):
            seen += windows
            if seen >= _LOOK_WINDOWS:
                return

    def _look_at_all(self) -> Iterator[int]:
        """One tensor after the other, round and round: in how many windows it was looked at."""
        while self._tensors:
            for key, names in self._tensors.items():
                count = self._experts.get(key, 0)
                there, size = [0.0] * (count or 1), 0
                for name in names:
                    buffer = self._weights.buffer(name)
                    windows = count or min(_MOST_WINDOWS, 1 + len(buffer) // _WINDOW_BYTES)
                    shares = shares_in_ram(buffer, windows)
                    if shares is None:  # the system does not tell
                        return
                    if not count:
                        shares = [sum(shares) / windows]
                    there = [before + share * len(buffer) for before, share in zip(there, shares, strict=True)]
                    size += len(buffer)
                    yield windows
                for number, held in enumerate(there):
                    place = (key, number if count else -1)
                    self.on_disk.add(place) if held < _MOSTLY * size else self.on_disk.discard(place)
