"""DeviceMemory: a device's own memory with a limit that refuses, handed out as regions that can grow and shrink.

A region reserves address space for the most it may ever hold and takes memory in whole granules as it grows, as the
drivers' virtual memory interfaces do. So a table of expert slots grows in place, and what is given up goes back to the
driver at once. Weights, expert slots, caches and staging all live in regions; `used` is what counts against a budget.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from engine.errors import OutOfMemoryError
from engine.memory.available import format_bytes

Bytes = npt.NDArray[np.uint8]


class DeviceMemoryError(OutOfMemoryError):
    """The device, or the limit that was set for it, has too little memory left. Nothing was allocated."""


class Region:
    """Up to `capacity` bytes at one address, of which the first `size` are there. Made by `DeviceMemory.reserve`."""

    def __init__(self, memory: DeviceMemory, capacity: int, purpose: str) -> None:
        self.purpose = purpose
        self.capacity = capacity
        self.size = 0
        self.charged = 0  # whole granules
        self._memory = memory
        try:
            self._map = _map_anonymous(max(1, memory.granules(capacity)))
        except (OSError, OverflowError, ValueError) as error:
            raise DeviceMemoryError(
                f"{format_bytes(capacity)} of addresses for {purpose} could not be reserved.",
                done="Nothing was changed.",
                remedy="Choose a smaller GPU budget.",
            ) from error
        self._bytes: Bytes = np.frombuffer(self._map, np.uint8)

    def resize(self, size: int) -> None:
        """Grows or shrinks in place; what stays is kept. DeviceMemoryError, with nothing changed, at the limit."""
        if not 0 <= size <= self.capacity:
            raise ValueError(f"{size} bytes do not fit a region of {self.capacity}")
        charged = self._memory.granules(size)
        self._memory.charge(charged - self.charged, self.purpose)
        if charged < self.charged:
            self._discard(charged, self.charged)
        self.size, self.charged = size, charged

    def view(self, begin: int = 0, end: int | None = None) -> Bytes:
        """Bytes begin … end, which must be there; for programs of this device."""
        end = self.size if end is None else end
        if not 0 <= begin <= end <= self.size:
            raise ValueError(f"bytes {begin}..{end} are outside the {self.size} of {self.purpose}")
        return self._bytes[begin:end]

    def write(self, begin: int, source: Bytes) -> None:
        self.view(begin, begin + len(source))[:] = source

    def read(self, begin: int, target: Bytes) -> None:
        target[:] = self.view(begin, begin + len(target))

    def copy(self, source: int, target: int, size: int) -> None:
        """`size` bytes from one place in the region to another; the two do not overlap."""
        self.view(target, target + size)[:] = self.view(source, source + size)

    def release(self) -> None:
        self.resize(0)

    def _discard(self, begin: int, end: int) -> None:
        """Gives pages back to the system; whoever still looks at them sees zeros."""
        if hasattr(self._map, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
            begin = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
            if end > begin:
                self._map.madvise(mmap.MADV_DONTNEED, begin, end - begin)


class DeviceMemory:
    """At most `limit` bytes at once, in granules of `granularity`. `on_charge` is asked before anything is taken, and
    may raise DeviceMemoryError as a driver may."""

    def __init__(self, limit: int, granularity: int = 64 << 10) -> None:
        self.limit = limit
        self.granularity = granularity
        self.used = 0
        self.peak = 0
        self.on_charge: Callable[[int, str], None] = lambda _bytes, _purpose: None

    def reserve(self, capacity: int, purpose: str) -> Region:
        """A region that holds nothing yet and costs nothing."""
        return Region(self, capacity, purpose)

    def allocate(self, size: int, purpose: str) -> Region:
        """A region of `size` bytes. DeviceMemoryError when that is too much."""
        region = self.reserve(size, purpose)
        region.resize(size)
        return region

    def granules(self, size: int) -> int:
        """`size` rounded up to whole granules."""
        return -(-size // self.granularity) * self.granularity

    def charge(self, change: int, purpose: str) -> None:
        """Counts `change` bytes more, or less, as in use."""
        if change > 0:
            self.on_charge(change, purpose)
            if self.used + change > self.limit:
                raise DeviceMemoryError(
                    f"{purpose} needs {format_bytes(change)} of device memory, and {format_bytes(self.free)} of "
                    f"{format_bytes(self.limit)} are left.",
                    done="Nothing was changed.",
                    remedy="Allow more memory, or choose a shorter context.",
                )
        self.used += change
        self.peak = max(self.peak, self.used)

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)


def _map_anonymous(size: int) -> mmap.mmap:
    """Private where systems tell it apart: of shared memory, discarded pages would stay allocated."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)
