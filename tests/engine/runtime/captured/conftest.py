"""A model on the stand-in card, half on the processor: dense, and with experts."""

from __future__ import annotations

import pytest

from tests.support.captured_steps import MODELS, TOKENS, Write, mixed
from tests.support.hybrid_model import HybridModel, Open
from tests.support.native_model import Logits, NativeModel
from tests.support.tiny_models import TinyModel


@pytest.fixture(autouse=True, scope="module")
def uses_card(card: None) -> None:
    """Of all tests here."""


@pytest.fixture(scope="module", params=list(MODELS))
def shape(request: pytest.FixtureRequest) -> TinyModel:
    return MODELS[request.param]


@pytest.fixture
def model(shape: TinyModel, tiny_models: Write, open_on_card: Open) -> HybridModel:
    model = open_on_card(tiny_models(shape))
    model.place(mixed(model))
    return model


@pytest.fixture(scope="module")
def reference(shape: TinyModel, tiny_models: Write) -> Logits:
    return NativeModel(tiny_models(shape)).logits(TOKENS)
