"""Layers that only predict further tokens: counted in block_count, not run, and perhaps not in the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import FormatError
from engine.gguf import GGUFFile
from engine.models import build_graph, load_spec
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]


def model(blocks: int, extra: int) -> TinyModel:
    return TinyModel(overrides=(("llama.block_count", blocks), ("llama.nextn_predict_layers", extra)))


@pytest.mark.parametrize(("blocks", "runs"), [(3, 2), (2, 1)])
def test_they_are_left_out_with_a_warning(tiny_models: Write, blocks: int, runs: int) -> None:
    with GGUFFile.open(tiny_models(model(blocks, 1))) as file:
        spec = load_spec(file)
    assert len(spec.layers) == runs == len(build_graph(spec).kv_layers)
    assert not any(name.startswith(f"blk.{runs}.") for name in spec.tensors)
    assert spec.warnings == (f"The last 1 of {blocks} layers only predict further tokens; they are not used.",)


@pytest.mark.parametrize(("blocks", "extra"), [(2, 2), (1, 5), (2**32 - 1, 0), (3, 0)])
def test_counts_that_cannot_be(tiny_models: Write, blocks: int, extra: int) -> None:
    with GGUFFile.open(tiny_models(model(blocks, extra))) as file, pytest.raises(FormatError):
        load_spec(file)
