"""CudaMemory: regions in one range of addresses, backed by chunks of memory that the driver maps and takes back.

Regions lie side by side; a chunk (2 MiB on today's cards) is there as long as any region reaches into it. So small
regions waste nothing, a table of expert slots grows in place, and what is given up goes back to the driver.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from engine.errors import OutOfMemoryError
from engine.memory.first_fit import FirstFit
from engine.runtime.devices.cuda.card import Card
from engine.runtime.devices.cuda.copies import Copies
from engine.runtime.devices.memory import Bytes, DeviceMemory, DeviceMemoryError, Region
from kernels.cuda.driver import Driver
from kernels.cuda.kernel_set import ContextLostError, LaunchError

# Addresses reserved at once, the most that the system gives: they cost nothing, and a region takes its largest size.
_ADDRESSES = (1 << 40, 1 << 38, 1 << 36)
_UNIT = 256  # alignment of regions: what cuMemAlloc promises
_PINNED, _ON_DEVICE, _READ_WRITE = 1, 1, 3  # CU_MEM_ALLOCATION_TYPE_, CU_MEM_LOCATION_TYPE_, CU_MEM_ACCESS_FLAGS_PROT_


class _AllocationProp(ctypes.Structure):
    """CUmemAllocationProp of cuda.h."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location_type", ctypes.c_int),
        ("location_id", ctypes.c_int),
        ("win32_metadata", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _AccessDesc(ctypes.Structure):
    """CUmemAccessDesc of cuda.h."""

    _fields_ = (("location_type", ctypes.c_int), ("location_id", ctypes.c_int), ("flags", ctypes.c_int))


@dataclass(frozen=True, slots=True)
class DeviceBuffer:
    """Bytes in a card's memory, as programs of the card take them."""

    address: int
    size: int
    region: CudaRegion  # that it is a part of

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        facts = {"shape": (self.size,), "typestr": "|u1", "strides": None, "version": 3}
        return {**facts, "data": (self.address, False)}


@dataclass(slots=True)
class _Chunk:
    handle: int
    users: int


class CudaRegion(Region):
    """Has the face of a region in RAM, but that nobody can look into it; `view` names bytes for the card's programs."""

    def __init__(self, memory: CudaMemory, begin: int, capacity: int, purpose: str) -> None:
        self.purpose = purpose
        self.capacity = capacity
        self.size = self.charged = 0
        self.begin = begin
        self.space = FirstFit(max(_UNIT, memory.granules(capacity)), _UNIT)  # where programs share a region
        self._cuda = memory

    @property
    def address(self) -> int:
        return self._cuda.base + self.begin

    def resize(self, size: int) -> None:
        if not 0 <= size <= self.capacity:
            raise ValueError(f"{size} bytes do not fit a region of {self.capacity}")
        self._cuda.resize(self, size)
        self.size, self.charged = size, self._cuda.granules(size)

    def view(self, begin: int = 0, end: int | None = None) -> Any:
        end = self.size if end is None else end
        if not 0 <= begin <= end <= self.size:
            raise ValueError(f"bytes {begin}..{end} are outside the {self.size} of {self.purpose}")
        return DeviceBuffer(self.address + begin, end - begin, self)

    def write(self, begin: int, source: Bytes) -> None:
        self._cuda.copies.upload(self.view(begin, begin + len(source)).address, source)

    def read(self, begin: int, target: Bytes) -> None:
        self._cuda.copies.download(target, self.view(begin, begin + len(target)).address)

    def copy(self, source: int, target: int, size: int) -> None:
        self._cuda.copies.move(self.view(target, target + size).address, self.view(source, source + size).address, size)

    def release(self) -> None:
        self.resize(0)

    def __del__(self) -> None:
        if self.size == 0:
            self._cuda.forget(self)


class CudaMemory(DeviceMemory):
    """`used` is what the driver charges: the context while anything is there, whole chunks, and compiled kernels."""

    def __init__(self, card: Card, copies: Copies, limit: int) -> None:
        super().__init__(limit, _UNIT)
        self.card = card
        self.copies = copies
        self.base = 0
        self._reserved = 0
        self._space = FirstFit(_ADDRESSES[0], _UNIT)
        self._chunks: dict[int, _Chunk] = {}
        self._kernel_bytes = 0
        self._prop = _AllocationProp(_PINNED, 0, _ON_DEVICE, card.index)
        self._access = _AccessDesc(_ON_DEVICE, card.index, _READ_WRITE)
        self.chunk_bytes = _granularity(card.driver, self._prop)

    def reserve(self, capacity: int, purpose: str) -> Region:
        begin = self._space.allocate(capacity)
        if begin is None:
            raise DeviceMemoryError(f"{purpose}: no addresses are left on the card.", done="Nothing was changed.")
        return CudaRegion(self, begin, capacity, purpose)

    def forget(self, region: CudaRegion) -> None:
        """Its addresses may be used again."""
        self._space.free(region.begin)

    def resize(self, region: CudaRegion, size: int) -> None:
        """Maps or gives back what the region reaches into from now on. DeviceMemoryError, with nothing changed."""
        before, after = self._reached(region.begin, region.size), self._reached(region.begin, size)
        new = [number for number in after if number not in before]
        old = [number for number in before if number not in after]
        missing = [number for number in new if number not in self._chunks]
        self._map(missing, region.purpose)
        for number in new:
            self._chunks[number].users += 1
        for number in old:
            self._chunks[number].users -= 1
        self._give_back([number for number in old if self._chunks[number].users == 0])

    def load_kernels(self, load: Callable[[], None]) -> None:
        """Does `load`, and counts what the driver takes for it. DeviceMemoryError where the limit is passed."""
        before = self.card.free_now()
        load()
        taken = max(0, before - self.card.free_now())
        if taken:
            self.charge(taken, "Compiled kernels")
            self._kernel_bytes += taken

    def _reached(self, begin: int, size: int) -> range:
        chunk = self.chunk_bytes
        return range(begin // chunk, -(-(begin + size) // chunk)) if size else range(0)

    def _map(self, numbers: list[int], purpose: str) -> None:
        if not numbers:
            return
        done: list[int] = []
        self._wake(purpose)
        try:
            if (numbers[-1] + 1) * self.chunk_bytes > self._reserved:
                raise DeviceMemoryError(f"{purpose}: no addresses are left on the card.", done="Nothing was changed.")
            self.charge(len(numbers) * self.chunk_bytes, purpose)
            try:
                for number in numbers:
                    self._chunks[number] = _Chunk(self._map_chunk(number), 0)
                    done.append(number)
            except LaunchError as error:
                self.charge(-(len(numbers) - len(done)) * self.chunk_bytes, purpose)
                raise DeviceMemoryError(
                    f"The driver gave no memory for {purpose}: {error}.",
                    done="Nothing was changed.",
                    remedy="Close other programs that use the GPU, or allow less memory.",
                ) from error
        except OutOfMemoryError:
            self._give_back(done)
            raise

    def _map_chunk(self, number: int) -> int:
        card, size = self.card, self.chunk_bytes
        handle = card.make("cuMemCreate", size, ctypes.byref(self._prop), 0)
        address = self.base + number * size
        try:
            card.call("cuMemMap", address, size, 0, handle, 0)
            try:
                card.call("cuMemSetAccess", address, size, ctypes.byref(self._access), 1)
            except LaunchError:
                card.call("cuMemUnmap", address, size)
                raise
        except LaunchError:
            card.call("cuMemRelease", handle)
            raise
        return handle

    def _give_back(self, numbers: list[int]) -> None:
        if numbers:
            with suppress(ContextLostError):  # else copies within the card may still read there
                self.card.synchronize("compute")
        for number in numbers:
            self.card.call("cuMemUnmap", self.base + number * self.chunk_bytes, self.chunk_bytes)
            self.card.call("cuMemRelease", self._chunks.pop(number).handle)
            self.charge(-self.chunk_bytes, "")
        if not self._chunks:
            self._rest()

    def _wake(self, purpose: str) -> None:
        if self.card.is_awake:
            return
        self.charge(self.card.context_bytes, "The CUDA context")
        try:
            self.card.wake()
            self._reserve_addresses()
        except LaunchError as error:
            self.card.rest()
            self.charge(-self.card.context_bytes, "")
            raise DeviceMemoryError(f"The GPU could not be opened for {purpose}: {error}.") from error

    def _reserve_addresses(self) -> None:
        for size in _ADDRESSES:
            try:
                self.base, self._reserved = self.card.make("cuMemAddressReserve", size, 0, 0, 0), size
                return
            except LaunchError:
                if size == _ADDRESSES[-1]:
                    raise

    def _rest(self) -> None:
        if not self.card.is_awake:
            return
        self.card.call("cuMemAddressFree", self.base, self._reserved)
        self.card.rest()
        self.charge(-self.card.context_bytes - self._kernel_bytes, "")
        self._kernel_bytes = 0


def _granularity(driver: Driver, prop: _AllocationProp) -> int:
    size = ctypes.c_size_t()
    driver.call("cuMemGetAllocationGranularity", ctypes.byref(size), ctypes.byref(prop), 0)
    return size.value
