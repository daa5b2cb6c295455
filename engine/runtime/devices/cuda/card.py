"""Card: an NVIDIA GPU's context and streams, which exist from `wake` to `rest`.

The driver charges some hundred megabytes for a context, so a budget of 0 bytes has to end it. What it takes is measured
once, against a second context, because free memory cannot be asked for without one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from kernels.cuda.driver import Driver

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: no order with the legacy stream
_GENERATIONS = itertools.count(1)
_STREAMS = ("compute", "activations", "weights", "host", "staging", "prefetch")


class Card:
    """Calls may come from any thread. LaunchError where the driver refuses."""

    def __init__(self, driver: Driver, index: int = 0) -> None:
        self.driver = driver
        self.index = index
        self.streams: dict[str, int] = {}
        self.on_rest: list[Callable[[], None]] = []  # what else lives in the context gives it up
        self._context = 0
        self._generation = 0
        self.context_bytes, self.free_bytes, self.total_bytes = self._measure()

    @property
    def is_awake(self) -> bool:
        return bool(self.streams)

    def wake(self) -> None:
        """Makes context and streams."""
        self._generation = next(_GENERATIONS)
        self._context = self.driver.make("cuDevicePrimaryCtxRetain", self.index)
        try:
            self.streams = {name: self.make("cuStreamCreate", _NON_BLOCKING) for name in _STREAMS}
        except BaseException:
            self.driver.call("cuDevicePrimaryCtxRelease_v2", self.index)
            raise

    def rest(self) -> None:
        """Gives back everything that the driver charges for."""
        if not self.is_awake:
            return
        for give_up in self.on_rest:
            give_up()
        for stream in self.streams.values():
            self.call("cuStreamDestroy_v2", stream)
        self.streams = {}
        self.driver.call("cuDevicePrimaryCtxRelease_v2", self.index)
        self._context = 0

    def call(self, function: str, *args: object) -> None:
        self.driver.enter(self._context, self._generation)
        self.driver.call(function, *args)

    def make(self, function: str, *args: object) -> int:
        self.enter()
        return self.driver.make(function, *args)

    def enter(self) -> None:
        """Makes the context current in this thread."""
        self.driver.enter(self._context, self._generation)

    def synchronize(self, stream: str) -> None:
        """Waits for everything that was given to a stream."""
        self.call("cuStreamSynchronize", self.streams[stream])

    def free_now(self) -> int:
        self.enter()
        return self.driver.memory()[0]

    def _measure(self) -> tuple[int, int, int]:
        """What a context takes; free bytes without one; all bytes."""
        other = self.driver.make("cuCtxCreate_v2", 0, self.index)
        try:
            before, total = self.driver.memory()
            self.driver.make("cuDevicePrimaryCtxRetain", self.index)
            try:
                taken = max(0, before - self.driver.memory()[0])
            finally:
                self.driver.call("cuDevicePrimaryCtxRelease_v2", self.index)
        finally:
            self.driver.call("cuCtxDestroy_v2", other)
            self.driver.leave()
        return taken, min(total, before + taken), total
