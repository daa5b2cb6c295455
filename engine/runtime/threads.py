"""How many threads to compute with: one per physical performance core that this process may run on.

Efficiency cores and the second thread of a core slow a step down, because every operation waits for its slowest part.
"""

from __future__ import annotations

import os
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")
_INTEL_PERFORMANCE = Path("/sys/devices/cpu_core/cpus")  # there on hybrid Intel processors only


def default_threads() -> int:
    """At least 1. Elsewhere than on Linux: the physical cores that the system reports."""
    if not hasattr(os, "sched_getaffinity"):
        import psutil

        return psutil.cpu_count(logical=False) or os.cpu_count() or 1
    return len({_siblings(cpu) for cpu in performance_cpus(frozenset(os.sched_getaffinity(0)))}) or 1


def performance_cpus(allowed: frozenset[int]) -> frozenset[int]:
    """Those of `allowed` that are the fast kind; all of them where the kinds do not differ."""
    fast = allowed & parse_cpu_list(_read(_INTEL_PERFORMANCE))
    if fast:
        return fast
    capacities = {cpu: int(_read(_CPUS / f"cpu{cpu}/cpu_capacity") or 0) for cpu in allowed}  # ARM big.LITTLE
    best = max(capacities.values(), default=0)
    return frozenset(cpu for cpu, capacity in capacities.items() if capacity >= best * 3 // 4)


def parse_cpu_list(text: str) -> frozenset[int]:
    """The kernel's list format: "0-3,8" is {0, 1, 2, 3, 8}."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def _siblings(cpu: int) -> str:
    """The logical processors that share a core with `cpu`: equal for all of them."""
    return _read(_CPUS / f"cpu{cpu}/topology/thread_siblings_list").strip() or str(cpu)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
