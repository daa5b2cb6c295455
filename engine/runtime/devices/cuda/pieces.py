"""Weights that are prefetched within a captured step: through pinned buffers, filled by host functions.

A driver copies at full speed, and beside its other work, only from pinned memory, and a model's file is not. So a host
function fills a buffer on a stream of its own, while the buffer before it goes to the card.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from engine.runtime.devices.cuda.card import Card
from engine.runtime.devices.cuda.copies import HostBuffer, PinnedMemory
from engine.runtime.devices.cuda.memory import CudaRegion
from engine.runtime.devices.memory import Bytes
from engine.runtime.work import WeightWork
from kernels._cpu import HostCopy

_BUFFERS = 2
_CHUNK = 8 << 20
_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING


class PieceCopies:
    """The copies of a step. `is_pinned` is False where the system pins no memory for them."""

    def __init__(self, card: Card, pinned: PinnedMemory, works: list[WeightWork]) -> None:
        self._card, self._pinned = card, pinned
        self._kept: list[HostCopy | Bytes] = []  # what the driver has addresses of
        self._events: dict[tuple[str, int], int] = {}
        self._turn = 0
        self.bytes = sum(len(source) for work in works for _, source in _parts(work))
        wanted = [min(_CHUNK, self.bytes)] * _BUFFERS if works else []
        self._buffers: list[HostBuffer] = [buffer for buffer in map(pinned.pin, wanted) if buffer is not None]
        self.is_pinned = len(self._buffers) == len(wanted)

    def begin_pass(self) -> None:
        """What is put on the streams from now on is a step of its own."""
        self._turn = 0

    def put(self, work: WeightWork) -> None:
        """On the streams "staging" and "prefetch": all copies of one piece."""
        for to, source in _parts(work):
            self._kept.append(source)
            for begin in range(0, len(source), _CHUNK):
                self._put_chunk(to + begin, source[begin : begin + _CHUNK])

    def close(self) -> None:
        for event in self._events.values():
            self._card.call("cuEventDestroy_v2", event)
        for buffer in self._buffers:
            self._pinned.free(buffer)

    def _put_chunk(self, to: int, source: Bytes) -> None:
        card, place = self._card, self._turn % _BUFFERS
        if self._turn >= _BUFFERS:
            card.call("cuStreamWaitEvent", card.streams["staging"], self._event("left", place), 0)
        filled = HostCopy()
        filled.add(self._buffers[place].address, source.ctypes.data, len(source))
        self._kept.append(filled)
        card.call("cuLaunchHostFunc", card.streams["staging"], filled.function, filled.data)
        card.call("cuEventRecord", self._event("filled", place), card.streams["staging"])
        card.call("cuStreamWaitEvent", card.streams["prefetch"], self._event("filled", place), 0)
        card.call("cuMemcpyAsync", to, self._buffers[place].address, len(source), card.streams["prefetch"])
        card.call("cuEventRecord", self._event("left", place), card.streams["prefetch"])
        self._turn += 1

    def _event(self, what: str, place: int) -> int:
        key = what, place
        if key not in self._events:
            self._events[key] = self._card.make("cuEventCreate", _NO_TIMING)
        return self._events[key]


def _parts(work: WeightWork) -> Iterator[tuple[int, Bytes]]:
    """Addresses on the card, and what goes there."""
    assert work.piece is not None, "tiles are for prompts"
    for region, offset, source in work.tables.piece_parts(work.piece):
        yield cast(CudaRegion, region).view(offset, offset + len(source)).address, source
