"""Large models from their headers alone: python -m tests.bench.full_shapes

Seconds of CPU time from the open file to a spec with its graph, and from there to a plan; parameters, the file's bytes
and those of the memory that a context takes. The files are holes behind a real header (tests/support/sparse_model.py).
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from engine.gguf import GGUFFile
from engine.memory import KVPool
from engine.models import build_graph, load_spec, native_architectures
from engine.placement.budget import Budget, GiB
from engine.placement.hardware.catalogue import machine
from engine.placement.planner import Planner
from engine.placement.shape import ModelShape
from tests.engine.models.test_full_shapes import PUBLISHED_GIB
from tests.support.shapes import SHAPES
from tests.support.sparse_model import sparse_model

CONTEXT = 32768


def main() -> None:
    hardware = machine("Ryzen 9 9950X", "RTX 5090", ram_bytes=2 << 40)
    sizes = f"{'params':>9} {'weights':>10} {'published':>10} {'memory at 32K':>14}"
    print(f"{'model':<28} {'spec':>7} {'plan':>7} {sizes}")
    with tempfile.TemporaryDirectory() as folder:
        for source in sorted(SHAPES.glob("*.json")):
            if ModelShape.from_shape_file(source).architecture in native_architectures():
                report(source.stem, Path(folder), hardware)


def report(stem: str, folder: Path, hardware: object) -> None:
    path = sparse_model(stem, folder)
    with GGUFFile.open(path) as gguf:
        began = time.process_time()
        spec = load_spec(gguf)
        graph = build_graph(spec)
        read = time.process_time()
        Planner(ModelShape.from_gguf(gguf), hardware).plan(Budget(30 * GiB))  # type: ignore[arg-type]
        planned = time.process_time()
    memory = CONTEXT * KVPool.bytes_per_token(graph.kv_layers) + KVPool.fixed_bytes(graph.kv_layers, CONTEXT)
    print(
        f"{stem:<28} {read - began:6.2f}s {planned - read:6.2f}s {spec.parameters / 1e9:8.1f}B "
        f"{spec.weight_bytes / GiB:7.2f} GiB {PUBLISHED_GIB.get(stem, ''):>10} {memory / GiB:10.2f} GiB"
    )


if __name__ == "__main__":
    main()
