from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import FormatError, UnsupportedError
from engine.gguf import REQUIRED, GGUFFile, Metadata
from tests.support.gguf_writer import GGUFBuilder, ValueType


@pytest.fixture
def metadata(tmp_path: Path) -> Metadata:
    builder = GGUFBuilder("llama")
    for kind in (ValueType.U8, ValueType.I8, ValueType.U16, ValueType.I16, ValueType.U32, ValueType.I32, ValueType.U64,
                 ValueType.I64):  # fmt: skip
        builder.add(f"7 as {kind.name}", 7, kind)
        builder.add(f"[1, 2] as {kind.name}", [1, 2], ValueType.ARRAY, kind)
    builder.add("negative", -1).add("wide", 2**32).add("float", 0.5).add("double", 0.25, ValueType.F64)
    builder.add("nan", float("nan")).add("infinite", float("inf")).add("true", True).add("zero", 0)
    builder.add_raw("bool of 2", ValueType.BOOL, b"\x02").add("text", "äh").add_raw(
        "latin", 8, b"\x01" + bytes(7) + b"\xe4"
    )
    builder.add("floats", [1.0, 0.5]).add("strings", ["a", "", "ü"]).add("negatives", [-1, 1])
    builder.add("latins", [b"\xe4", b"ok"], ValueType.ARRAY, ValueType.STRING)
    builder.add("wides", [1, 2**40], ValueType.ARRAY, ValueType.U64).add("empty", [])
    return GGUFFile.open(builder.write(tmp_path / "meta.gguf")).metadata


@pytest.mark.parametrize("kind", ["U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"])
def test_integers_of_any_width(metadata: Metadata, kind: str) -> None:
    key = f"7 as {kind}"
    assert metadata.u32(key) == metadata.u64(key) == metadata.i32(key) == 7
    assert metadata.u32_array_or_scalar(key, 3) == (7, 7, 7)
    assert metadata.u32_array_or_scalar(f"[1, 2] as {kind}", 2) == (1, 2)
    assert metadata.u32_array(f"[1, 2] as {kind}") == (1, 2)
    assert metadata.i32_array(f"[1, 2] as {kind}").dtype == np.int32


def test_plain_values(metadata: Metadata) -> None:
    assert metadata.u64("wide") == 2**32
    assert metadata.i32("negative") == -1
    assert metadata.f32("float") == 0.5 and metadata.f32("double") == 0.25
    assert metadata.bool("true") is True
    assert metadata.string("text") == "äh"
    assert metadata.f32_array("floats", count=2).tolist() == [1.0, 0.5]
    assert list(metadata.string_array("strings")) == ["a", "", "ü"]
    assert metadata.i32_array("negatives").tolist() == [-1, 1]
    assert metadata.u32_array("empty") == ()
    assert metadata.u32("zero", 5) == 0  # a zero is a value, and no default


def test_defaults(metadata: Metadata) -> None:
    assert metadata.u32("absent", 5) == 5
    assert metadata.f32("absent", None) is None
    assert metadata.string("absent", "") == ""
    assert metadata.u32_array_or_scalar("absent", 2, (0, 0)) == (0, 0)
    assert metadata.choice("absent", {"a": 1}, 2) == 2
    with pytest.raises(FormatError, match=r"meta\.gguf lacks the metadata key llama\.block_count \(a u32\)"):
        metadata.u32("llama.block_count", REQUIRED)


@pytest.mark.parametrize(
    ("method", "key", "expected", "found"),
    [
        ("u32", "negative", "a u32", "-1"),
        ("u32", "wide", "a u32", "4294967296"),
        ("u32", "float", "a u32", "f32"),
        ("u32", "true", "a u32", "bool"),
        ("u32", "text", "a u32", "string"),
        ("u32", "floats", "a u32", "array of 2 f32"),
        ("i32", "wide", "an i32", "4294967296"),
        ("f32", "zero", "an f32", "u32"),
        ("f32", "nan", "a finite f32", "nan"),
        ("f32", "infinite", "a finite f32", "inf"),
        ("bool", "zero", "a bool", "u32"),
        ("bool", "bool of 2", "a bool", "a bool of value 2"),
        ("string", "zero", "a string", "u32"),
        ("string", "latin", "a string", r"bytes that are not UTF-8 \(at 0\)"),
        ("string", "strings", "a string", "array of 3 string"),
        ("u32_array", "negatives", "an array of u32", "values from -1 to 1"),
        ("u32_array", "wides", "an array of u32", "values from 1 to 1099511627776"),
        ("u32_array", "zero", "an array of u32", "u32"),
        ("f32_array", "negatives", "an array of f32", "array of 2 i32"),
        ("string_array", "floats", "an array of strings", "array of 2 f32"),
    ],
)
def test_wrong_types_are_refused(metadata: Metadata, method: str, key: str, expected: str, found: str) -> None:
    with pytest.raises(FormatError, match=rf"^meta\.gguf: {key} must be {expected}, but is {found}\."):
        getattr(metadata, method)(key)


def test_wrong_counts_are_refused(metadata: Metadata) -> None:
    reads: list[Any] = [
        lambda: metadata.u32_array_or_scalar("[1, 2] as U32", 3),
        lambda: metadata.f32_array("floats", count=3),
        lambda: metadata.string_array("floats", count=2),
    ]
    for read in reads:
        with pytest.raises(FormatError):
            read()


def test_choices(metadata: Metadata) -> None:
    assert metadata.choice("text", {"äh": 1, "oh": 2}) == 1
    with pytest.raises(UnsupportedError, match=r"meta\.gguf: text is 'äh'; known are no, yes\."):
        metadata.choice("text", {"yes": True, "no": False})


def test_as_a_mapping_it_shows_everything(metadata: Metadata) -> None:
    assert metadata["latin"] == "�"
    assert list(metadata["latins"]) == ["�", "ok"]  # type: ignore[call-overload]
    assert metadata.string_array("latins").raw(0) == b"\xe4"
    assert "absent" not in metadata and metadata.get("absent") is None
    assert len(dict(metadata)) == len(metadata)


def test_arrays_cannot_be_written_to(metadata: Metadata) -> None:
    with pytest.raises(ValueError, match="read-only"):
        metadata["floats"][0] = 2.0  # type: ignore[index]


def test_texts_are_found_among_strings(tmp_path: Path) -> None:
    words = ["b", "", "ü", "ab", "b", "ba"]
    path = GGUFBuilder("llama").add("words", words).write(tmp_path / "words.gguf")
    found = GGUFFile.open(path).metadata.string_array("words").find(["b", "ü", "bb", "", "ba", "abc"])
    assert found == {"b": 0, "ü": 2, "ba": 5}
