"""What a file's quantisation is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.gguf import GGUFFile, QuantType
from engine.models.quantization import quantization_name
from tests.support.gguf_writer import GGUFBuilder


def name_of(builder: GGUFBuilder, tmp_path: Path) -> str:
    with GGUFFile.open(builder.write(tmp_path / "m.gguf")) as gguf:
        return quantization_name(gguf)


@pytest.mark.parametrize(("file_type", "name"), [(0, "F32"), (3, "Q4_1"), (15, "Q4_K_M"), (32, "BF16")])
def test_the_files_own_word(tmp_path: Path, file_type: int, name: str) -> None:
    assert name_of(GGUFBuilder().add("general.file_type", file_type), tmp_path) == name


@pytest.mark.parametrize("file_type", [None, 999])
def test_otherwise_the_type_of_most_bytes(tmp_path: Path, file_type: int | None) -> None:
    builder = GGUFBuilder().tensor("a", (4, 256), QuantType.Q6_K).tensor("b", (2, 32), QuantType.F32)
    if file_type is not None:
        builder.add("general.file_type", file_type)
    assert name_of(builder, tmp_path) == "Q6_K"
