"""Stop strings in streamed text: found across token boundaries, never shown, not even in part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class StopResult(NamedTuple):
    emit: str  # text that is safe to show now
    hit: str | None  # the stop string that was found; nothing more will be emitted


class StopMatcher:
    """Holds back the shortest tail that could still become a stop string. Empty stop strings are ignored."""

    def __init__(self, stop_strings: Iterable[str]) -> None:
        self._stops = tuple(dict.fromkeys(stop for stop in stop_strings if stop))
        self.is_needed = bool(self._stops)  # else every text comes out as it went in
        self._held = ""
        self._hit: str | None = None

    def push(self, text: str) -> StopResult:
        if not self._stops:
            return StopResult(text, None)
        if self._hit is not None:
            return StopResult("", self._hit)
        text = self._held + text
        found = min(((text.find(stop), -len(stop), stop) for stop in self._stops if stop in text), default=None)
        if found is not None:
            self._held, self._hit = "", found[2]
            return StopResult(text[: found[0]], self._hit)
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return StopResult(text[: len(text) - keep], None)

    def flush(self) -> str:
        """The held-back tail, when the answer ends without a stop string."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest proper prefix of `stop` that `text` ends with."""
    for length in range(min(len(stop) - 1, len(text)), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
