"""Which items in RAM should come over the link for a step, to be computed on the GPU.

Items are gone through in the order of the graph, with the clocks of the chain, of the link and of two buffers: an item
is prefetched where it is done earlier so than on the CPU, because its copy hides behind what is computed before. In
decode the CPU is bound by RAM, of which a copy takes its share: there only what hides behind the GPU is free. That is
little, and no plan counts on it: its predicted speed is without, and so only rises with the budget.
"""

from __future__ import annotations

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
    alone = _Walk(times, choice, link, decode).run(prefetches=False)
    walk = _Walk(times, choice, link, decode)
    seconds = walk.run(prefetches=True)
    return frozenset(walk.chosen) if seconds < alone else frozenset()


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

    def run(self, *, prefetches: bool) -> float:
        """Seconds of a step."""
        times = self.times.decode if self.decode else self.times.prefill
        switch, last = self.times.switch_seconds(decode=self.decode), False
        for index, (item, on_gpu) in enumerate(zip(self.times.model.items, self.choice.on_gpu, strict=True)):
            there = self.now + (0.0 if last else switch)
            if on_gpu:
                self.now, last = there + times.gpu[index], True
                continue
            alone = self.now + (switch if last else 0.0) + times.cpu[index]
            if prefetches and is_prefetchable(item):
                home = switch if not self._goes_on(index) else 0.0
                begin = there, self.link_free, list(self._buffers)
                done, hindered = self._prefetched(item, there, times.gpu[index])
                if done + home + hindered < alone:
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
