"""Which items in RAM should come over the link for a step, to be computed on the GPU.

Items are gone through in the order of the graph, with the clocks of the chain, of the link and of two buffers: an item
is prefetched where it is done earlier so than on the CPU, because its copy hides behind what is computed before. In
decode the CPU is bound by RAM, of which a copy takes its share: there only what hides behind the GPU is free. That is
little, and no plan counts on it: its predicted speed is without, and so only rises with the budget.

Of a prompt the CPU has so much to do with each item that this takes the link from the items behind it, which could have
come for nothing: so that many, spread evenly, are tried as well, with which the link is busy as long as all else is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.placement.hardware.profile import Link
from engine.placement.items import ItemKind, PlacementItem

if TYPE_CHECKING:
    from engine.placement.step_times import Choice, StepTimes

_BUFFERS = 2


def choose_prefetch(times: StepTimes, choice: Choice, *, decode: bool) -> frozenset[int]:
    """Indices of items, for a token, or for a chunk of a prompt, of a model with a part on the GPU."""
    link = times.hardware.link
    if link is None or not choice.uses_gpu:
        return frozenset()
    least = _Walk(times, choice, link, decode).run(frozenset())
    tried = [None] if decode else [None, *_evenly_spread(times, choice, link, least)]
    best = frozenset[int]()
    for wanted in tried:
        walk = _Walk(times, choice, link, decode)
        seconds = walk.run(wanted)
        if seconds < least:
            best, least = frozenset(walk.chosen), seconds
    return best


def _evenly_spread(times: StepTimes, choice: Choice, link: Link, alone: float) -> list[frozenset[int]]:
    """Items at even distances, about as many as come over the link while a chunk of a prompt is computed, which takes
    `alone` seconds without any: copies last as long as the rest where share · copying = alone - share · gained."""
    items = [i for i, item in enumerate(times.model.items) if is_prefetchable(item) and not choice.on_gpu[i]]
    if not items:
        return []
    copying = sum(times.model.items[i].bytes / link.to_gpu for i in items)
    gained = sum(times.prefill.cpu[i] - times.prefill.gpu[i] for i in items)
    balanced = len(items) * alone / (copying + max(0.0, gained))
    # Buffers hold one item: of patterns with about as many, the one with equal distances waits least.
    regular = len(items) // math.ceil(len(items) / balanced)
    counts = {min(len(items), max(1, count)) for count in (regular, *range(int(balanced) - 1, int(balanced) + 2))}
    return [
        frozenset(i for at, i in enumerate(items) if (at + 1) * count // len(items) > at * count // len(items))
        for count in sorted(counts)
    ]


def pieces(item: PlacementItem) -> tuple[int, ...]:
    """Bytes of the parts that an item comes in: its last product, and what stands before it."""
    last = item.matrices[-1].bytes if len(item.matrices) > 1 else 0
    return tuple(filter(None, (item.bytes - last, last)))


def is_prefetchable(item: PlacementItem) -> bool:
    """What an attention remembers lies where it is computed, and of experts some are streamed instead."""
    return item.kind is ItemKind.FEED_FORWARD and item.state is None and item.bytes > 0


@dataclass(slots=True)
class _Walk:
    times: StepTimes
    choice: Choice
    link: Link
    decode: bool
    now: float = 0.0
    link_free: float = 0.0
    chosen: list[int] = field(default_factory=list)
    _buffers: list[float] = field(default_factory=lambda: [0.0] * _BUFFERS)  # when they are free
    _on_cpu: list[tuple[float, float]] = field(default_factory=list)  # when the CPU computes

    def run(self, wanted: frozenset[int] | None) -> float:
        """Seconds of a step with `wanted` prefetched; None: whatever is done earlier so."""
        times = self.times.decode if self.decode else self.times.prefill
        switch, last = self.times.switch_seconds(decode=self.decode), False
        for index, (item, on_gpu) in enumerate(zip(self.times.model.items, self.choice.on_gpu, strict=True)):
            there = self.now + (0.0 if last else switch)
            if on_gpu:
                self.now, last = there + times.gpu[index], True
                continue
            alone = self.now + (switch if last else 0.0) + times.cpu[index]
            if is_prefetchable(item) and (wanted is None or index in wanted):
                home = switch if not self._goes_on(index) else 0.0
                begin = there, self.link_free, list(self._buffers)
                done, hindered = self._prefetched(item, there, times.gpu[index])
                if wanted is not None or done + home + hindered < alone:
                    self._on_cpu.append((done, done + hindered))  # what it lost, it makes up for now
                    self.now, last = done + hindered, True
                    self.chosen.append(index)
                    continue
                _, self.link_free, self._buffers = begin
            self._on_cpu.append((alone - times.cpu[index], alone))
            self.now, last = alone, False
        return self.now + (switch if last else 0.0)

    def _goes_on(self, index: int) -> bool:
        """Whether the next item is on the GPU anyway."""
        return index + 1 < len(self.choice.on_gpu) and self.choice.on_gpu[index + 1]

    def _prefetched(self, item: PlacementItem, ready: float, seconds: float) -> tuple[float, float]:
        """When the item is done, and for how long its copies hinder the CPU."""
        now, hindered = ready, 0.0
        for buffer, size in enumerate(pieces(item)):
            begin = max(self.link_free, self._buffers[buffer])
            self.link_free = begin + self.link.latency + size / self.link.to_gpu
            hindered += self._beside_cpu(begin, self.link_free)
            now = max(now, self.link_free) + seconds * size / item.bytes
            self._buffers[buffer] = now
        return now, hindered

    def _beside_cpu(self, begin: float, end: float) -> float:
        """Seconds that the CPU loses to a copy: in decode it reads as fast as RAM gives."""
        if not self.decode:
            return 0.0
        both = sum(max(0.0, min(end, until) - max(begin, since)) for since, until in self._on_cpu)
        return both * min(1.0, self.link.to_gpu / self.times.hardware.cpu.bandwidth)
