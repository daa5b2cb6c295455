"""The processors of this computer that this process may run on. Light: the settings ask before the window is there."""

from __future__ import annotations

import os


def usable_processors() -> int:
    """All logical ones; more threads than these only wait for each other."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
