"""How fast bytes come, and how fast they may come."""

from __future__ import annotations

import threading
import time
from collections import deque

WINDOW = 5.0


class SpeedLimit:
    """A limit in bytes per second that all downloads share; 0 is none. May be changed at any time."""

    def __init__(self, bytes_per_second: float = 0.0) -> None:
        self._rate = bytes_per_second
        self._due = 0.0
        self._lock = threading.Lock()

    @property
    def bytes_per_second(self) -> float:
        return self._rate

    def change(self, bytes_per_second: float) -> None:
        with self._lock:
            self._rate = max(0.0, bytes_per_second)
            self._due = 0.0

    def take(self, count: int, stop: threading.Event) -> None:
        """Account for `count` bytes, and wait until the next ones are due or `stop` is set."""
        with self._lock:
            if not self._rate:
                return
            now = time.monotonic()
            self._due = max(self._due, now) + count / self._rate
            due = self._due
        while (left := due - time.monotonic()) > 0 and not stop.wait(min(left, 0.25)):
            if not self._rate:
                return


class SpeedMeter:
    """Mean speed of a counter over the last seconds; `update` is called whenever somebody looks."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def update(self, count: int, now: float | None = None) -> float:
        """Bytes per second, given the counter's value now (seconds)."""
        now = time.monotonic() if now is None else now
        self._samples.append((now, count))
        while now - self._samples[0][0] > WINDOW and len(self._samples) > 2:
            self._samples.popleft()
        begin, before = self._samples[0]
        return max(0.0, (count - before) / (now - begin)) if now - begin > 0.2 else 0.0

    def reset(self) -> None:
        self._samples.clear()
