from __future__ import annotations

import itertools
import random
import struct

import pytest

from kernels import _cpu

TEXTS = [b"ab", b"", b"xyz" * 50, b"\xff"]
PACKED = b"".join(struct.pack("<Q", len(text)) + text for text in TEXTS)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_offsets(wrap: type) -> None:
    buffer = wrap(b"head" + PACKED)
    offsets = _cpu.string_offsets(buffer, 4, len(TEXTS)).tolist()
    assert [bytes(buffer[a : b - 8]) for a, b in itertools.pairwise(offsets)] == TEXTS
    assert _cpu.string_offsets(buffer, 4, 0).tolist() == [12]


def test_skipping_stops_where_the_buffer_ends() -> None:
    ends = [0]
    for text in TEXTS:
        ends.append(ends[-1] + 8 + len(text))
    for size in range(len(PACKED) + 1):
        whole = sum(end <= size for end in ends[1:])
        assert _cpu.skip_strings(PACKED[:size], 0, len(TEXTS)) == (whole, ends[whole])
    assert _cpu.skip_strings(PACKED, 0, 2) == (2, ends[2])


@pytest.mark.parametrize("length", [2**64 - 1, 2**64 - 8, 2**63, 2**63 - 1, len(PACKED)])
def test_lengths_that_lie(length: int) -> None:
    buffer = struct.pack("<Q", length) + PACKED[8:]
    assert _cpu.skip_strings(buffer, 0, 4) == (0, 0)
    with pytest.raises(IndexError):
        _cpu.string_offsets(buffer, 0, 1)


@pytest.mark.parametrize(("position", "count"), [(-1, 1), (len(PACKED) + 1, 1), (0, -1), (2**62, 1)])
def test_arguments_outside(position: int, count: int) -> None:
    with pytest.raises(IndexError):
        _cpu.skip_strings(PACKED, position, count)
    with pytest.raises(IndexError):
        _cpu.string_offsets(PACKED, position, count)


def test_counts_beyond_the_buffer_allocate_nothing() -> None:
    with pytest.raises(IndexError, match="more strings than the buffer can hold"):
        _cpu.string_offsets(PACKED, 0, 2**61)


def packed(texts: list[bytes]) -> bytes:
    return b"".join(struct.pack("<Q", len(text)) + text for text in texts)


def test_strings_within_a_text() -> None:
    chance = random.Random(1)
    for size in (0, 1, 2, 3, 4, 5, 40, 300):
        text = bytes(chance.choice(b"abc") for _ in range(size))
        texts = [bytes(chance.choice(b"abc") for _ in range(chance.randrange(9))) for _ in range(500)] + [
            text,
            text + b"a",
        ]
        expected = [index for index, one in enumerate(texts) if len(one) >= 2 and one in text]
        assert _cpu.strings_within(packed(texts), 0, len(texts), text, False).tolist() == expected


def test_pairs_within_a_text() -> None:
    """Parted at the first space after their first byte; where there is none, they are no pair."""
    text = b"hello a b"
    texts = [
        b"he ll",
        b"hell o",
        b"h e",
        b"hello",
        b"x y",
        b"",
        b" ",
        b"h ",
        b"  a",
        b"o  a",
        b"l l o",
        b"hello a b ",
        b"llo a b",
    ]
    found = _cpu.strings_within(packed(texts), 0, len(texts), text, True).tolist()
    assert [texts[index] for index in found] == [b"he ll", b"hell o", b"h e", b"  a", b"o  a"]


def test_strings_within_a_buffer_that_ends() -> None:
    with pytest.raises(IndexError):
        _cpu.strings_within(PACKED[:-1], 0, len(TEXTS), b"ab", False)
    with pytest.raises(IndexError):
        _cpu.strings_within(PACKED, -1, 1, b"ab", False)
