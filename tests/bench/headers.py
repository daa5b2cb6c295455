"""Time to open a model file: python -m tests.bench.headers [FILE ...]

Without files: the starter model and a made one of 256 thousand tokens, as many merges, and 1128 tensors. The `gguf`
package's reader stands beside the smaller one. Warm page cache; medians, in milliseconds of wall and of CPU time.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np

from engine.gguf import GGUFFile
from engine.hub.starter import ensure_starter_model
from tests.support.gguf_writer import GGUFBuilder

VOCABULARY, LAYERS, TENSORS_PER_LAYER = 256_000, 94, 12
ROUNDS = 15


def large_header(folder: Path) -> Path:
    """A file that is nearly all header, of about 15 MB."""
    builder = GGUFBuilder("qwen3moe")
    builder.add("tokenizer.ggml.tokens", [f"token{i:x}" for i in range(VOCABULARY)])
    builder.add("tokenizer.ggml.merges", [f"tok{i:x} en{i:x}" for i in range(VOCABULARY)])
    builder.add("tokenizer.ggml.token_type", np.ones(VOCABULARY, np.int32))
    for layer in range(LAYERS):
        for index in range(TENSORS_PER_LAYER):
            builder.tensor(f"blk.{layer}.tensor_{index}.weight", (64,))
    return builder.write(folder / "large-header.gguf")


def milliseconds(action: Callable[[], object], rounds: int) -> tuple[float, float]:
    wall, cpu = [], []
    for _ in range(rounds):
        began, began_cpu = time.perf_counter(), time.process_time()
        action()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - began_cpu)
    return 1000 * statistics.median(wall), 1000 * statistics.median(cpu)


def report(path: Path) -> None:
    with GGUFFile.open(path) as file:
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB, {len(file.tensors)} tensors")
        tokens = file.metadata.string_array("tokenizer.ggml.tokens", None)
    rows: list[tuple[str, Callable[[], object], int]] = [("open", lambda: GGUFFile.open(path).close(), ROUNDS)]
    if tokens is not None:
        rows.append((f"decode {len(tokens):,} tokens", lambda: list(tokens), 5))
    if tokens is not None and len(tokens) < 60_000:  # more take it half a minute
        rows.append(("gguf package", lambda: gguf.GGUFReader(path), 1))
    for name, action, rounds in rows:
        wall, cpu = milliseconds(action, rounds)
        print(f"  {name:<24} {wall:9.1f} ms wall {cpu:9.1f} ms CPU")


def main() -> None:
    if len(sys.argv) > 1:
        for name in sys.argv[1:]:
            report(Path(name))
        return
    report(ensure_starter_model())
    with tempfile.TemporaryDirectory() as folder:
        report(large_header(Path(folder)))


if __name__ == "__main__":
    main()
