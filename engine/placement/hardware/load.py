"""How much of the processors others took over a stretch of time: what was measured meanwhile is too slow by as much."""

from __future__ import annotations

import time

import psutil

# Others' share of all processors up to which a measurement counts as undisturbed.
QUIET = 0.1


class OthersLoad:
    """Watches from its making on."""

    def __init__(self) -> None:
        self._began = self._now()

    def share(self) -> float:
        """0..1 of all processors: other programs, and what a hypervisor gave to other machines (steal)."""
        wall, busy, own = (after - before for before, after in zip(self._began, self._now(), strict=True))
        cores = psutil.cpu_count() or 1
        return min(1.0, max(0.0, (busy - own) / max(1e-3, wall * cores)))

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """Seconds on the clock; busy seconds of all processors together; seconds of this process."""
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # counted in user and nice already
        return time.monotonic(), sum(times) - idle - guest, time.process_time()
