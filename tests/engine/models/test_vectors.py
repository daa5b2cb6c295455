"""Norms, biases and rotary frequencies that the kernels cannot take are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import FormatError, UnsupportedError
from engine.gguf import GGUFFile, QuantType
from engine.models import build_graph, load_spec
from tests.support.tiny_models import TinyModel, tiny_model_builder


@pytest.mark.parametrize("name", ["output_norm.weight", "blk.0.attn_q_norm.weight", "blk.1.attn_k.bias"])
def test_vectors_of_another_type(starter_model: Path, tmp_path: Path, name: str) -> None:
    builder = tiny_model_builder(TinyModel("qwen3", biases=True), starter_model)
    for tensor in builder.tensors:
        if tensor.name == name.encode():
            tensor.type_id, tensor.data = QuantType.F16, bytes(len(tensor.data) // 2)
    with GGUFFile.open(builder.write(tmp_path / "m.gguf")) as file:
        spec = load_spec(file)
        with pytest.raises(UnsupportedError, match=f"“{name}” is of type F16, and must be F32"):
            build_graph(spec)


@pytest.mark.parametrize("override", [("llama.rope.freq_base", 1e-44), ("llama.rope.scaling.factor", 1e-42)])
def test_frequencies_without_end(starter_model: Path, tmp_path: Path, override: tuple[str, float]) -> None:
    model = TinyModel(overrides=(override, ("llama.rope.scaling.type", "linear"), ("llama.rope.dimension_count", 64)))
    path = tiny_model_builder(model, starter_model).write(tmp_path / "m.gguf")
    with GGUFFile.open(path) as file, pytest.raises(FormatError, match="frequencies without end"):
        load_spec(file)
