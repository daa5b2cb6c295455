"""Names and sizes of model files."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.model_files import ModelFile, find_models, format_bytes, model_to_begin_with
from engine.hub.names import STARTER_FILE
from tests.support.gguf_writer import GGUFBuilder
from tests.support.small_gguf import small_gguf


@pytest.mark.parametrize(
    ("file", "name", "quantization"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct", "Q4_1"),
        ("qwen3-0.6b.gguf", "qwen3-0.6b", ""),
        ("Qwen3-30B-A3B-UD-Q4_K_XL.gguf", "Qwen3-30B-A3B", "UD-Q4_K_XL"),
        ("model-IQ2_XXS.gguf", "model", "IQ2_XXS"),
        ("gpt-oss-20b-MXFP4.gguf", "gpt-oss-20b", "MXFP4"),
        ("big-BF16-00001-of-00003.gguf", "big", "BF16"),
        ("Q8_0.gguf", "Q8 0", ""),
    ],
)
def test_names(file, name, quantization):
    model = ModelFile(Path(file), 1)
    assert (model.name, model.quantization) == (name, quantization)


def test_split_models_are_one_and_hidden_folders_are_none(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").mkdir()
    for part in (1, 2, 3):
        (tmp_path / "sub" / f"b-0000{part}-of-00003.gguf").write_bytes(b"x" * part)
    (tmp_path / "A.gguf").write_bytes(b"xy")
    (tmp_path / ".hidden" / "c.gguf").write_bytes(b"x")
    (tmp_path / "lost-00002-of-00002.gguf").write_bytes(b"x")
    (tmp_path / "note.txt").write_bytes(b"x")
    assert [(model.path.name, model.size) for model in find_models(tmp_path)] == [
        ("A.gguf", 2),
        ("b-00001-of-00003.gguf", 6),
    ]
    assert find_models(tmp_path / "nowhere") == []


def test_what_is_no_model_is_not_offered(tmp_path):
    """Projectors as prefix and suffix, calibration, draft heads, pieces; and what only the header tells apart."""
    for name in (
        "mmproj-F16.gguf",
        "Model-VL-mmproj-F16.gguf",
        "imatrix.gguf",
        "mtp-Model.gguf",
        "big-00001-of-00002.gguf",
        "Model-VL-Q4_0.gguf",
    ):
        (tmp_path / name).write_bytes(b"x")
    GGUFBuilder("clip").add("general.name", "Safetensors").write(tmp_path / "vision.gguf")
    small_gguf().add("general.type", "adapter").write(tmp_path / "style.gguf")
    small_gguf().write(tmp_path / "Real-Q8_0.gguf")
    assert [model.path.name for model in find_models(tmp_path)] == ["Model-VL-Q4_0.gguf", "Real-Q8_0.gguf"]


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 bytes"), (999, "999 bytes"), (98_362_432, "98.4 MB"), (17_300_000_000, "17.3 GB")]
)
def test_sizes(count, words):
    assert format_bytes(count) == words


def test_the_first_start_takes_the_starter_model_or_the_smallest(tmp_path):
    large, small = ModelFile(tmp_path / "a.gguf", 40_000_000_000), ModelFile(tmp_path / "b.gguf", 400_000_000)
    starter = ModelFile(tmp_path / STARTER_FILE, 98_400_000)
    assert model_to_begin_with([], "") is None
    assert model_to_begin_with([large, small], "") == small.path
    assert model_to_begin_with([large, ModelFile(tmp_path / "c.gguf", 1), starter], "") == starter.path
    last = tmp_path / "last.gguf"
    assert model_to_begin_with([small], str(last)) == small.path  # it is gone
    last.touch()
    assert model_to_begin_with([small, starter], str(last)) == last
