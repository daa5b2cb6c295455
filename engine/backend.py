"""Backend: what the engine thread needs from whatever runs a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from engine.messages import GenerationRequest, ModelInfo, TimelineTold
from engine.placement.pins import Pin
from engine.telemetry.residency import RamUse, ResidencySnapshot


class Backend(Protocol):
    """A loaded model. Events go to the callable that the backend was made with; all calls come from one thread."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def held_bytes(self) -> int:
        """Memory that `close` gives back, mapped files aside."""

    @property
    def is_busy(self) -> bool:
        """Whether `step` has something to do."""

    def generate(self, request: GenerationRequest, arrived: float) -> None:
        """Begins an answer; `arrived` is the perf_counter at which the request came in. EngineError if it cannot."""

    def abort(self, request_id: str) -> None:
        """Ends an answer, keeping what it said. Unknown ids are ignored."""

    def set_budget(self, gpu_bytes: int) -> None:
        """Begins to change what is on the device; `step` goes on with it. EngineError where nothing can be changed."""

    def set_pins(self, pins: frozenset[Pin]) -> None:
        """Begins to move what is pinned where it is not; without effect where nothing can be moved."""

    def set_ram_budget(self, ram_bytes: int | None) -> None:
        """From now on no more RAM than that is taken. EngineError, with the budget before, where more is needed."""

    def ram(self) -> RamUse | None:
        """What the model takes of RAM; None where the backend does not know."""

    def residency(self) -> ResidencySnapshot | None:
        """What lies where; None where the backend does not know."""

    def timeline(self) -> TimelineTold:
        """What ran when in the last watched steps; asks for the next ones to be watched."""

    def step(self, interrupted: Callable[[], bool]) -> None:
        """Goes on a little with all answers: at most one micro-batch, left early when `interrupted`."""

    def close(self) -> None:
        """Gives back all memory. Answers in progress end as aborted."""
