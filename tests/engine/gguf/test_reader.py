"""What the reader gives, against the `gguf` package and against what was written."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.errors import FileError, FormatError, UnsupportedError
from engine.gguf import GGUFFile, QuantType
from tests.support.gguf_writer import GGUFBuilder, ValueType
from tests.support.tiny_models import FAMILIES, TinyModel

EVERY_TYPE = {
    "u8": (200, ValueType.U8), "i8": (-100, ValueType.I8), "u16": (60000, ValueType.U16),
    "i16": (-30000, ValueType.I16), "u32": (4_000_000_000, ValueType.U32), "i32": (-2_000_000_000, ValueType.I32),
    "u64": (2**64 - 1, ValueType.U64), "i64": (-(2**63), ValueType.I64), "f32": (0.5, ValueType.F32),
    "f64": (0.1, ValueType.F64), "bool": (True, ValueType.BOOL), "string": ("äöü 山田\n", ValueType.STRING),
}  # fmt: skip


def assert_same_as_package(path: Path) -> None:
    reference = gguf.GGUFReader(path)
    with GGUFFile.open(path) as file:
        fields = {key: field for key, field in reference.fields.items() if not key.startswith("GGUF.")}
        assert list(file.metadata) == list(fields)
        for key, field in fields.items():
            value = file.metadata[key]
            expected = field.contents()
            assert (list(value) if field.types[0] == gguf.GGUFValueType.ARRAY else value) == expected, key
        assert list(file.tensors) == [tensor.name for tensor in reference.tensors]
        for tensor in reference.tensors:
            info = file.tensors[tensor.name]
            assert info.ggml_shape == tuple(tensor.shape.tolist())
            assert info.shape == info.ggml_shape[::-1]
            assert (int(info.type), info.offset, info.n_bytes) == (
                int(tensor.tensor_type), tensor.data_offset, tensor.n_bytes,
            )  # fmt: skip
            assert bytes(file.buffer(tensor.name)) == tensor.data.tobytes()


@pytest.mark.parametrize("family", FAMILIES)
def test_tiny_models_as_the_package_reads_them(tiny_models: Callable[[TinyModel], Path], family: str) -> None:
    assert_same_as_package(tiny_models(TinyModel(family, "all", vocabulary=300)))


def test_the_tensors_stay_when_the_header_is_given_back(tiny_models: Callable[[TinyModel], Path]) -> None:
    with GGUFFile.open(tiny_models(TinyModel("llama"))) as file:
        name, before = next(iter(file.tensors)), file.file_bytes
        data = bytes(file.buffer(name))
        file.release_header()
        assert len(file.metadata) == 0 and len(file.header) == 0
        assert bytes(file.buffer(name)) == data and file.file_bytes == before
        file.check_unchanged()


def test_the_starter_model(starter_model: Path) -> None:
    with GGUFFile.open(starter_model) as file:
        assert file.architecture == "llama"
        assert file.file_bytes == starter_model.stat().st_size
        assert file.shards == (starter_model,)
        assert len(file.tensors) == 272
        tokens = file.metadata.string_array("tokenizer.ggml.tokens")
        assert len(tokens) == 49152
        assert tokens[1] == "<|im_start|>" and tokens[-1] == list(tokens)[-1] and tokens[:3] == list(tokens)[:3]
        info = file.tensors["token_embd.weight"]
        assert (info.type, info.shape, info.n_bytes) == (QuantType.Q8_0, (49152, 576), 49152 * 576 // 32 * 34)
        file.check_unchanged()


@pytest.mark.parametrize("version", [2, 3])
def test_every_value_type_comes_back(tmp_path: Path, version: int) -> None:
    builder = GGUFBuilder("test", version=version)
    for key, (value, kind) in EVERY_TYPE.items():
        builder.add(key, value, kind)
        builder.add(f"{key}s", [value, value], ValueType.ARRAY, kind)
        builder.add(f"no {key}", [], ValueType.ARRAY, kind)
    with GGUFFile.open(builder.write(tmp_path / "m.gguf")) as file:
        assert file.version == version
        for key, (value, _) in EVERY_TYPE.items():
            assert file.metadata[key] == value
            assert type(file.metadata[key]) is type(value)
            assert list(file.metadata[f"{key}s"]) == [value, value]
            assert list(file.metadata[f"no {key}"]) == []


def test_shapes_alignment_and_order(tmp_path: Path) -> None:
    data = np.arange(24, dtype=np.float32)
    builder = GGUFBuilder("test", alignment=64)
    builder.tensor("b", (2, 3, 4), QuantType.F32, data).tensor("a", (), QuantType.F32, data[:1])
    builder.tensor("c", (32,), QuantType.Q8_0)
    with GGUFFile.open(builder.write(tmp_path / "m.gguf")) as file:
        assert list(file.tensors) == ["b", "a", "c"]
        assert file.tensors["b"].ggml_shape == (4, 3, 2)
        assert file.tensors["a"].shape == () and file.tensors["a"].elements == 1
        assert all(info.offset % 64 == 0 for info in file.tensors.values())
        assert np.frombuffer(file.buffer("b"), np.float32).tolist() == data.tolist()


def test_tensors_may_stand_in_any_order_and_apart(tmp_path: Path) -> None:
    builder = GGUFBuilder().tensor("late", (8,), offset=128).tensor("early", (8,), offset=0)
    with GGUFFile.open(builder.write(tmp_path / "m.gguf")) as file:
        assert file.tensors["late"].offset - file.tensors["early"].offset == 128


def test_unknown_types_are_listed_and_named(tmp_path: Path) -> None:
    builder = GGUFBuilder().tensor_raw("odd", (256, 2), 43, bytes(100)).tensor("even", (8,))
    builder.tensor_raw("last", (256,), 139, bytes(64))
    with GGUFFile.open(builder.write(tmp_path / "m.gguf")) as file:
        odd = file.tensors["odd"]
        assert odd.type_name == "unsupported type 43" and not odd.is_known_type
        assert odd.n_bytes == 128 == file.tensors["even"].offset - odd.offset  # as far as the next one
        assert file.tensors["last"].n_bytes == 64
        with pytest.raises(UnsupportedError, match="'odd' is of unsupported type 43"):
            _ = odd.type


def test_a_vocabulary_without_tensors(tmp_path: Path) -> None:
    with GGUFFile.open(GGUFBuilder().write(tmp_path / "v.gguf")) as file:
        assert not file.tensors


def test_buffers_are_read_only_and_outlive_the_file(tmp_path: Path) -> None:
    file = GGUFFile.open(
        GGUFBuilder().tensor("t", (8,), QuantType.F32, np.ones(8, np.float32)).write(tmp_path / "m.gguf")
    )
    buffer = file.buffer("t")
    assert buffer.readonly
    file.close()
    file.close()
    del file
    gc.collect()
    assert np.frombuffer(buffer, np.float32).sum() == 8


def test_a_closed_file_maps_nothing(tmp_path: Path) -> None:
    file = GGUFFile.open(GGUFBuilder().tensor("t", (8,)).write(tmp_path / "m.gguf"))
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.buffer("t")


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    path = GGUFBuilder().tensor("t", (8,)).write(tmp_path / "m.gguf")
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(path.read_bytes()[:40])
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        file = GGUFFile.open(path)
        file.buffer("t")
        file.close()
        del file
        with pytest.raises(FileError):
            GGUFFile.open(bad)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("name", ["山田　太郎 é 🦙.gguf", "a" * 200 + ".gguf", os.fsdecode(b"n\xff\xfet utf-8.gguf")])
def test_any_file_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with GGUFFile.open(GGUFBuilder().tensor("t", (8,)).write(path)) as file:
        assert file.path == path
    path.write_bytes(b"GGUF")
    with pytest.raises(FileError) as error:
        GGUFFile.open(path)
    str(error.value).encode()  # can be shown


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    for path in (tmp_path, tmp_path / "pipe.gguf", Path("/dev/null")):
        with pytest.raises(FileError, match="not a file"):
            GGUFFile.open(path)
    with pytest.raises(FileError, match=re.escape(f"{tmp_path / 'absent.gguf'} is not there")):
        GGUFFile.open(tmp_path / "absent.gguf")
    with pytest.raises(FileError, match="cannot be opened"):
        GGUFFile.open(tmp_path / "nul\0.gguf")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("engine.gguf.shard.os.open", refuse)  # the tests may run as root, who may read all
    with pytest.raises(FileError, match="may not be read"):
        GGUFFile.open(tmp_path / "m.gguf")


def test_a_vocabulary_of_250_thousand_tokens(tmp_path: Path) -> None:
    count = 250_000
    builder = GGUFBuilder("llama")
    builder.add("tokenizer.ggml.tokens", [f"token {i}" for i in range(count)])
    builder.add("tokenizer.ggml.scores", np.arange(count, dtype=np.float32))
    builder.add("after", "the big ones").tensor("t", (8,))
    with GGUFFile.open(builder.write(tmp_path / "m.gguf")) as file:
        assert file.metadata.string("after") == "the big ones"
        tokens = file.metadata.string_array("tokenizer.ggml.tokens", count=count)
        assert (tokens[0], tokens[123_456], tokens[-1]) == ("token 0", "token 123456", "token 249999")
        assert file.metadata.f32_array("tokenizer.ggml.scores")[-1] == count - 1


def test_headers_read_in_any_number_of_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = GGUFBuilder().add("strings", [("x" * i) for i in range(40)]).add("n", 7).tensor("t", (8,))
    path = builder.write(tmp_path / "m.gguf")
    for size in (1, 2, 3, 7, 24, 64, 100):
        monkeypatch.setattr("engine.gguf.header._FIRST_READ", size)
        with GGUFFile.open(path) as file:
            assert list(file.metadata["strings"]) == ["x" * i for i in range(40)]  # type: ignore[call-overload]
            assert file.metadata.u32("n") == 7 and list(file.tensors) == ["t"]


@pytest.mark.parametrize(
    ("limit", "value", "message"),
    [
        ("MAX_HEADER_BYTES", 100, "a header has at most 100"),
        ("MAX_PAIRS", 1, "announces 2 metadata entries; at most 1 are supported"),
        ("MAX_TENSORS", 1, "announces 2 tensors; at most 1 are supported"),
        ("MAX_KEY_BYTES", 3, "has a key of 20 bytes"),
    ],
)
def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, message: str) -> None:
    path = GGUFBuilder().add("list", ["x"] * 20).tensor("a", (8,)).tensor("b", (8,)).write(tmp_path / "m.gguf")
    GGUFFile.open(path).close()
    monkeypatch.setattr(f"engine.gguf.header.{limit}", value)
    with pytest.raises(FormatError, match=message):
        GGUFFile.open(path)
