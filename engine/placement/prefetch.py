"""Which items in RAM should come over the link for a step, to be computed on the GPU.

One batch goes through the items in turn, on CPU and GPU, so what they take adds up; only copies run beside it. A copy
begins when the link and its buffer are free, so it hides behind what is computed between two uses of a buffer: which
items are chosen decides when the step ends. `choose_prefetch` goes through the items in the order of the graph with
both ways to do each. What the rest of the step needs to know of the items so far is when they are done, and when each
buffer can be filled again. Of two ways, one that is later in nothing is as good in all that follows.

An item takes a buffer for each of its pieces, and the next one the buffers after those: with room for `depth` items,
copies run as far ahead.

In decode the CPU is bound by RAM, of which a copy takes its share: there only what hides behind the GPU is free. That
is little, mostly less than items gain that lie in the buffers as long as an answer is written. So a plan lends each
buffer to an item, and counts on that: then its predicted speed only rises with the budget. `choose_passing` says how
many of them stay there, and what passes through the other buffers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from operator import le
from typing import TYPE_CHECKING, NamedTuple

from engine.placement.hardware.profile import Link
from engine.placement.items import ItemKind, PlacementItem

if TYPE_CHECKING:
    from engine.placement.step_times import Choice, ItemTimes, StepTimes

MOST_DEPTH = 3  # items that buffers hold: a fourth gained 3 % at most, over links of any speed
BUFFERS = 2  # that an item takes: while a piece of it is used, the next one is under way
SHORT_ANSWER = 16  # tokens within which an item pays for being copied back behind a prompt: a tool call, a yes
_MOST_WAYS = 16  # that are followed at a time
_EQUAL = 1e-4  # of a step: times that differ by less do not tell two ways apart


class Passing(NamedTuple):
    """What steps make of the buffers. Indices of items."""

    kept: frozenset[int]  # that were lent some, and lie there from step to step
    prefetched: frozenset[int]  # that come through the others for each step


def choose_passing(times: StepTimes, choice: Choice, *, decode: bool) -> Passing:
    """With which a token of a short answer, or a chunk of a prompt, is done first; prompts need all buffers."""
    if not decode or not choice.lent:
        return Passing(frozenset(), choose_prefetch(times, choice, decode=decode))
    lent, best, least = sorted(choice.lent), Passing(choice.lent, frozenset()), inf
    for count in range(len(lent), -1, -1):
        kept = frozenset(lent[:count])
        step = choice.keeping(kept)
        passing = Passing(kept, choose_prefetch(times, step, decode=True))
        seconds = prefetched_seconds(times, step, passing.prefetched, decode=True)
        seconds += back_seconds(times, kept) / SHORT_ANSWER
        if seconds >= least:
            break
        best, least = passing, seconds
    return best


def back_seconds(times: StepTimes, kept: Collection[int]) -> float:
    """Copying what was lent its buffers back into them, behind a prompt."""
    link = times.hardware.link
    return sum(link.latency + times.model.items[i].bytes / link.to_gpu for i in kept) if link is not None else 0.0


def choose_prefetch(times: StepTimes, choice: Choice, *, decode: bool) -> frozenset[int]:
    """Indices of the items with which a token, or a chunk of a prompt, is done first."""
    link = times.hardware.link
    if link is None or not choice.uses_gpu or not choice.prefetch_depth:
        return frozenset()
    pipeline = _Pipeline(times, choice, link, decode)
    alone = pipeline.seconds(frozenset())
    ways = [pipeline.start]
    for index in range(len(times.model.items)):
        if pipeline.is_candidate(index):
            ways = _best(ways, _EQUAL * alone)
            ways = [pipeline.resident(way, index) for way in ways] + [pipeline.prefetched(way, index) for way in ways]
        else:
            ways = [pipeline.resident(way, index) for way in ways]
    best = min(ways, key=pipeline.end)
    return frozenset(best.indices) if pipeline.end(best) < alone else frozenset()


def prefetched_seconds(times: StepTimes, choice: Choice, chosen: Collection[int], *, decode: bool) -> float:
    """A token, or a chunk of a prompt, with the items `chosen` prefetched; needs a link."""
    assert times.hardware.link is not None
    return _Pipeline(times, choice, times.hardware.link, decode).seconds(chosen)


def lost_share(times: StepTimes, *, decode: bool) -> float:
    """Of the CPU's speed, while weights are copied: in decode it reads as fast as RAM gives."""
    link = times.hardware.link
    return min(1.0, link.to_gpu / times.hardware.cpu.bandwidth) if decode and link is not None else 0.0


def pieces(item: PlacementItem) -> tuple[int, ...]:
    """Bytes of the parts that an item comes in: its last product, and what stands before it."""
    last = item.matrices[-1].bytes if len(item.matrices) > 1 else 0
    return tuple(filter(None, (item.bytes - last, last)))


def buffer_bytes(items: Sequence[PlacementItem]) -> int:
    """GPU memory for the pieces of any one of `items`, as far as they can be prefetched."""
    found = [pieces(item) for item in items if is_prefetchable(item)]
    return sum(max((p[place] for p in found if len(p) > place), default=0) for place in range(BUFFERS))


def lendable(items: Sequence[PlacementItem], on_gpu: Sequence[bool]) -> list[int]:
    """Indices of items on the GPU whose room can hold the pieces of others instead: all of one size, that into which
    most would fit."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for index, item in enumerate(items):
        if on_gpu[index] and is_prefetchable(item):
            alike.setdefault(pieces(item), []).append(index)
    fitting = {size: sum(is_prefetchable(item) and fits(item, size) for item in items) for size in alike}
    return alike[max(alike, key=lambda size: (fitting[size], -sum(size)))] if alike else []


def fits(item: PlacementItem, buffers: Sequence[int]) -> bool:
    """Whether buffers of so many bytes hold the item's pieces."""
    needed = pieces(item)
    return len(needed) <= len(buffers) and all(map(le, needed, buffers))


def is_prefetchable(item: PlacementItem) -> bool:
    """What an attention remembers lies where it is computed, and of experts some are streamed instead."""
    return item.kind is ItemKind.FEED_FORWARD and item.state is None and item.bytes > 0


class _Way(NamedTuple):
    """The items so far, done in one way. Seconds from the beginning of the step."""

    free: tuple[float, ...]  # when a copy into each buffer can begin, in the order in which they are used
    now: float = 0.0
    on_gpu: bool = False
    on_cpu: tuple[tuple[float, float], ...] = ()  # when the CPU computed, as far as copies can still fall there
    chosen: tuple[int, object] | None = None  # the last item that was prefetched, and those before it

    @property
    def indices(self) -> Iterable[int]:
        chosen: object = self.chosen
        while isinstance(chosen, tuple):
            yield chosen[0]
            chosen = chosen[1]


def _best(ways: list[_Way], equal: float) -> list[_Way]:
    """Those that may yet turn out to be best, at most `_MOST_WAYS`."""
    kept: list[_Way] = []
    for way in sorted(ways, key=lambda way: way.now):
        limits = [at + equal for at in way.free]
        if not any(other.on_gpu is way.on_gpu and all(map(le, other.free, limits)) for other in kept):
            kept.append(way)
    if len(kept) <= _MOST_WAYS:
        return kept
    return [kept[at * (len(kept) - 1) // (_MOST_WAYS - 1)] for at in range(_MOST_WAYS)]


@dataclass(frozen=True, slots=True)
class _Pipeline:
    times: StepTimes
    choice: Choice
    link: Link
    decode: bool

    def seconds(self, chosen: Collection[int]) -> float:
        way = self.start
        for index in range(len(self.choice.on_gpu)):
            way = self.prefetched(way, index) if index in chosen else self.resident(way, index)
        return self.end(way)

    @property
    def start(self) -> _Way:
        return _Way((0.0,) * (BUFFERS * self.choice.prefetch_depth))

    def is_candidate(self, index: int) -> bool:
        items, lent = self.times.model.items, self.choice.lent
        if self.choice.on_gpu[index] or not is_prefetchable(items[index]):
            return False
        return not lent or fits(items[index], pieces(items[min(lent)]))

    def resident(self, way: _Way, index: int) -> _Way:
        """An item where its weights are."""
        times, on_gpu = self._times, self.choice.on_gpu[index]
        begin = self._arrived(way, on_gpu)
        end = begin + (times.gpu if on_gpu else times.cpu)[index]
        on_cpu = way.on_cpu if on_gpu or not self.decode else (*way.on_cpu, (begin, end))
        return way._replace(now=end, on_gpu=on_gpu, on_cpu=on_cpu)

    def prefetched(self, way: _Way, index: int) -> _Way:
        """An item that comes over the link in pieces, each as soon as its buffer is free."""
        item, seconds = self.times.model.items[index], self._times.gpu[index]
        now, link_free, hindered = self._arrived(way, on_gpu=True), 0.0, 0.0
        on_cpu: tuple[tuple[float, float], ...] = ()
        used = list(way.free[:BUFFERS])
        for buffer, size in enumerate(pieces(item)):
            begin = max(link_free, used[buffer])
            link_free = begin + self.link.latency + size / self.link.to_gpu
            hindered += self._beside_cpu(way, begin, link_free)
            used[buffer] = now = max(now, link_free) + seconds * size / item.bytes
        free = tuple(max(link_free, at) for at in (*way.free[BUFFERS:], *used))
        if self.decode:  # what the CPU lost, it makes up for now
            on_cpu = (*(span for span in way.on_cpu if span[1] > free[0]), (now, now + hindered))
        return _Way(free, now + hindered, True, on_cpu, (index, way.chosen))

    def end(self, way: _Way) -> float:
        """When the logits are in RAM."""
        return self._arrived(way, on_gpu=False)

    def _arrived(self, way: _Way, on_gpu: bool) -> float:
        return way.now + (self.times.switch_seconds(decode=self.decode) if on_gpu is not way.on_gpu else 0.0)

    @property
    def _times(self) -> ItemTimes:
        return self.times.decode if self.decode else self.times.prefill

    def _beside_cpu(self, way: _Way, begin: float, end: float) -> float:
        """Seconds that the CPU loses to a copy."""
        if not self.decode:
            return 0.0
        both = sum(max(0.0, min(end, until) - max(begin, since)) for since, until in way.on_cpu)
        return both * lost_share(self.times, decode=True)
