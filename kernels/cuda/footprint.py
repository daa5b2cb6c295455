"""What a run of a program would take: found by running it with memory that only counts and kernels that do nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.kernel_set import Dim
from kernels.cuda.memory import Array
from kernels.cuda.source import Argument

if TYPE_CHECKING:
    from kernels._cpu import Buffer

_ALIGNMENT = 256


@dataclass(frozen=True, slots=True)
class Footprint:
    """Most bytes of device memory at any time, weights and caches apart; and the kernels that are launched."""

    bytes: int
    kernels: frozenset[str]


@dataclass
class NoKernels:
    """A KernelSet that remembers what was asked for."""

    names: set[str] = field(default_factory=set)

    def launch(
        self, name: str, grid: Dim, block: Dim, args: Sequence[Argument], shared: int = 0, stream: int = 0
    ) -> None:
        self.names.add(name)


class CountingMemory:
    """A Memory of addresses with nothing behind them."""

    def __init__(self) -> None:
        self.peak = 0
        self._used = 0
        self._next = _ALIGNMENT
        self._sizes: dict[int, int] = {}

    def allocate(self, size: int) -> int:
        address, size = self._next, -(-max(1, size) // _ALIGNMENT) * _ALIGNMENT
        self._next += size
        self._sizes[address] = size
        self._used += size
        self.peak = max(self.peak, self._used)
        return address

    def free(self, address: int) -> None:
        self._used -= self._sizes.pop(address)

    def put(self, array: Array) -> int:
        return self.allocate(array.nbytes)

    def set(self, address: int, array: Array) -> None:
        """Nothing is there."""

    def send(self, address: int, array: Array) -> None:
        """Nothing is there."""

    def host_array(self, count: int) -> NDArray[np.int64]:
        raise NotImplementedError("nothing is sent")

    def free_host_array(self, array: NDArray[np.int64]) -> None:
        """There is none."""

    def get(self, address: int, shape: tuple[int, ...], dtype: Any) -> Array:
        raise NotImplementedError("nothing was computed")

    def move(self, to: int, source: int, size: int) -> None:
        """Nothing is there."""

    def borrow(self, buffer: Buffer, offset: int, size: int) -> tuple[int, object]:
        return _ALIGNMENT, buffer
