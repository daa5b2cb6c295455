"""The emulated device: a GPU's memory, streams and link without a GPU.

Everything above the driver runs on it as on a card: weights and caches are copied into memory of its own, whose limit
refuses; streams are ordered queues on threads; copies take as long as a link of the set bandwidth and latency. It
computes with the CPU's kernels ("fast": whole models), or with the CUDA source on fibers ("exact": tiny ones).
"""

from __future__ import annotations

import time
from typing import Literal, cast

from engine.runtime.devices.device import LinkRates
from engine.runtime.devices.memory import DeviceMemory
from engine.runtime.devices.streams import Clock, Stream, VirtualClock, WallClock
from kernels._cpu import Program, ThreadPool

_SHORTEST_SLEEP = 1e-4  # shorter waits are saved up, because sleeping has a cost of its own


class EmulatedDevice:
    """`limit` bytes of memory; computes with `threads` threads."""

    name = "emulated"

    def __init__(
        self,
        limit: int,
        *,
        threads: int = 1,
        link: LinkRates | None = None,
        clock: Clock | None = None,
        granularity: int = 64 << 10,
        kernels: Literal["fast", "exact"] = "fast",
    ) -> None:
        self.kernels = kernels
        self.label = f"emulated ({kernels} kernels)"
        self.memory = DeviceMemory(limit, granularity)
        self.link = link or LinkRates()
        self.clock: Clock = clock or WallClock()
        self.pool = ThreadPool(threads)
        self.compute = Stream("compute", self.clock)
        self.activations = Stream("activations", self.clock)
        self.weights = Stream("weights", self.clock)
        self._owed: dict[str, float] = {}

    def new_program(self, tier: str) -> Program:
        if self.kernels == "fast":
            return Program(tier)
        from kernels.cuda.host import host_kernels  # a library of its own, which only kernel tests and this need
        from kernels.cuda.memory import HostMemory
        from kernels.cuda.program import CudaProgram

        return cast(Program, CudaProgram(host_kernels(), HostMemory()))

    def hold_link(self, stream: str, size: int, elapsed: float) -> None:
        """Waits for as long as the link would still take."""
        if isinstance(self.clock, VirtualClock):
            return
        owed = self._owed.get(stream, 0.0) + self.link.seconds(size) - elapsed
        if owed > _SHORTEST_SLEEP:
            before = time.perf_counter()
            time.sleep(owed)
            owed -= time.perf_counter() - before
        self._owed[stream] = max(owed, -_SHORTEST_SLEEP)

    def close(self) -> None:
        for stream in (self.compute, self.activations, self.weights):
            stream.close()
