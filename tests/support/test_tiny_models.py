"""The helpers themselves: what they write is read back, and is the same every time."""

from __future__ import annotations
from collections.abc import Callable
from pathlib import Path
import pytest
from engine.gguf import GGUFFile
from tests.support.tiny_models import FAMILIES, TinyModel


@pytest.mark.parametrize("family", FAMILIES)
def test_opens(tiny_models: Callable[[TinyModel], Path], family: str) -> None:
    with GGUFFile.open(tiny_models(TinyModel(family, "all"))) as file:
        assert file.architecture == TinyModel(family).architecture
