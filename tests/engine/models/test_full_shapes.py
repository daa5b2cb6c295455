"""Models of hundreds of gigabytes from their headers alone: every tensor has a place, and all count the same memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.gguf import GGUFFile
from engine.memory import KVPool
from engine.models import build_graph, load_spec
from engine.placement.budget import Budget, GiB
from engine.placement.hardware.catalogue import machine
from engine.placement.planner import Planner
from engine.placement.shape import ModelShape
from tests.support.shapes import published_shape
from tests.support.sparse_model import sparse_model

DESKTOP = machine("Ryzen 7 5800X", "RTX 4090", ram_bytes=1 << 41)
# parameters as the model cards state them, in units of 10^9, without the layers that predict further tokens
STEMS = {
    "deepseek-v3-q4_k_m": 671,
    "kimi-k2-q4_k_m": 1026,
    "qwen3-235b-a22b-q4_k_m": 235,
    "llama-4-scout-q4_k_m": 108,
    "gpt-oss-120b-mxfp4": 117,
    "gpt-oss-20b-mxfp4": 21,
    "glm-4.5-q4_k_m": 355,
    "qwen3-next-80b-a3b-q4_k_m": 80,
    "qwen3.5-122b-a10b-q4_k_m": 122,
    "qwen3.6-35b-a3b-q4_k_m": 35,
}

# GiB of published files' tensors, as llama-bench prints them with these models in reports on GitHub; in the last one's
# case the size of a published file of a model with the same shapes (Qwen3-Coder-Next, Q4_K_M: 48.5 × 10^9 bytes)
PUBLISHED_GIB = {
    "deepseek-v3-q4_k_m": 376.65,
    "qwen3-235b-a22b-q4_k_m": 132.39,
    "llama-4-scout-q4_k_m": 60.86,
    "gpt-oss-120b-mxfp4": 59.02,
    "gpt-oss-20b-mxfp4": 11.27,
    "qwen3-next-80b-a3b-q4_k_m": 45.17,
}


@pytest.mark.parametrize("stem", PUBLISHED_GIB)
def test_sizes_are_those_of_published_files(stem: str) -> None:
    assert published_shape(stem).weight_bytes / GiB == pytest.approx(PUBLISHED_GIB[stem], rel=0.01)


@pytest.mark.parametrize("stem", STEMS)
def test_a_model_from_its_header(tmp_path: Path, stem: str) -> None:
    with GGUFFile.open(sparse_model(stem, tmp_path)) as gguf:
        spec = load_spec(gguf)
        graph, shape = build_graph(spec), ModelShape.from_gguf(gguf)
    assert len(spec.warnings) == (1 if stem.startswith("glm") else 0)  # its last layer only predicts further tokens
    assert spec.parameters == pytest.approx(STEMS[stem] * 1e9, rel=0.02)
    assert sum(tensor.nbytes for tensor in graph.weights.values()) == shape.weight_bytes == spec.weight_bytes
    planner = Planner(shape, DESKTOP)
    made = planner.plan(Budget(20 * GiB))
    fixed = KVPool.fixed_bytes(graph.kv_layers, planner.work.context)
    per_token = KVPool.bytes_per_token(graph.kv_layers)
    assert made.gpu.state + made.ram.state == fixed + planner.work.context * per_token
    assert made.weight_bytes == shape.weight_bytes
