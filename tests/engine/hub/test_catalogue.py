"""The curated list: complete, sane, readable without any network."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import FormatError
from engine.hub.catalogue import read_catalogue
from engine.hub.names import quantization_label

CATALOGUE = Path(__file__).parents[3] / "assets" / "catalogue.json"


def test_twelve_models_from_half_a_billion_to_120() -> None:
    models = read_catalogue(CATALOGUE)
    assert len(models) == len({model.file for model in models}) == 12
    assert models[0].billions == 0.5
    assert 110 < models[-1].billions < 125
    for model in models:
        owner, _, name = model.repository.partition("/")
        assert owner and name.lower().endswith("-gguf")
        assert model.file.endswith(".gguf")
        assert quantization_label(model.file) == model.quantization
        assert model.why.endswith(".")
        assert 3.5 < model.gigabytes * 8 / model.billions < 9  # bits per weight of what is named


def test_damaged_catalogue_is_named(tmp_path: Path) -> None:
    (tmp_path / "catalogue.json").write_text('{"models": [{"title": "x"}]}')
    with pytest.raises(FormatError, match=r"catalogue\.json"):
        read_catalogue(tmp_path / "catalogue.json")
