"""A seeded draw from tests/bench/parity.md: a family, a mixture of types, every way of reading, against llama.cpp."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.bench.parity import divergences, variants
from tests.support.tiny_models import TinyModel

DRAWN = Random(3).sample(list(variants(("F16", "Q8_0", "Q4_K_M", "all"))), 12)


@pytest.mark.parametrize("model", [model for _, model in DRAWN], ids=lambda model: model.slug)
def test_a_drawn_model(tiny_models: Callable[[TinyModel], Path], model: TinyModel) -> None:
    found = divergences(model, tiny_models(model))
    assert found.is_level, found
