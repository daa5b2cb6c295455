"""Matrix products of every weight type on one thread, ours beside ggml's in its better form, repacked or not.

    python -m tests.bench.products [--types Q4_K,Q6_K] [--tokens 1,8,512] [--rounds 7]

CPU time of the thread, activations packed once per product on both sides; "stream" is one token with weights that no
cache holds. Rounds are interleaved and the fastest quarter's median counts, because others may work on this machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kernels import _cpu
from tests.bench.ggml import GgmlProduct
from tests.bench.kernels import COLS, ROWS, STREAM_BYTES, best_quarter
from tests.support.quantize import TYPES, random_blocks, type_id

Product = Callable[[NDArray[np.float32]], float]  # CPU seconds of one product


def repacks(name: str) -> bool:
    """Whether llama.cpp repacks this type here: asked in a process of its own, which a refusal ends."""
    child = multiprocessing.get_context("spawn").Process(target=_repack, args=(name,))
    child.start()
    child.join()
    return child.exitcode == 0


def _repack(name: str) -> None:
    raw = random_blocks(name, 64, COLS, np.random.default_rng(0))
    x = np.ones((2, COLS), np.float32)
    GgmlProduct(type_id(name), raw.reshape(-1), 64, COLS, repacked=True)(x)


def systems(name: str, raw: NDArray[np.uint8], copies: int) -> dict[str, Product]:
    kind, rows = type_id(name), ROWS * copies

    def ours(x: NDArray[np.float32]) -> float:
        packing, *products = _cpu.matmul_seconds(kind, raw, rows, COLS, x, _repeats(x, copies))
        return packing + float(np.mean(products))

    found: dict[str, Product] = {"tessera": ours}
    for repacked in (False, True) if repacks(name) else (False,):
        product = GgmlProduct(kind, raw, rows, COLS, repacked=repacked)
        label = "ggml, repacked" if repacked else "ggml"
        found[label] = lambda x, product=product: product(x, _repeats(x, copies))[1]  # type: ignore[misc]
    return found


def _repeats(x: NDArray[np.float32], copies: int) -> int:
    return 1 if copies > 1 or len(x) >= 64 else 8


def compare(name: str, tokens: int, rounds: int, *, stream: bool) -> str:
    rng = np.random.default_rng(0)
    one = random_blocks(name, ROWS, COLS, rng).reshape(-1)
    copies = max(1, STREAM_BYTES // one.size) if stream else 1
    x = rng.standard_normal((tokens, COLS), dtype=np.float32)
    products = systems(name, np.tile(one, copies), copies)
    spent: dict[str, list[float]] = {label: [] for label in products}
    for _ in range(rounds):
        for label, product in products.items():
            spent[label].append(product(x))
    macs = 1e-9 * ROWS * copies * COLS * tokens
    rates = {label: macs / best_quarter(seconds) for label, seconds in spent.items()}
    mine = rates.pop("tessera")
    label, best = max(rates.items(), key=lambda item: item[1])
    return f"{mine:7.1f} : {best:6.1f} = {mine / best:5.2f}{'r' if 'repacked' in label else ' '}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--tokens", default="1,8,512")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    counts = [int(count) for count in options.tokens.split(",")]
    print(f"{ROWS} x {COLS}, tier {_cpu.best_tier()}: GMAC/s ours : ggml's best = ratio (r: repacked)")
    print("type    " + "".join(f"{title:>26}" for title in ["1, stream", *map(str, counts)]))
    for name in options.types.split(","):
        cells = [compare(name, 1, options.rounds, stream=True)]
        cells += [compare(name, count, options.rounds, stream=False) for count in counts]
        print(f"{name:8}" + "".join(f"{cell:>26}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
