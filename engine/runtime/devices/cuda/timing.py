"""Timing: when a card's streams did what, by events that are part of what is captured."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from engine.runtime.devices.cuda.card import Card
from engine.runtime.devices.streams import Span

_START = "start"
_EXTERNAL = 1  # CU_EVENT_RECORD_EXTERNAL: within a capture, a node that records again with every launch


class Mark(NamedTuple):
    """A task, as spans tell of it."""

    lane: str
    stream: str
    name: str


class Timing:
    """Events around the tasks of a step. The card's clock and the host's meet where a step is launched."""

    def __init__(self, card: Card) -> None:
        self._card = card
        self._events: dict[object, int] = {}
        self._marks: list[Mark] = []  # in the order in which they were put on the streams
        self._began = 0.0
        self.is_captured = False

    def begin(self) -> None:
        """A step is launched now."""
        self._began = time.perf_counter()

    def record_start(self, stream: int) -> None:
        """What follows on the stream is measured from here, and nothing that was before."""
        self._marks.clear()
        self._record(_START, stream)

    @contextmanager
    def around(self, mark: Mark, stream: int) -> Iterator[None]:
        """What is put on the stream meanwhile is measured."""
        number = len(self._marks)
        self._marks.append(mark)
        self._record((number, True), stream)
        yield
        self._record((number, False), stream)

    def seconds(self, lane: str) -> float:
        """That a lane's tasks took in the last step that was measured; the card is done with it."""
        numbers = [number for number, mark in enumerate(self._marks) if mark.lane == lane]
        return sum(self._between((number, True), (number, False)) for number in numbers)

    def spans(self) -> list[Span]:
        spans = []
        for number, mark in enumerate(self._marks):
            begin, took = self._between(_START, (number, True)), self._between((number, True), (number, False))
            spans.append(Span(*mark, self._began + begin, self._began + begin + took))
        return spans

    def close(self) -> None:
        for event in self._events.values():
            self._card.call("cuEventDestroy_v2", event)
        self._events.clear()
        self._marks.clear()

    def _record(self, key: object, stream: int) -> None:
        if key not in self._events:
            self._events[key] = self._card.make("cuEventCreate", 0)
        if self.is_captured:
            self._card.call("cuEventRecordWithFlags", self._events[key], stream, _EXTERNAL)
        else:
            self._card.call("cuEventRecord", self._events[key], stream)

    def _between(self, first: object, second: object) -> float:
        milliseconds = ctypes.c_float()
        self._card.call("cuEventElapsedTime", ctypes.byref(milliseconds), self._events[first], self._events[second])
        return milliseconds.value / 1e3
