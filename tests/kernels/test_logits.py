"""The best candidates of a vocabulary, against a sort; NaN, infinities, ties and sizes that fill no block."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels import _cpu

CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


def best(logits: NDArray[np.float32], count: int) -> tuple[int, NDArray[np.void]]:
    records = np.zeros(logits.size, CANDIDATE)
    first, found = _cpu.best_logits(logits, count, records.view(np.uint8))
    return first, records[:found]


@pytest.mark.parametrize("size", [1, 15, 63, 64, 65, 1000, 49152, 49153])
@pytest.mark.parametrize("count", [1, 2, 40, 100_000])
@pytest.mark.parametrize("ties", [False, True])
def test_no_candidate_is_lost(size: int, count: int, ties: bool) -> None:
    logits = np.random.default_rng(size + count).standard_normal(size).astype(np.float32)
    logits = np.round(logits) if ties else logits
    logits[:: max(1, size // 7)] = -np.inf
    first, records = best(logits, count)
    assert first == logits.argmax()
    np.testing.assert_array_equal(records["logit"], logits[records["id"]])
    assert (np.diff(records["id"]) > 0).all()
    least = np.sort(logits)[::-1][min(count, size) - 1]
    assert set((logits > least).nonzero()[0]) <= set(records["id"])
    assert (records["logit"] >= least).sum() >= min(count, size)
    assert records["p"].max(initial=0.0) == 0


def test_few_others_are_taken() -> None:
    logits = np.random.default_rng(0).standard_normal(150_000).astype(np.float32)
    assert 40 <= len(best(logits, 40)[1]) <= 60


@pytest.mark.parametrize("at", [0, 17, 64, 999])
def test_the_first_nan_is_told(at: int) -> None:
    logits = np.zeros(1000, np.float32)
    logits[[at, 999]] = np.nan
    first, records = best(logits, 5)
    assert first == at
    assert len(records) == 0


def test_records_must_suffice() -> None:
    logits = np.zeros(10, np.float32)
    with pytest.raises(ValueError, match="record per logit"):
        _cpu.best_logits(logits, 1, np.zeros(119, np.uint8))
    with pytest.raises(ValueError, match="at least one"):
        _cpu.best_logits(logits, 0, np.zeros(120, np.uint8))
    with pytest.raises(ValueError, match="at least one"):
        _cpu.best_logits(np.zeros(0, np.float32), 1, np.zeros(120, np.uint8))


class Array(ctypes.Structure):
    """llama_token_data_array in llama.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    )


def sample(logits: NDArray[np.float32], count: int, selected: int) -> tuple[int, int, int]:
    """The choice by a sampler that takes the candidate at `selected`; what it was given: an address, a size."""
    seen: list[int] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Array))
    def apply(sampler: int, array: ctypes._Pointer[Array]) -> None:
        assert array.contents.selected == -1 and not array.contents.sorted
        seen.extend([sampler, array.contents.size])
        array.contents.selected = selected

    address = ctypes.cast(apply, ctypes.c_void_p).value
    assert address is not None
    token = _cpu.BestSampler(logits.size, count, address, 4711).sample(logits)
    return token, *(seen or [0, 0])


def test_a_sampler_chooses_among_the_best() -> None:
    logits = np.random.default_rng(1).standard_normal(50_000).astype(np.float32)
    records = best(logits, 40)[1]
    assert sample(logits, 40, 3) == (records["id"][3], 4711, len(records))


@pytest.mark.parametrize("selected", [-1, 1 << 40])
def test_without_a_choice_it_is_the_best(selected: int) -> None:
    assert sample(np.array([1.0, 3.0, 2.0], np.float32), 3, selected)[0] == 1


def test_a_masked_token_is_never_chosen() -> None:
    assert sample(np.array([-np.inf, 3.0, 2.0], np.float32), 3, 0)[0] == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_no_number_no_choice(value: float) -> None:
    assert sample(np.array([1.0, value, 2.0], np.float32), 2, 0) == (-1, 0, 0)
    assert sample(np.full(3, -np.inf, np.float32), 2, 0) == (-1, 0, 0)


@pytest.mark.parametrize("size", [1, 100, 5000])
def test_the_best_of_any_row_is_taken(size: int) -> None:
    """Without a sampler; what follows a row's first `size` logits is padding."""
    logits = np.random.default_rng(size).standard_normal((3, size + 2)).astype(np.float32)
    logits[:, size:] = np.nan
    greedy = _cpu.BestSampler(size, 1, 0)
    assert [greedy.sample(logits, row) for row in range(3)] == logits[:, :size].argmax(axis=1).tolist()
    assert greedy.sample(logits[1]) == greedy.sample(logits, 1)
    foreign = np.ctypeslib.as_array((ctypes.c_float * logits.size)(*logits.ravel()))  # as llama.cpp's own logits come
    assert greedy.sample(foreign) == greedy.sample(logits)
    logits[2, size // 2] = np.nan
    assert greedy.sample(logits, 2) == -1


@pytest.mark.parametrize(
    "logits",
    [
        np.zeros((2, 9), np.float32),
        np.zeros((2, 10), np.float64),
        np.zeros((1, 2, 10), np.float32),
        np.zeros(10, np.float32),
        np.zeros((), np.float32),
    ],
)
def test_a_row_that_is_not_there_is_refused(logits: NDArray[np.float32]) -> None:
    with pytest.raises(ValueError, match="row 1 of the logits does not hold 10 values"):
        _cpu.BestSampler(10, 1, 0).sample(logits, 1)
    with pytest.raises(ValueError, match="row -1"):
        _cpu.BestSampler(10, 1, 0).sample(logits, -1)


def test_rows_must_be_contiguous_buffers() -> None:
    with pytest.raises(ValueError):
        _cpu.BestSampler(5, 1, 0).sample(np.zeros((2, 10), np.float32)[:, ::2])
    with pytest.raises(TypeError):
        _cpu.BestSampler(5, 1, 0).sample(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one"):
        _cpu.BestSampler(0, 1, 0)


@pytest.mark.parametrize("size", [5, 1000, 50_000])
def test_recent_tokens_are_among_the_candidates(size: int) -> None:
    """So that penalties may change them: then the best few of all are among the candidates, whatever they become."""
    rng = np.random.default_rng(size)
    logits = rng.standard_normal(size).astype(np.float32)
    recent = rng.integers(0, size, 64).astype(np.int32)
    recent[:3] = [-1, size, recent[4]]  # outside, and twice
    changed = logits.copy()
    inside = np.unique(recent[(recent >= 0) & (recent < size)])
    changed[inside] -= rng.choice([-9.0, 9.0], inside.size).astype(np.float32)
    seen: list[tuple[int, NDArray[np.void]]] = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Array))
    def apply(sampler: int, array: ctypes._Pointer[Array]) -> None:
        found = array.contents.size
        candidates = np.ctypeslib.as_array((ctypes.c_uint8 * (found * 12)).from_address(array.contents.data or 0))
        seen.append((sampler, candidates.view(CANDIDATE).copy()))
        if sampler == 1:
            candidates.view(CANDIDATE)["logit"] = changed[candidates.view(CANDIDATE)["id"]]
        else:
            array.contents.selected = int(candidates.view(CANDIDATE)["logit"].argmax())

    sampler = _cpu.BestSampler(size, 40, ctypes.cast(apply, ctypes.c_void_p).value or 0, 2, 1)
    token = sampler.sample(logits, 0, recent)
    assert token == changed.argmax()
    assert [sampler for sampler, _ in seen] == [1, 2]
    before, after = (candidates for _, candidates in seen)
    assert (np.diff(before["id"]) > 0).all()
    assert set(inside) <= set(before["id"])
    np.testing.assert_array_equal(before["logit"], logits[before["id"]])
    assert set(np.argsort(changed)[-40:]) <= set(after["id"])


@pytest.mark.parametrize("special", [False, True])
def test_a_piece_of_any_length_is_read_whole(special: bool) -> None:
    asked: list[tuple[int | None, int, bool]] = []

    @ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int32)
    def is_end(vocabulary: int | None, token: int) -> bool:
        return token == 3

    @ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_bool
    )
    def to_piece(vocabulary: int | None, token: int, buffer: int, length: int, strip: int, special: bool) -> int:
        asked.append((vocabulary, strip, special))
        piece = bytes(range(token))
        if len(piece) > length:
            return -len(piece)
        ctypes.memmove(buffer, piece, len(piece))
        return len(piece)

    is_end_at, to_piece_at = (ctypes.cast(function, ctypes.c_void_p).value or 0 for function in (is_end, to_piece))
    for token in (0, 3, 64, 65, 200):
        found = _cpu.token_piece(4711, is_end_at, to_piece_at, token, special)
        assert found == (token == 3, bytes(range(token)))
    assert set(asked) == {(4711, 0, special)}
