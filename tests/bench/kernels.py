"""Matrix products on one thread: GMAC/s per weight type and number of tokens, beside the measured int8 peak.

    python -m tests.bench.kernels [--tier auto] [--types Q4_K,Q6_K] [--tokens 1,2,4,8,64,512] [--rounds 9]

Weights of one-token products come from a buffer larger than the last-level cache, so that column shows the memory
limit too (GB/s of weight bytes). Every round visits all columns, so that a busy machine touches all alike; the fastest
quarter's median is printed, in CPU time of the calling thread.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from kernels import _cpu
from tests.support.quantize import TYPES, random_blocks, row_bytes, type_id

ROWS, COLS = 1024, 2048
STREAM_BYTES = 96 << 20


def best_quarter(seconds: list[float]) -> float:
    return float(np.median(sorted(seconds)[: max(1, len(seconds) // 4)]))


def peak(tier: str) -> float:
    begin = time.thread_time()
    macs = _cpu.int8_peak(50_000, tier)
    return float(macs / (time.thread_time() - begin) * 1e-9)


def measure(name: str, tokens: list[int], tier: str, rounds: int) -> tuple[list[float], float, float]:
    """GMAC/s per token count, GB/s of weights at one token, peak GMAC/s."""
    rng = np.random.default_rng(0)
    one = random_blocks(name, ROWS, COLS, rng).reshape(-1)
    stream: NDArray[np.uint8] = np.tile(one, max(1, STREAM_BYTES // one.size))
    x = rng.standard_normal((max(tokens), COLS), dtype=np.float32)
    spent: list[list[float]] = [[] for _ in tokens]
    peaks = []
    for _ in range(rounds):
        peaks.append(peak(tier))
        for i, count in enumerate(tokens):
            weights, repeats = (stream, stream.size // one.size) if count == 1 else (one, 3 if count < 64 else 1)
            spent[i] += _cpu.matmul_seconds(type_id(name), weights, ROWS, COLS, x[:count], repeats, tier)[1:]
    rates = [1e-9 * ROWS * COLS * count / best_quarter(s) for s, count in zip(spent, tokens, strict=True)]
    bandwidth = rates[tokens.index(1)] * row_bytes(name, COLS) / COLS if 1 in tokens else 0.0
    return rates, bandwidth, best_quarter([-p for p in peaks]) * -1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tier", default="auto", choices=["auto", *_cpu.tiers()])
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--tokens", default="1,2,4,8,16,64,512")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    tokens = [int(t) for t in options.tokens.split(",")]
    print(
        f"tier {options.tier} (best {_cpu.best_tier()}), {ROWS} x {COLS} weights, one thread: "
        "GMAC/s (share of int8 peak)"
    )
    print("type   " + "".join(f"{t:>13}" for t in tokens) + "   peak   GB/s at 1")
    for name in options.types.split(","):
        rates, bandwidth, best = measure(name, tokens, options.tier, options.rounds)
        cells = "".join(f"{rate:7.1f} {rate / best:4.0%} " for rate in rates)
        print(f"{name:7}{cells}  {best:5.0f}  {bandwidth:6.1f}")


if __name__ == "__main__":
    main()
