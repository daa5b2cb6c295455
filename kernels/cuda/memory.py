"""Memory of the device that a kernel set works on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kernels._cpu import Buffer

Array = NDArray[Any]


class Memory(Protocol):
    def allocate(self, size: int) -> int:
        """`size` bytes, 64-byte aligned; their address."""
        ...

    def free(self, address: int) -> None: ...

    def put(self, array: Array) -> int:
        """A new allocation that holds a copy of the array."""
        ...

    def set(self, address: int, array: Array) -> None: ...

    def get(self, address: int, shape: tuple[int, ...], dtype: Any) -> Array:
        """A copy of what is there."""
        ...

    def borrow(self, buffer: Buffer, offset: int, size: int) -> tuple[int, object]:
        """The device address of a buffer that the engine gave out, `offset` bytes on, and what keeps it alive.
        ValueError when fewer than `size` bytes follow."""
        ...


class HostMemory:
    """For HostKernels: the device's memory is the host's. Fresh memory is 0xff, so that values nobody wrote are NaN."""

    def __init__(self) -> None:
        self._arrays: dict[int, Array] = {}

    def allocate(self, size: int) -> int:
        memory = np.full(size + 64, 0xFF, np.uint8)
        address = -(-memory.ctypes.data // 64) * 64
        self._arrays[address] = memory
        return address

    def free(self, address: int) -> None:
        del self._arrays[address]

    def put(self, array: Array) -> int:
        address = self.allocate(array.nbytes)
        self.set(address, array)
        return address

    def set(self, address: int, array: Array) -> None:
        memory = self._arrays[address]
        begin = address - memory.ctypes.data
        memory[begin : begin + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def get(self, address: int, shape: tuple[int, ...], dtype: Any) -> Array:
        memory = self._arrays[address]
        begin, size = address - memory.ctypes.data, int(np.prod(shape)) * np.dtype(dtype).itemsize
        found: Array = memory[begin : begin + size].view(dtype).reshape(shape).copy()
        return found

    def borrow(self, buffer: Buffer, offset: int, size: int) -> tuple[int, object]:
        owner = np.frombuffer(cast("bytes", buffer), np.uint8)
        if offset < 0 or offset + size > owner.size:
            raise ValueError(f"{size} bytes from {offset} do not fit a buffer of {owner.size}")
        return owner.ctypes.data + offset, owner
