"""Any placement gives the logits of the CPU alone, before, during and after changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.support.hybrid_model import HybridModel, everything, random_placement
from tests.support.native_model import Logits, NativeModel
from tests.support.tiny_deepseek2 import TinyDeepSeek2
from tests.support.tiny_families import TRAITS
from tests.support.tiny_models import FAMILIES, TinyModel
from tests.support.tiny_qwen3next import TinyQwen3Next

Write = Callable[[TinyModel], Path]
TOKENS = np.random.default_rng(5).integers(0, 512, 40).tolist()
PROMPT, ANSWER = TOKENS[:33], TOKENS[33:]


def assert_same(ours: Logits, reference: Logits) -> None:
    """The same sums in another order: of F32 weights and an F16 cache, as between batch sizes."""
    assert ours.shape == reference.shape
    assert np.abs(ours - reference).max() <= 1e-3 * reference.std()


MODELS = [
    *(TinyModel(family, layers=max(3, TRAITS[family].least_layers)) for family in FAMILIES),
    TinyDeepSeek2(layers=3),
    TinyQwen3Next(layers=3),
]


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: model.family)
def path(request: pytest.FixtureRequest, tiny_models: Write) -> Path:
    return tiny_models(request.param)


@pytest.fixture(scope="module")
def reference(path: Path) -> Logits:
    return NativeModel(path).logits([*PROMPT, *ANSWER])[len(PROMPT) - 1 : -1]


@pytest.fixture
def model(path: Path) -> Iterator[HybridModel]:
    model = HybridModel(path)
    yield model
    model.close()


def test_cpu_alone_and_device_alone(model: HybridModel, reference: Logits) -> None:
    assert_same(model.teacher_forced(PROMPT, ANSWER), reference)
    model.place(everything(model.graph))
    assert_same(model.teacher_forced(PROMPT, ANSWER), reference)


@pytest.mark.parametrize("seed", range(6))
def test_random_placements(model: HybridModel, reference: Logits, seed: int) -> None:
    model.place(random_placement(model.graph, Random(seed)))
    assert_same(model.teacher_forced(PROMPT, ANSWER), reference)


@pytest.mark.parametrize("seed", range(3))
def test_placements_that_change_in_mid_conversation(model: HybridModel, reference: Logits, seed: int) -> None:
    random = Random(seed)
    state = model.new_state()
    rows = [model.extend(state, PROMPT)[-1:]]
    for token in ANSWER[:-1]:
        model.place(random_placement(model.graph, random))
        rows.append(model.extend(state, [token]))
    assert_same(np.concatenate(rows), reference)
