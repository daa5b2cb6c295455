"""A model on the stand-in card, half on the processor: dense, and with experts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.captured_steps import MODELS, TOKENS, Write, mixed
from tests.support.hybrid_model import HybridModel
from tests.support.native_model import Logits, NativeModel
from tests.support.stand_in_card import charged, no_compiler, open_card, set_card
from tests.support.tiny_models import TinyModel


@pytest.fixture(autouse=True, scope="module")
def card() -> Iterator[None]:
    with no_compiler():
        yield
    set_card()


@pytest.fixture(scope="module", params=list(MODELS))
def shape(request: pytest.FixtureRequest) -> TinyModel:
    return MODELS[request.param]


@pytest.fixture
def model(shape: TinyModel, tiny_models: Write, tmp_path: Path) -> Iterator[HybridModel]:
    set_card()
    model = HybridModel(tiny_models(shape), context=64, device=open_card(tmp_path))
    model.place(mixed(model))
    yield model
    model.close()
    assert charged() == 0


@pytest.fixture(scope="module")
def reference(shape: TinyModel, tiny_models: Write) -> Logits:
    return NativeModel(tiny_models(shape)).logits(TOKENS)
