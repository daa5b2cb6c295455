"""Weights that are parts of a file's tensors: their bytes, and the pages that are let go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.gguf import GGUFFile
from engine.memory.weight_store import WeightStore
from engine.models import build_graph, load_spec
from tests.support.tiny_models import TinyModel


@pytest.mark.parametrize(
    ("family", "source", "parts"),
    [
        ("phi3", "blk.1.attn_qkv.weight", ("attn_q", "attn_k", "attn_v")),
        ("phi3", "blk.0.ffn_up.weight", ("ffn_gate", "ffn_up")),
        ("glm4", "blk.1.ffn_up.weight", ("ffn_gate", "ffn_up")),
    ],
)
def test_parts_of_a_tensor(
    tiny_models: Callable[[TinyModel], Path],
    monkeypatch: pytest.MonkeyPatch,
    family: str,
    source: str,
    parts: tuple[str, ...],
) -> None:
    gguf = GGUFFile.open(tiny_models(TinyModel(family, "Q8_0")))
    weights = WeightStore(gguf, build_graph(load_spec(gguf)).weights)
    names = [f"{source.rsplit('.', 2)[0]}.{part}.weight" for part in parts]
    assert b"".join(bytes(weights.buffer(name)) for name in names) == bytes(gguf.buffer(source))
    released: list[tuple[str, int, int | None]] = []
    monkeypatch.setattr(gguf, "release_pages", lambda *args: released.append(args))
    at = 0
    for name in names:
        size = len(weights.buffer(name))
        weights.release_pages(name)
        weights.release_pages(name, 64, 128)
        assert released[-2:] == [(source, at, at + size), (source, at + 64, at + 128)]
        at += size
    weights.close()
