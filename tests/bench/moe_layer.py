"""One layer of experts on one thread, ours beside ggml's: `python -m tests.bench.moe_layer [--rounds N] [--json]`.

Qwen3-30B-A3B's shape: hidden 2048, 128 experts of width 768, 8 per token, Q4_K; gate, up, SwiGLU, down and the weighted
sum, routing given. Every run takes other experts, so that weights come from memory; times are the thread's CPU time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.benchmark.peak import int8_peak
from engine.benchmark.report import processor_name, render
from kernels import _cpu
from tests.bench.ggml import GgmlExperts
from tests.support import program_reference as reference
from tests.support.quantize import random_blocks, type_id

WIDTH, HIDDEN, EXPERTS, USED = 2048, 768, 128, 8
BATCHES = {1: 40, 256: 3}  # runs per round
TYPE = "Q4_K"
Layer = Callable[[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]], NDArray[np.float32]]


class TesseraExperts:
    def __init__(self, weights: dict[str, NDArray[np.uint8]]) -> None:
        p = self._program = _cpu.Program()
        self._x, self._out = p.value(WIDTH), p.value(WIDTH)
        self._ids, self._mix = p.value(USED, ids=True), p.value(USED)
        handles = []
        for role, raw in weights.items():
            rows, cols = (WIDTH, HIDDEN) if role == "down" else (HIDDEN, WIDTH)
            handles.append(p.weight(type_id(TYPE), rows, cols, EXPERTS))
            p.bind_weight(handles[-1], raw)
        p.experts(self._x, self._ids, self._mix, *handles, self._out)
        p.finish()
        self._pool = _cpu.ThreadPool(1)

    def __call__(self, x: NDArray[np.float32], ids: NDArray[np.int32], mix: NDArray[np.float32]) -> NDArray[np.float32]:
        p = self._program
        p.write(self._x, x)
        p.write(self._ids, ids)
        p.write(self._mix, mix)
        p.run(self._pool, reference.batch(range(len(x)), tables=[[0] * (len(x) // 32 + 1)]))
        return np.array(p.read(self._out))


def report(rounds: int = 5) -> dict[str, Any]:
    """In the form of `bench --json`; rows hold milliseconds per layer instead of tokens per second."""
    rng = np.random.default_rng(0)
    shapes = {"gate": (HIDDEN, WIDTH), "up": (HIDDEN, WIDTH), "down": (WIDTH, HIDDEN)}
    weights = {role: _stacked(rows, cols, rng) for role, (rows, cols) in shapes.items()}
    layers: dict[str, Layer] = {
        "tessera": TesseraExperts(weights),
        "ggml": GgmlExperts(weights, WIDTH, HIDDEN, EXPERTS, USED, repacked=False),
        "ggml, repacked": GgmlExperts(weights, WIDTH, HIDDEN, EXPERTS, USED, repacked=True),
    }
    _expect_alike(list(layers.values()), rng)
    rows = []
    for tokens, runs in BATCHES.items():
        spent: dict[str, list[float]] = {name: [] for name in layers}
        for _ in range(rounds):
            inputs = [_routed(tokens, rng) for _ in range(runs)]
            for name, layer in layers.items():
                spent[name].append(min(_seconds(layer, given) for given in inputs) * 1e3)
        nothing = {"prefill": None, "decode": None, "depth": 0, "batch": tokens}
        rows += [{"system": name, **nothing, "milliseconds": float(np.median(ms))} for name, ms in spent.items()]
    ratios = {f"one layer, batch {tokens}": _ratio(rows, tokens) for tokens in BATCHES}
    machine = {"processor": processor_name(), "threads": 1, "tier": _cpu.best_tier(), "device": "cpu"}
    machine["int8_peak"] = int8_peak(1)
    return {
        "model": f"MoE layer of Qwen3-30B-A3B, {TYPE}",
        "machine": machine,
        "rows": rows,
        "ratios": ratios,
        "dropped_turns": 0,
    }


def _ratio(rows: Sequence[dict[str, Any]], tokens: int) -> float:
    found = {row["system"]: row["milliseconds"] for row in rows if row["batch"] == tokens}
    return float(found.pop("tessera") / min(found.values()))


def _stacked(rows: int, cols: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """A few experts' random weights, again and again: what they are does not matter, where they lie does."""
    few = np.stack([random_blocks(TYPE, rows, cols, rng) for _ in range(4)])
    return np.ascontiguousarray(np.tile(few, (EXPERTS // 4, *[1] * (few.ndim - 1))))


def _routed(
    tokens: int, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]:
    ids = np.stack([rng.permutation(EXPERTS)[:USED] for _ in range(tokens)]).astype(np.int32)
    mix = rng.random((tokens, USED)).astype(np.float32)
    return rng.standard_normal((tokens, WIDTH)).astype(np.float32), ids, mix / mix.sum(-1, keepdims=True)


def _seconds(layer: Layer, given: tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]]) -> float:
    begin = time.thread_time()
    layer(*given)
    return time.thread_time() - begin


def _expect_alike(layers: Sequence[Layer], rng: np.random.Generator) -> None:
    """Systems that compute different things must not be compared."""
    for tokens in BATCHES:
        given = _routed(tokens, rng)
        ours, *others = [layer(*given) for layer in layers]
        for other in others:
            error = float(np.abs(ours - other).max() / np.abs(ours).max())
            assert error < 0.02, f"results differ by {error:.1%} of the largest"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = report(options.rounds)
    print(json.dumps(found, indent=2) if options.json else render(found))


if __name__ == "__main__":
    main()
