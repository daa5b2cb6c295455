"""A tiny model end to end on the CUDA kernels themselves, emulated: all on the device, and split with the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.runtime.placement import Placement
from tests.support.hybrid_model import HybridModel, banks_of, items_of
from tests.support.logit_bounds import bounds
from tests.support.native_model import NativeModel
from tests.support.tiny_deepseek2 import TinyDeepSeek2
from tests.support.tiny_models import TinyModel
from tests.support.tiny_qwen3next import TinyQwen3Next

Write = Callable[[TinyModel], Path]
MODEL = TinyModel("qwen3moe", "Q8_0", layers=1, feed_forward=256, experts=4, vocabulary=256)
TOKENS = np.random.default_rng(2).integers(0, 256, 11).tolist()


RECURRENT = TinyQwen3Next(mix="Q8_0", experts=4, vocabulary=256)
LATENT = TinyDeepSeek2(mix="Q8_0", layers=1, experts=4, vocabulary=256, dense_layers=0, plain=32, value=32, rank=64)


@pytest.mark.parametrize(
    ("tiny", "slots"),
    [(MODEL, 4), (MODEL, 2), (LATENT, 2), (replace(LATENT, split=False, sigmoid=False, groups=1), 4), (RECURRENT, 2)],
    ids=[
        "all on the device",
        "two experts on the CPU",
        "latent attention",
        "latent attention, one matrix",
        "delta net",
    ],
)
def test_logits_are_the_cpus(tiny_models: Write, tiny: TinyModel, slots: int) -> None:
    """Within the bound for two engines that round activations apart: a prompt long enough for tiles, then decode."""
    path = tiny_models(tiny)
    reference = NativeModel(path).logits(TOKENS)
    model = HybridModel(path, context=64, kernels="exact")
    assert model.device.label == "emulated (exact kernels)"
    items = frozenset(item for item in items_of(model.graph) if item != "embedding")
    model.place(Placement(items, dict.fromkeys(banks_of(model.graph), slots)))
    state = model.new_state()
    ours = np.concatenate([model.extend(state, TOKENS[:9]), *(model.extend(state, [token]) for token in TOKENS[9:])])
    assert bounds(reference, "Q8_0", tiny.layers).allow(ours - reference)
    state.release()
    model.close()
