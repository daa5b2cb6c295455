"""Models on the stand-in card."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.hybrid_model import HybridModel
from tests.support.stand_in_card import charged, no_compiler, open_card, set_card


@pytest.fixture(scope="module")
def card() -> Iterator[None]:
    """The stand-in reads no images, so none are made; afterwards it has the memory that it has at first."""
    with no_compiler():
        yield
    set_card()


@pytest.fixture
def open_on_card(card: None, tmp_path: Path) -> Iterator[Callable[[Path], HybridModel]]:
    """Opens a model of 64 tokens' context beside an empty card; in the end everything went back to the driver."""
    set_card()
    opened: list[HybridModel] = []

    def open_model(path: Path) -> HybridModel:
        opened.append(HybridModel(path, context=64, device=open_card(tmp_path)))
        return opened[-1]

    yield open_model
    for model in opened:
        model.close()
    assert charged() == 0
