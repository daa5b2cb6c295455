"""Copies between RAM and a card: through pinned memory, so that the link runs at its full speed beside everything else.

Systems limit what may be pinned (Windows and WSL most): there is a cap, smaller buffers are tried where the system
refuses, and where it refuses all, copies come from pageable memory, slower but right.
"""

from __future__ import annotations

import ctypes
import platform
import threading
from dataclasses import dataclass, field

import numpy as np

from engine.runtime.devices.cuda.card import Card
from engine.runtime.devices.memory import Bytes
from kernels.cuda.kernel_set import LaunchError

_BUFFERS = 2  # one is filled while the other is under way
_BUFFER_SIZES = (8 << 20, 2 << 20, 256 << 10)  # the largest that the system pins
PINNED_CAP = 256 << 20
PINNED_CAP_WSL = 64 << 20  # Windows pins for a guest out of a small pool that all of them share


def pinned_cap() -> int:
    """How much memory may be pinned on this system."""
    is_wsl = "microsoft" in platform.release().lower()
    return PINNED_CAP_WSL if is_wsl or platform.system() == "Windows" else PINNED_CAP


@dataclass(eq=False)
class HostBuffer:
    """Memory of the host. `address` is 0 where it could not be pinned."""

    bytes: Bytes
    address: int = 0

    @property
    def is_pinned(self) -> bool:
        return bool(self.address)


class PinnedMemory:
    """At most `cap` bytes of pinned memory; beyond, and where the system refuses, plain memory is given."""

    def __init__(self, card: Card, cap: int) -> None:
        self._card = card
        self.cap = cap
        self.used = 0

    def allocate(self, size: int) -> HostBuffer:
        """`size` bytes, pinned if possible."""
        return self.pin(size) or HostBuffer(np.empty(size, np.uint8))

    def pin(self, size: int) -> HostBuffer | None:
        if self.used + size > self.cap:
            return None
        try:
            address = self._card.make("cuMemHostAlloc", max(1, size), 0)
        except LaunchError:
            return None
        self.used += size
        memory = (ctypes.c_uint8 * size).from_address(address)
        return HostBuffer(np.ctypeslib.as_array(memory), address)

    def free(self, buffer: HostBuffer) -> None:
        """Nobody may look at it afterwards."""
        if buffer.address:
            self._card.call("cuMemFreeHost", buffer.address)
            self.used -= len(buffer.bytes)
            buffer.address = 0


@dataclass(eq=False)
class Copies:
    """Copies that are done when a call returns; one at a time, on the stream for weights."""

    card: Card
    pinned: PinnedMemory
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _buffers: list[HostBuffer] | None = None  # empty: nothing could be pinned

    def __post_init__(self) -> None:
        self.card.on_rest.append(self.close)

    @property
    def is_pinned(self) -> bool:
        return bool(self._buffers)

    def upload(self, to: int, source: Bytes) -> None:
        with self._lock:
            buffers, stream = self._ready(), self.card.streams["weights"]
            if not buffers:
                self._copy(to, source.ctypes.data, len(source))
                self.card.synchronize("weights")
                return
            size, busy = len(buffers[0].bytes), [0] * len(buffers)
            try:
                for number, begin in enumerate(range(0, len(source), size)):
                    turn, part = number % len(buffers), source[begin : begin + size]
                    if busy[turn]:
                        self.card.call("cuEventSynchronize", busy[turn])
                    buffers[turn].bytes[: len(part)] = part
                    self._copy(to + begin, buffers[turn].address, len(part))
                    busy[turn] = busy[turn] or self.card.make("cuEventCreate", 2)  # CU_EVENT_DISABLE_TIMING
                    self.card.call("cuEventRecord", busy[turn], stream)
                self.card.synchronize("weights")
            finally:
                for event in filter(None, busy):
                    self.card.call("cuEventDestroy_v2", event)

    def download(self, target: Bytes, source: int) -> None:
        with self._lock:
            buffers = self._ready()
            if not buffers:
                self._copy(target.ctypes.data, source, len(target))
                self.card.synchronize("weights")
                return
            size = len(buffers[0].bytes)
            for begin in range(0, len(target), size):
                part = target[begin : begin + size]
                self._copy(buffers[0].address, source + begin, len(part))
                self.card.synchronize("weights")
                part[:] = buffers[0].bytes[: len(part)]

    def move(self, to: int, source: int, size: int) -> None:
        """Within the card, in order with what computes there."""
        self.card.call("cuMemcpyAsync", to, source, size, self.card.streams["compute"])

    def close(self) -> None:
        for buffer in self._buffers or ():
            self.pinned.free(buffer)
        self._buffers = None

    def _copy(self, to: int, source: int, size: int) -> None:
        if size:
            self.card.call("cuMemcpyAsync", to, source, size, self.card.streams["weights"])

    def _ready(self) -> list[HostBuffer]:
        if self._buffers is None:
            self._buffers = next(filter(None, map(self._pin, _BUFFER_SIZES)), [])
        return self._buffers

    def _pin(self, size: int) -> list[HostBuffer]:
        """All of one size, or none."""
        buffers = [buffer for buffer in (self.pinned.pin(size) for _ in range(_BUFFERS)) if buffer is not None]
        if len(buffers) < _BUFFERS:
            for buffer in buffers:
                self.pinned.free(buffer)
            return []
        return buffers
