from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from engine.errors import FormatError
from engine.gguf import GGUFFile, IncompleteSplitError, QuantType
from engine.gguf.split import split_paths
from tests.support.gguf_writer import GGUFBuilder, ValueType, shard_name, write_split


@pytest.fixture
def builder() -> GGUFBuilder:
    builder = GGUFBuilder("llama").add("llama.block_count", 6)
    for layer in range(6):
        builder.tensor(f"blk.{layer}.w", (4, 8), QuantType.F32, np.full(32, layer, np.float32))
    return builder


@pytest.fixture
def parts(builder: GGUFBuilder, tmp_path: Path) -> list[Path]:
    return write_split(builder, tmp_path, "model", [2, 3, 1])


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_any_part_opens_the_set(parts: list[Path], chosen: int) -> None:
    with GGUFFile.open(parts[chosen]) as file:
        assert file.path == parts[0]
        assert file.shards == tuple(parts)
        assert file.file_bytes == sum(part.stat().st_size for part in parts)
        assert file.architecture == "llama"
        assert len(file.tensors) == 6 == file.metadata.u32("llama.block_count")
        assert [info.shard for info in file.tensors.values()] == [0, 0, 1, 1, 1, 2]
        for layer in range(6):
            assert set(np.frombuffer(file.buffer(f"blk.{layer}.w"), np.float32)) == {layer}
        file.check_unchanged()


def test_a_first_part_without_tensors(builder: GGUFBuilder, tmp_path: Path) -> None:
    parts = write_split(builder, tmp_path, "model", [0, 6])
    with GGUFFile.open(parts[1]) as file:
        assert len(file.tensors) == 6
        assert len(file.data()) == file.shard_bytes[1] > file.shard_bytes[0]


def test_many_parts(tmp_path: Path) -> None:
    builder = GGUFBuilder("llama")
    for layer in range(12):
        builder.tensor(f"blk.{layer}.w", (8,))
    parts = write_split(builder, tmp_path, "m-00002-of-00003", [1] * 12)
    with GGUFFile.open(parts[11]) as file:
        assert len(file.tensors) == 12


@pytest.mark.parametrize(("gone", "chosen"), [([1], 0), ([0], 1), ([0, 2], 1)])
def test_missing_parts_are_named(parts: list[Path], gone: list[int], chosen: int) -> None:
    for index in gone:
        parts[index].unlink()
    with pytest.raises(IncompleteSplitError) as error:
        GGUFFile.open(parts[chosen])
    assert error.value.missing == tuple(parts[index] for index in gone)
    assert error.value.present == tuple(part for index, part in enumerate(parts) if index not in gone)
    assert all(parts[index].name in str(error.value) for index in gone)


def test_parts_joined_with_cat_are_explained(parts: list[Path], tmp_path: Path) -> None:
    joined = b"".join(part.read_bytes() for part in parts)
    for name in ("joined.gguf", parts[0].name):
        (tmp_path / name).write_bytes(joined)
        with pytest.raises(FormatError, match="seems to be several of 3 parts of a split model in one file") as error:
            GGUFFile.open(tmp_path / name)
        assert "separate files" in error.value.remedy


def test_a_renamed_part_is_explained(parts: list[Path], tmp_path: Path) -> None:
    moved = parts[0].rename(tmp_path / "my model.gguf")
    with pytest.raises(FormatError, match=r"is part 1 of a model split into 3 files.*NAME-00001-of-00003\.gguf"):
        GGUFFile.open(moved)


def test_swapped_parts_are_refused(parts: list[Path]) -> None:
    shutil.copy(parts[1], parts[2])
    with pytest.raises(FormatError, match=r"model-00003-of-00003\.gguf: says it is part 2 of 3"):
        GGUFFile.open(parts[0])
    with pytest.raises(FormatError, match="is part 2 of a model split into 3"):
        GGUFFile.open(parts[2])


def test_parts_of_two_models_are_refused(parts: list[Path], builder: GGUFBuilder, tmp_path: Path) -> None:
    builder.tensor("blk.6.w", (8,))
    (tmp_path / "other").mkdir()
    other = write_split(builder, tmp_path / "other", "model", [2, 3, 2])
    shutil.copy(other[2], parts[2])
    with pytest.raises(FormatError, match="the 3 parts hold 6 tensors; they hold 7"):
        GGUFFile.open(parts[0])


def test_a_tensor_in_two_parts_is_refused(tmp_path: Path) -> None:
    for index in range(2):
        builder = GGUFBuilder().add("split.no", index, ValueType.U16).add("split.count", 2, ValueType.U16)
        builder.tensor("t", (8,)).write(tmp_path / shard_name("m", index, 2))
    with pytest.raises(FormatError, match=r"tensor 't' is in m-00001-of-00002\.gguf too"):
        GGUFFile.open(tmp_path / shard_name("m", 0, 2))


def test_a_broken_part_is_named(parts: list[Path]) -> None:
    parts[1].write_bytes(parts[1].read_bytes()[:60])
    with pytest.raises(FormatError, match=r"model-00002-of-00003\.gguf"):
        GGUFFile.open(parts[0])


def test_one_part_alone_is_a_whole_model(tmp_path: Path) -> None:
    builder = GGUFBuilder().add("split.no", 0, ValueType.U16).add("split.count", 1, ValueType.U16).tensor("t", (8,))
    with GGUFFile.open(builder.write(tmp_path / "m.gguf")) as file:
        assert len(file.tensors) == 1


def test_names() -> None:
    assert split_paths(Path("plain.gguf")) is None
    assert split_paths(Path("m-00004-of-00003.gguf")) is None
    paths = split_paths(Path("d/m-00002-of-00002.gguf"))
    assert paths == (Path("d/m-00001-of-00002.gguf"), Path("d/m-00002-of-00002.gguf"))
