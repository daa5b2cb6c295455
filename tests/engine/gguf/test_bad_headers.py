"""Every way a header can lie: each is an error that names the file, the key or tensor, and the bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import EngineError, FormatError, UnsupportedError
from engine.gguf import GGUFFile, QuantType, TruncatedFileError
from tests.support.gguf_writer import GGUFBuilder, ValueType

Build = Callable[[], GGUFBuilder]


def lying(**counts: int) -> GGUFBuilder:
    builder = GGUFBuilder().tensor("t", (8,))
    for name, value in counts.items():
        setattr(builder, name, value)
    return builder


def string_array(count: int, *lengths: int) -> bytes:
    """An array of strings whose count and lengths are free to lie; no text follows."""
    return struct.pack("<IQ", ValueType.STRING, count) + b"".join(struct.pack("<Q", length) for length in lengths)


def tensor(dims: tuple[int, ...], kind: QuantType = QuantType.F32) -> Build:
    return lambda: GGUFBuilder().tensor_raw("t", dims, kind, bytes(64))


def align(value: object, kind: ValueType = ValueType.U32) -> Build:
    return lambda: GGUFBuilder().add("general.alignment", value, kind).tensor("t", (8,))


CASES: dict[str, tuple[Build, type[EngineError], str]] = {
    # versions and byte order
    "version 1": (lambda: GGUFBuilder(version=1), UnsupportedError, "of GGUF version 1; versions 2 and 3 are known"),
    "version 4": (lambda: GGUFBuilder(version=4), UnsupportedError, "of GGUF version 4"),
    "version 0": (lambda: GGUFBuilder(version=0), UnsupportedError, "of GGUF version 0"),
    "big-endian": (lambda: GGUFBuilder(big_endian=True), UnsupportedError, r"big-endian GGUF file \(version 3\)"),
    # counts
    "too many tensors": (lambda: lying(tensor_count=1000), TruncatedFileError, "announces 1000 tensors"),
    "2^64-1 tensors": (lambda: lying(tensor_count=2**64 - 1), TruncatedFileError, f"announces {2**64 - 1} tensors"),
    "one tensor more": (lambda: lying(tensor_count=2), FormatError, "tensor 1 has no name"),
    "too many pairs": (lambda: lying(pair_count=1000), TruncatedFileError, "announces 1000 metadata entries"),
    "2^63 pairs": (lambda: lying(pair_count=2**63), TruncatedFileError, "metadata entries"),
    "one pair more": (lambda: lying(pair_count=2), FormatError, "m.gguf"),
    # keys
    "empty key": (lambda: GGUFBuilder().add("", 1), FormatError, "entry 1 has a key of 0 bytes"),
    "long key": (lambda: GGUFBuilder().add("k" * 65536, 1), FormatError, "has a key of 65536 bytes"),
    "duplicate key": (lambda: GGUFBuilder().add("a", 1).add("a", 2), FormatError, "key 'a' occurs twice"),
    "key not UTF-8": (lambda: GGUFBuilder().add(b"\xff\xfe", 1), FormatError, r"key '\\\\xff\\\\xfe' .* not UTF-8"),
    # values
    "unknown value type": (lambda: GGUFBuilder().add_raw("k", 13, b""), FormatError, "'k' has the unknown type 13"),
    "unknown item type": (
        lambda: GGUFBuilder().add_raw("k", 9, struct.pack("<IQ", 99, 0)), FormatError, "'k' has the unknown type 99",
    ),
    "array of arrays": (
        lambda: GGUFBuilder().add_raw("k", 9, struct.pack("<IQ", 9, 0)), UnsupportedError, "'k' is an array of arrays",
    ),
    "endless string": (
        lambda: GGUFBuilder().add_raw("k", 8, struct.pack("<Q", 2**64 - 1)), TruncatedFileError, "key 'k' ends at byte",
    ),
    "endless array": (
        lambda: GGUFBuilder().add_raw("k", 9, struct.pack("<IQ", 4, 2**62)), TruncatedFileError, "'k' announces",
    ),
    "endless string array": (
        lambda: GGUFBuilder().add_raw("k", 9, string_array(2**61)), TruncatedFileError, "'k' announces",
    ),
    "string in an array too long": (
        lambda: GGUFBuilder().add_raw("k", 9, string_array(2, 0, 2**40)), TruncatedFileError, "'k' ends at byte",
    ),
    "length that wraps": (
        lambda: GGUFBuilder().add_raw("k", 9, string_array(2, 0, 2**64 - 8)), TruncatedFileError, "'k' ends at byte",
    ),
    # alignment
    "alignment 0": (align(0), FormatError, "general.alignment is 0"),
    "alignment 1": (align(1), FormatError, "general.alignment is 1"),
    "alignment 3": (align(3), FormatError, "general.alignment is 3"),
    "alignment 48": (align(48), FormatError, "general.alignment is 48"),
    "alignment 2^30": (align(2**30), TruncatedFileError, "tensor 't'"),
    "alignment 2^31": (align(2**31), TruncatedFileError, "tensor 't'"),
    "alignment as text": (align("32", ValueType.STRING), FormatError, "general.alignment must be a u32, but is string"),
    "alignment as float": (align(32.0, ValueType.F32), FormatError, "general.alignment must be a u32, but is f32"),
    "alignment negative": (align(-32, ValueType.I32), FormatError, "general.alignment must be a u32, but is -32"),
    # tensor infos
    "tensor without name": (lambda: GGUFBuilder().tensor("", (8,)), FormatError, "tensor 0 has no name"),
    "tensor name not UTF-8": (lambda: GGUFBuilder().tensor(b"\xff", (8,)), FormatError, "not UTF-8"),
    "duplicate tensor": (
        lambda: GGUFBuilder().tensor("t", (8,)).tensor("t", (8,)), FormatError, "tensor name 't' occurs twice",
    ),
    "5 dimensions": (tensor((1, 1, 1, 1, 1)), FormatError, "tensor 't' has 5 dimensions"),
    "9 dimensions": (tensor((1,) * 9), FormatError, "tensor 't' has 9 dimensions"),
    "dimension 0": (tensor((8, 0)), FormatError, r"'t' has an empty dimension: \[8, 0\]"),
    "dims that wrap": (tensor((2**64 - 1, 2)), FormatError, "size of tensor 't' overflows"),
    "dims that wrap to 0": (tensor((2**32, 2**32)), FormatError, "size of tensor 't' overflows"),
    "bytes that wrap": (tensor((2**61, 1)), TruncatedFileError, "tensor 't' takes bytes"),
    "row no multiple of the block": (
        tensor((100,), QuantType.Q4_K), FormatError, "'t' has rows of 100 values, no multiple of Q4_K's block of 256",
    ),
    "offset past the end": (
        lambda: GGUFBuilder().tensor("t", (8,), offset=1 << 40), TruncatedFileError, "tensor 't' takes bytes",
    ),
    "offset that wraps": (
        lambda: GGUFBuilder().tensor("t", (8,), offset=2**64 - 32), TruncatedFileError, "tensor 't' takes bytes",
    ),
    "unknown type past the end": (
        lambda: GGUFBuilder().tensor_raw("t", (8,), 43, offset=1 << 40), TruncatedFileError, "tensor 't' takes bytes",
    ),
    "offset not aligned": (
        lambda: GGUFBuilder().tensor("t", (64,), offset=8), FormatError, "'t' begins at offset 8, no multiple of 32",
    ),
    "overlap": (
        lambda: GGUFBuilder().tensor("a", (16,)).tensor("b", (8,), offset=32), FormatError, "'a' and 'b' overlap",
    ),
    "the same place twice": (
        lambda: GGUFBuilder().tensor("a", (8,)).tensor("b", (8,), offset=0), FormatError, "overlap at offset 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_by_name(tmp_path: Path, case: str) -> None:
    build, kind, message = CASES[case]
    builder = build()
    path = builder.write(tmp_path / "m.gguf")
    with pytest.raises(kind, match=message) as error:
        GGUFFile.open(path)
    assert "m.gguf" in str(error.value)


def test_more_than_four_billion_dimensions(tmp_path: Path) -> None:
    data = bytearray(GGUFBuilder().tensor("t", (8,)).build())
    at = data.index(b"\x01\0\0\0\0\0\0\0t") + 9
    data[at : at + 4] = b"\xff\xff\xff\xff"
    (tmp_path / "m.gguf").write_bytes(data)
    with pytest.raises(FormatError, match="tensor 't' has 4294967295 dimensions"):
        GGUFFile.open(tmp_path / "m.gguf")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "m.gguf is empty"),
        (b"G", "cut short"),
        (b"GGU", "cut short"),
        (b"GGUF", "cut short: the version ends at byte 8"),
        (b"PK\x03\x04" + bytes(40), "a zip archive"),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (b"ggjt" + bytes(40), "an old GGML file"),
        (b"\0\1\2\3" + bytes(40), "begins with 0x00010203"),
        (b"# Te" + bytes(40), "begins with “# Te”"),
    ],
)
def test_other_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        GGUFFile.open(path)


def test_cut_at_every_byte(tmp_path: Path) -> None:
    builder = GGUFBuilder(alignment=32).add("s", "text").add("a", [1, 2, 3]).add("strings", ["x", "yy", ""])
    builder.tensor("first", (2, 32), QuantType.Q8_0).tensor("second", (9,))
    whole = builder.build()
    end = len(whole) - (-(9 * 4) % 32)  # the padding after the last tensor may be missing
    path = tmp_path / "m.gguf"
    for size in range(end):
        path.write_bytes(whole[:size])
        with pytest.raises(TruncatedFileError) as error:
            GGUFFile.open(path)
        assert error.value.actual_bytes == size < error.value.needed_bytes <= end
    for size in range(end, len(whole) + 1):
        path.write_bytes(whole[:size])
        GGUFFile.open(path).close()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_cut_data_names_the_tensor_and_the_bytes(tmp_path: Path, share: float) -> None:
    builder = GGUFBuilder()
    for layer in range(10):
        builder.tensor(f"blk.{layer}.weight", (16, 64))
    whole = builder.build()
    begin = -(-len(builder.header()) // 32) * 32
    size = begin + int(share * (len(whole) - begin))
    path = tmp_path / "m.gguf"
    path.write_bytes(whole[:size])
    layer = (size - begin) // 4096
    ends = begin + 4096 * (layer + 1)
    with pytest.raises(
        TruncatedFileError, match=f"tensor 'blk.{layer}.weight' takes bytes .* to {ends}, the file has {size}"
    ):
        GGUFFile.open(path)
