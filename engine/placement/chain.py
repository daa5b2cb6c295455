"""The knapsack over items in graph order: which go to the GPU, when a change of device costs time.

A step visits the items one after another, so its time is the sum of their times and of the switches between them.
`DeviceChain` solves it for every capacity at once: best[device][c] is the least time of the items so far when the
GPU holds at most c units and the last one ran on `device`. More capacity is never slower, by construction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_UNITS = 8_000
_MIN_UNIT = 64 * 1024

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]


class DeviceChain:
    """`cpu[i]`, `gpu[i]`: seconds of item i; `sizes[i]`: its GPU bytes; `pinned[i]`: it must stay on the CPU.

    Sizes are rounded up to units of about 1/8,000 of their sum. The step begins and ends on the CPU (the token is
    embedded and sampled there).
    """

    def __init__(
        self,
        cpu: Sequence[float],
        gpu: Sequence[float],
        sizes: Sequence[int],
        pinned: Sequence[bool],
        switch: float,
    ) -> None:
        free = [size for size, pin in zip(sizes, pinned, strict=True) if not pin]
        self.total_bytes = sum(free)
        self._unit = max(_MIN_UNIT, -(-self.total_bytes // _UNITS))
        self._units = [-(-size // self._unit) for size in sizes]
        self._capacity = sum(u for u, pin in zip(self._units, pinned, strict=True) if not pin)
        self._from_gpu_to_cpu: list[BoolArray] = []  # item on CPU: came its predecessor from the GPU?
        self._from_gpu_to_gpu: list[BoolArray] = []
        self._best = self._solve(cpu, gpu, pinned, switch)

    @property
    def all_bytes(self) -> int:
        """A capacity at which everything may lie on the GPU."""
        return self._capacity * self._unit

    def seconds(self, capacity: int) -> float:
        return float(self._best[self._clamp(capacity)])

    def on_gpu(self, capacity: int) -> tuple[bool, ...]:
        """The best choice for a capacity in bytes."""
        at = self._clamp(capacity)
        on_gpu = bool(self._ends_on_gpu[at])
        choice = []
        for index in range(len(self._units) - 1, -1, -1):
            choice.append(on_gpu)
            if on_gpu:
                at -= self._units[index]
                on_gpu = bool(self._from_gpu_to_gpu[index][at])
            else:
                on_gpu = bool(self._from_gpu_to_cpu[index][at])
        return tuple(reversed(choice))

    def _clamp(self, capacity: int) -> int:
        return min(max(0, capacity) // self._unit, self._capacity)

    def _solve(self, cpu: Sequence[float], gpu: Sequence[float], pinned: Sequence[bool], switch: float) -> FloatArray:
        on_cpu = np.zeros(self._capacity + 1)
        on_gpu = np.full(self._capacity + 1, np.inf)
        for seconds_cpu, seconds_gpu, units, pin in zip(cpu, gpu, self._units, pinned, strict=True):
            back = on_gpu + switch
            self._from_gpu_to_cpu.append(back < on_cpu)
            over = on_cpu + switch
            self._from_gpu_to_gpu.append(on_gpu < over)
            next_cpu = np.minimum(back, on_cpu) + seconds_cpu
            reached = np.minimum(on_gpu, over) + seconds_gpu
            on_gpu = np.full(self._capacity + 1, np.inf)
            if not pin and units <= self._capacity:
                on_gpu[units:] = reached[: self._capacity + 1 - units]
            on_cpu = next_cpu
        home = on_gpu + switch
        self._ends_on_gpu: BoolArray = home < on_cpu
        return np.minimum(home, on_cpu)
