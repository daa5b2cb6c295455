"""Where the CUDA kernels' tests run: on the host's fibers in a given thread order, or on a GPU."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernels.cuda.driver import DriverKernels, driver
from kernels.cuda.host import HostKernels
from kernels.cuda.operations import Operations

ORDERS = {"ascending": 0, "descending": 1, "random": 12345}
Array = NDArray[Any]


class Machine(Protocol):
    operations: Operations

    def put(self, values: ArrayLike, dtype: Any = None) -> int:
        """A copy on the device; its address. Lives as long as the machine."""

    def get(self, address: int) -> Array:
        """What the array at this address holds now, in the shape it was put."""


class HostMachine:
    """Arrays begin on 16 bytes and end where their allocation ends, so that AddressSanitizer guards the end."""

    def __init__(self, order: int, library: Path | None = None) -> None:
        self.operations = Operations(HostKernels(library, order))
        self._arrays: dict[int, Array] = {}

    def put(self, values: ArrayLike, dtype: Any = None) -> int:
        array = np.ascontiguousarray(values, dtype)
        copy = np.empty(array.nbytes, np.uint8).view(array.dtype).reshape(array.shape)
        copy[...] = array
        assert copy.ctypes.data % 16 == 0
        self._arrays[copy.ctypes.data] = copy
        return copy.ctypes.data

    def get(self, address: int) -> Array:
        return self._arrays[address]


class DeviceMachine:
    def __init__(self, cache: Path) -> None:
        self._driver = driver()
        self._driver.retain_primary_context()
        self._library = self._driver.library
        self.operations = Operations(DriverKernels(self._driver, cache))
        self._arrays: dict[int, Array] = {}

    def put(self, values: ArrayLike, dtype: Any = None) -> int:
        array, address = np.ascontiguousarray(values, dtype), ctypes.c_uint64()
        self._driver.check(self._library.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(array.nbytes, 1))))
        source = ctypes.c_void_p(array.ctypes.data)
        self._driver.check(self._library.cuMemcpyHtoD_v2(address, source, ctypes.c_size_t(array.nbytes)))
        self._arrays[address.value] = array
        return address.value

    def get(self, address: int) -> Array:
        out = np.empty_like(self._arrays[address])
        size, to = ctypes.c_size_t(out.nbytes), ctypes.c_void_p(out.ctypes.data)
        self._driver.check(self._library.cuMemcpyDtoH_v2(to, ctypes.c_uint64(address), size))
        return out

    def close(self) -> None:
        for address in self._arrays:
            self._driver.check(self._library.cuMemFree_v2(ctypes.c_uint64(address)))
