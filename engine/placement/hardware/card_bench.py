"""Timing on a card: launches captured into a graph between two events, in memory that is there for the bench alone."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import numpy as np

from engine.runtime.devices.cuda.device import CudaDevice
from engine.runtime.devices.cuda.memory import CudaRegion
from engine.runtime.devices.cuda.timing import Mark, Timing
from kernels.cuda.kernel_set import LaunchError
from kernels.cuda.operations import Operations
from kernels.cuda.program import CudaProgram

_SECONDS_PER_WORK, _LEAST_RUNS = 0.004, 3
_THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
_MARK = Mark("GPU", "compute", "probe")
_NOISE_BYTES = 1 << 20


class TimeIsUpError(Exception):
    """Nothing is begun any more."""


class CardBench:
    """Takes `pool_bytes` for what is read, and up to `workspace_bytes` for values; `close` gives all of it back.
    LaunchError and OutOfMemoryError where the card refuses something, ValueError where its clock makes no sense.
    TimeIsUpError from the moment `until` (of time.monotonic) on: what runs then is the last."""

    def __init__(self, device: CudaDevice, pool_bytes: int, workspace_bytes: int, until: float = math.inf) -> None:
        self.device, self.card, self._until = device, device.card, until
        self.pool = cast(CudaRegion, device.memory.reserve(pool_bytes, "The probe"))
        self._workspace = cast(CudaRegion, device.memory.reserve(workspace_bytes, "The probe"))
        try:
            self.pool.resize(pool_bytes)
            self._workspace.resize(workspace_bytes)  # nothing is mapped while launches are captured
            self._fill()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Where the driver has failed, it may refuse even this: its memory goes with the context then."""
        for region in (self.pool, self._workspace):
            with suppress(LaunchError):
                region.release()

    @property
    def stream(self) -> int:
        return self.card.streams["compute"]

    @property
    def scratch(self) -> int:
        """The workspace's address, where no program is in it."""
        return self._workspace.address

    @property
    def operations(self) -> Operations:
        return Operations(self.device.kernels, self.stream)

    def new_program(self) -> CudaProgram:
        """To be closed before the next is made."""
        return cast(CudaProgram, self.device.new_program("auto", self._workspace))

    def move_half(self) -> None:
        """One half of the pool is copied over the other."""
        half = self.half_bytes
        self.card.call("cuMemcpyAsync", self.pool.address + half, self.pool.address, half, self.stream)

    @property
    def half_bytes(self) -> int:
        return self.pool.size // 2

    def warm_up(self, seconds: float) -> None:
        """Keeps the card busy for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.move_half()
            self.card.synchronize("compute")

    def seconds(self, emit: Callable[[], None], before: Callable[[], None] = lambda: None) -> float:
        """What the card takes, as in a captured step, for all that `emit` puts on its streams, beginning and ending
        with the compute stream: the fastest of several runs. `before`: called before each."""
        self._check_time()
        before()
        self.card.enter()
        emit()  # once as it comes: kernels are loaded, memory is taken
        self.card.synchronize("compute")
        timing, graph, executable = Timing(self.card), 0, 0
        try:
            graph = self._capture(emit, timing)
            executable = self.card.make("cuGraphInstantiateWithFlags", graph, 0)
            return self._fastest(lambda: self.card.call("cuGraphLaunch", executable, self.stream), timing, before)
        finally:
            timing.close()
            if executable:
                self.card.call("cuGraphExecDestroy", executable)
            if graph:
                self.card.call("cuGraphDestroy", graph)

    def seconds_uncaptured(self, emit: Callable[[], None]) -> float:
        """The same for what cannot be captured, with the time that the driver takes for each call."""
        timing = Timing(self.card)

        def launch() -> None:
            timing.record_start(self.stream)
            with timing.around(_MARK, self.stream):
                emit()

        try:
            return self._fastest(launch, timing, lambda: None)
        finally:
            timing.close()

    def _capture(self, emit: Callable[[], None], timing: Timing) -> int:
        graph = ctypes.c_uint64()
        self.card.call("cuStreamBeginCapture_v2", self.stream, _THREAD_LOCAL)
        timing.is_captured = True
        try:
            timing.record_start(self.stream)
            with timing.around(_MARK, self.stream):
                emit()
        finally:
            timing.is_captured = False
            self.card.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        return graph.value

    def _fastest(self, launch: Callable[[], None], timing: Timing, before: Callable[[], None]) -> float:
        times: list[float] = []
        while len(times) < 1 + _LEAST_RUNS or sum(times) < _SECONDS_PER_WORK:
            self._check_time()
            before()
            launch()
            self.card.synchronize("compute")
            times.append(timing.seconds(_MARK.lane))
        fastest = min(times[1:])  # the first finds clocks and caches as they were
        if not (math.isfinite(fastest) and fastest > 0):
            raise ValueError(f"the card's events lie {fastest} s apart")
        return fastest

    def _check_time(self) -> None:
        if time.monotonic() > self._until:
            raise TimeIsUpError

    def _fill(self) -> None:
        """Noise, because zeros take less power, which lets a card run faster than weights do."""
        filled = min(_NOISE_BYTES, self.pool.size)
        self.pool.write(0, np.frombuffer(np.random.default_rng(0).bytes(filled), np.uint8))
        while filled < self.pool.size:
            size = min(filled, self.pool.size - filled)
            self.pool.copy(0, filled, size)
            filled += size
        self.card.synchronize("compute")
