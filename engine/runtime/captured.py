"""Captured steps: what a device needs of a schedule to run a step of few tokens without Python between its tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from engine.runtime.expert_slots import Ids, Uses
from engine.runtime.placement import SlotLookup
from engine.runtime.schedule import Schedule
from engine.runtime.staging import Staging
from engine.runtime.work import ACTIVATIONS, CopyWork, SegmentWork


class NotedIds:
    """Where a step's look-ups leave the experts that it uses, as words of int32: banks with as many per token lie side
    by side, so that all of them are counted at once."""

    def __init__(self, schedule: Schedule, tokens: int) -> None:
        self.tokens = tokens
        found = {
            work.lookup.bank: work.lookup.ids for work in segments_of(schedule) if isinstance(work.lookup, SlotLookup)
        }
        graph = next((work.graph for work in segments_of(schedule)), None)
        self.widths = {bank: graph.values[ids] for bank, ids in found.items()} if graph is not None else {}
        self.begins: dict[str, int] = {}  # by bank: its first word
        self.words = 0
        for bank, width in sorted(self.widths.items(), key=lambda pair: pair[1]):
            self.begins[bank] = self.words
            self.words += tokens * width

    def uses(self, words: Ids) -> tuple[Uses, ...]:
        """Views of `words`, which begin with the first bank's."""
        alike: dict[int, list[str]] = {}
        for bank in self.begins:
            alike.setdefault(self.widths[bank], []).append(bank)
        uses = []
        for width, banks in alike.items():
            shape, begin = (len(banks), self.tokens, width), self.begins[banks[0]]
            uses.append(Uses(tuple(banks), words[begin : begin + math.prod(shape)].reshape(shape)))
        return tuple(uses)


def segments_of(schedule: Schedule) -> Iterator[SegmentWork]:
    for tasks in schedule.streams.values():
        yield from (task.work for task in tasks if isinstance(task.work, SegmentWork))


def copies_of(schedule: Schedule) -> Iterator[CopyWork]:
    """Of activations."""
    for task in schedule.streams[ACTIVATIONS]:
        assert isinstance(task.work, CopyWork)
        yield task.work


def stagings_of(schedule: Schedule) -> list[Staging]:
    """Each once: they are used again and again."""
    return list(dict.fromkeys(staging for copy in copies_of(schedule) for _, staging in copy.stagings))


def carried_bytes(copies: Sequence[CopyWork], tokens: int) -> tuple[int, int]:
    """Of a step: to the device, and from it."""
    sizes = [
        (copy.source.segment.on_device, 4 * tokens * staging.width) for copy in copies for _, staging in copy.stagings
    ]
    return sum(n for from_device, n in sizes if not from_device), sum(n for from_device, n in sizes if from_device)
