"""Handing a step to the processor and back, in the middle of what a card's streams do.

Host functions are the driver's own way. Under Windows' WDDM the driver submits work in batches, and a host function
splits them; there flags in pinned memory, which two tiny kernels raise and await, are the alternative. Which of the two
is faster there has not been measured.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Protocol

from engine.runtime.devices.cuda.card import Card
from engine.runtime.devices.cuda.copies import PinnedMemory
from kernels._cpu import FlagWorker, HostSegment
from kernels.cuda.driver import Driver
from kernels.cuda.kernel_set import KernelSet
from kernels.cuda.operations import Operations

_FLAG_BYTES = 8  # per segment: one that the card raises, and the answer
FLAG_KERNELS = ("raise_flag", "await_flag")
_TCC = 35  # CU_DEVICE_ATTRIBUTE_TCC_DRIVER


def prefers_flags(driver: Driver, index: int = 0) -> bool:
    """Under WDDM."""
    return platform.system() == "Windows" and not driver.attribute(_TCC, index)


class HandOver(Protocol):
    is_pinned: bool  # else the card cannot hand over so

    def put(self, segment: HostSegment) -> None:
        """Puts a segment on the host's stream."""

    def begin(self) -> None:
        """A step is launched next."""

    def cancel(self) -> None:
        """It was not."""

    def close(self) -> None:
        """No step is launched any more."""


class HostFunctions:
    """The driver calls the segments on a thread of its own."""

    is_pinned = True

    def __init__(self, card: Card) -> None:
        self._card = card

    def put(self, segment: HostSegment) -> None:
        self._card.call("cuLaunchHostFunc", self._card.streams["host"], segment.function, segment.data)

    def begin(self) -> None:
        """Nothing to prepare."""

    def cancel(self) -> None:
        """Nothing was begun."""

    def close(self) -> None:
        """Nothing is kept."""


class MappedFlags:
    """A thread of ours watches flags in pinned memory, [segments, 2] of uint32, and runs `segments` in this order. Both
    are of its own, so that nobody looks at flags that are gone."""

    def __init__(self, card: Card, kernels: KernelSet, pinned: PinnedMemory, segments: Sequence[HostSegment]) -> None:
        self._operations = Operations(kernels, card.streams["host"])
        self._segments = segments
        self._pinned = pinned
        self._memory = pinned.allocate(_FLAG_BYTES * max(1, len(segments)))
        self._memory.bytes[:] = 0
        self.is_pinned = self._memory.is_pinned
        self._worker = FlagWorker()
        self._flags: dict[int, int] = {}
        for number, segment in enumerate(segments):
            self._flags[segment.data] = self._memory.address + _FLAG_BYTES * number
            if self.is_pinned:
                self._worker.add(segment.function, segment.data, self._flags[segment.data])

    def put(self, segment: HostSegment) -> None:
        flag = self._flags[segment.data]
        self._operations.raise_flag(flag)
        self._operations.await_flag(flag + _FLAG_BYTES // 2)

    def begin(self) -> None:
        self._worker.begin()

    def cancel(self) -> None:
        self._worker.cancel()

    def close(self) -> None:
        self._worker.close()
        self._pinned.free(self._memory)
