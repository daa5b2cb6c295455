"""StepWatch: keeps what ran when in the next step of each kind, once somebody wants to see it."""

from __future__ import annotations

from collections.abc import Sequence

from engine.runtime.devices.streams import Span


class StepWatch:
    """A step of one token is decode, a longer one prefill. Nothing is kept that nobody asked for."""

    def __init__(self) -> None:
        self._wanted: set[bool] = set()  # whether of one token
        self._seen: dict[bool, tuple[Span, ...]] = {}

    def ask(self) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """Decode and prefill as they were last seen; the next step of each is watched."""
        self._wanted = {True, False}
        return self._seen.get(True, ()), self._seen.get(False, ())

    def begin(self, tokens: int) -> list[Span] | None:
        """Where a step's spans are to go; None where it is not watched."""
        return [] if (tokens == 1) in self._wanted else None

    def end(self, tokens: int, spans: Sequence[Span]) -> None:
        """The step is done."""
        self._seen[tokens == 1] = tuple(spans)
        self._wanted.discard(tokens == 1)

    def forget(self) -> None:
        """Another placement: what was seen is over, and is to be seen anew."""
        self._wanted |= self._seen.keys()
        self._seen.clear()
