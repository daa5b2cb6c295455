"""The processor's int8 dot-product peak: what prefill divides by."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from kernels import _cpu

_ITERATIONS = 2_000_000  # some tens of milliseconds
_REPEATS = 5


def int8_peak(threads: int, tier: str = "") -> float:
    """Multiply-adds per second of `threads` threads together: the best of a few tries of the tier's own peak loop."""

    def one(_: int) -> int:
        return _cpu.int8_peak(_ITERATIONS, tier or "auto")

    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_REPEATS):
            begin = time.perf_counter()
            done = sum(pool.map(one, range(threads)))
            best = max(best, done / (time.perf_counter() - begin))
    return best
