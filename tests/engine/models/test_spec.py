"""Rotary frequencies against the formulas of the papers, computed apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.gguf import GGUFFile
from engine.models import load_spec
from engine.models.spec import RopeSpec, YarnSpec
from tests.support.tiny_models import TinyModel


def test_plain_frequencies() -> None:
    frequencies = RopeSpec("norm", 8, 10000.0).frequencies()
    assert frequencies.dtype == np.float32
    assert frequencies == pytest.approx([1.0, 0.1, 0.01, 0.001])


def test_linear_scaling_divides_every_frequency() -> None:
    plain, scaled = RopeSpec("neox", 64, 10000.0), RopeSpec("neox", 64, 10000.0, scale=0.25)
    assert scaled.frequencies() == pytest.approx(plain.frequencies() / 4)
    assert scaled.magnitude == 1.0


def test_yarn_keeps_fast_pairs_and_interpolates_slow_ones() -> None:
    """128 dimensions, base 1e6, context 32768 × 4, as Qwen 3 is extended; the ramp by hand from the paper."""
    rope = RopeSpec("neox", 128, 1e6, scale=0.25, yarn=YarnSpec(32768))
    plain = RopeSpec("neox", 128, 1e6).frequencies()
    low = math.floor(128 * math.log(32768 / (32 * 2 * math.pi)) / (2 * math.log(1e6)))
    high = math.ceil(128 * math.log(32768 / (1 * 2 * math.pi)) / (2 * math.log(1e6)))
    ratio = rope.frequencies() / plain
    assert ratio[: low + 1] == pytest.approx(1.0)
    assert ratio[high:] == pytest.approx(0.25)
    middle = (low + high) // 2
    assert ratio[middle] == pytest.approx(1 - 0.75 * (middle - low) / (high - low))
    assert rope.magnitude == pytest.approx(1 + 0.1 * math.log(4))


def test_yarn_log_multiplier_cancels_the_magnitude() -> None:
    assert RopeSpec("norm", 64, 1e4, scale=0.1, yarn=YarnSpec(4096, log_multiplier=1.0)).magnitude == pytest.approx(1)


def test_llama3_factors_come_from_the_tensor(tiny_models: Callable[[TinyModel], Path]) -> None:
    model = TinyModel(rope_scaling="llama3", rope_base=500000.0)
    with GGUFFile.open(tiny_models(model)) as gguf:
        rope = load_spec(gguf).layers[0].attention.rope
    plain = RopeSpec("norm", 64, 500000.0).frequencies()
    ratio = rope.frequencies() / plain
    assert ratio[0] == pytest.approx(1.0)
    assert ratio[-1] == pytest.approx(1 / model.rope_factor)


@pytest.mark.parametrize(("kind", "scale"), [("linear", 0.25), ("yarn", 0.25), ("", 1.0)])
def test_scaling_types(tiny_models: Callable[[TinyModel], Path], kind: str, scale: float) -> None:
    with GGUFFile.open(tiny_models(TinyModel("qwen3", rope_scaling=kind))) as gguf:
        rope = load_spec(gguf).layers[0].attention.rope
    assert rope.scale == scale
    assert (rope.yarn is not None) == (kind == "yarn")
    if rope.yarn is not None:
        assert rope.yarn.original_context == 256
