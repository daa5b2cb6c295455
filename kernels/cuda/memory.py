"""Memory of the device that a kernel set works on."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
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

    def send(self, address: int, array: Array) -> None:
        """As `set`, in order with the launches before and after it, and not waited for: until then the array, which is
        contiguous, stays as it is."""
        ...

    def host_array(self, count: int) -> NDArray[np.int64]:
        """Zeros in the host's memory, from which `send` is fast, until `free_host_array`."""
        ...

    def free_host_array(self, array: NDArray[np.int64]) -> None: ...

    def get(self, address: int, shape: tuple[int, ...], dtype: Any) -> Array:
        """A copy of what is there."""
        ...

    def move(self, to: int, source: int, size: int) -> None:
        """A copy between two addresses, in order with the launches before and after it."""
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

    def send(self, address: int, array: Array) -> None:
        self.set(address, array)

    def host_array(self, count: int) -> NDArray[np.int64]:
        return np.zeros(count, np.int64)

    def free_host_array(self, array: NDArray[np.int64]) -> None:
        """Whoever has it holds it."""

    def get(self, address: int, shape: tuple[int, ...], dtype: Any) -> Array:
        memory = self._arrays[address]
        begin, size = address - memory.ctypes.data, int(np.prod(shape)) * np.dtype(dtype).itemsize
        found: Array = memory[begin : begin + size].view(dtype).reshape(shape).copy()
        return found

    def move(self, to: int, source: int, size: int) -> None:
        ctypes.memmove(to, source, size)

    def borrow(self, buffer: Buffer, offset: int, size: int) -> tuple[int, object]:
        owner = np.frombuffer(cast("bytes", buffer), np.uint8)
        if offset < 0 or offset + size > owner.size:
            raise ValueError(f"{size} bytes from {offset} do not fit a buffer of {owner.size}")
        return owner.ctypes.data + offset, owner


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRows:
    """Rows that lie in a device's memory, as numpy's arrays do in the host's."""

    memory: Memory
    address: int
    shape: tuple[int, int]
    dtype: type

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        return 4 * self.shape[0] * self.shape[1]

    def copy(self) -> Array:
        """What they hold now, in the host's memory."""
        return self.memory.get(self.address, self.shape, self.dtype)


class DriverMemory:
    """For DriverKernels. Copies are made on `stream`, so that they come between the launches before and after them, and
    those of `set` and `get` are done when a call returns; not for use while that stream is captured."""

    def __init__(self, driver: Driver, stream: int = 0) -> None:
        self._driver, self._stream = driver, stream

    def allocate(self, size: int) -> int:
        return self._driver.make("cuMemAlloc_v2", max(1, size))

    def free(self, address: int) -> None:
        self._driver.call("cuStreamSynchronize", self._stream)
        self._driver.call("cuMemFree_v2", address)

    def put(self, array: Array) -> int:
        address = self.allocate(array.nbytes)
        self.set(address, array)
        return address

    def set(self, address: int, array: Array) -> None:
        array = np.ascontiguousarray(array)
        self._copy(address, array.ctypes.data, array.nbytes)

    def send(self, address: int, array: Array) -> None:
        self.move(address, array.ctypes.data, array.nbytes)

    def host_array(self, count: int) -> NDArray[np.int64]:
        return np.zeros(count, np.int64)

    def free_host_array(self, array: NDArray[np.int64]) -> None:
        """Whoever has it holds it."""

    def get(self, address: int, shape: tuple[int, ...], dtype: Any) -> Array:
        array: Array = np.empty(shape, dtype)
        self._copy(array.ctypes.data, address, array.nbytes)
        return array

    def move(self, to: int, source: int, size: int) -> None:
        self._driver.call("cuMemcpyAsync", to, source, size, self._stream)

    def borrow(self, buffer: Buffer, offset: int, size: int) -> tuple[int, object]:
        """`buffer` has a __cuda_array_interface__, as torch's tensors do."""
        facts = cast(Any, buffer).__cuda_array_interface__
        if facts.get("strides") is not None:
            raise ValueError("the array is not contiguous")
        held = int(np.prod(facts["shape"])) * np.dtype(facts["typestr"]).itemsize
        if offset < 0 or offset + size > held:
            raise ValueError(f"{size} bytes from {offset} do not fit an array of {held}")
        return int(facts["data"][0]) + offset, buffer

    def _copy(self, to: int, source: int, size: int) -> None:
        if size:
            self.move(to, source, size)
            self._driver.call("cuStreamSynchronize", self._stream)
