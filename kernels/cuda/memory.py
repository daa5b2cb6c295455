"""Memory of the device that a kernel set works on."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.driver import Driver

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


class DriverMemory:
    """For DriverKernels. Copies wait for `stream`, so that they come between the launches before and after them; not
    for use while that stream is captured."""

    def __init__(self, driver: Driver, stream: int = 0) -> None:
        self._driver, self._library, self._stream = driver, driver.library, ctypes.c_void_p(stream)

    def allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self._driver.check(self._library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(1, size))), "memory")
        return address.value

    def free(self, address: int) -> None:
        self._synchronize()
        self._driver.check(self._library.cuMemFree_v2(ctypes.c_uint64(address)))

    def put(self, array: Array) -> int:
        address = self.allocate(array.nbytes)
        self.set(address, array)
        return address

    def set(self, address: int, array: Array) -> None:
        self._synchronize()
        array = np.ascontiguousarray(array)
        source, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
        self._driver.check(self._library.cuMemcpyHtoD_v2(ctypes.c_uint64(address), source, size))

    def get(self, address: int, shape: tuple[int, ...], dtype: Any) -> Array:
        self._synchronize()
        array: Array = np.empty(shape, dtype)
        to, size = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
        self._driver.check(self._library.cuMemcpyDtoH_v2(to, ctypes.c_uint64(address), size))
        return array

    def borrow(self, buffer: Buffer, offset: int, size: int) -> tuple[int, object]:
        """`buffer` has a __cuda_array_interface__, as torch's tensors do."""
        facts = cast(Any, buffer).__cuda_array_interface__
        if facts.get("strides") is not None:
            raise ValueError("the array is not contiguous")
        held = int(np.prod(facts["shape"])) * np.dtype(facts["typestr"]).itemsize
        if offset < 0 or offset + size > held:
            raise ValueError(f"{size} bytes from {offset} do not fit an array of {held}")
        return int(facts["data"][0]) + offset, buffer

    def _synchronize(self) -> None:
        self._driver.check(self._library.cuStreamSynchronize(self._stream))
