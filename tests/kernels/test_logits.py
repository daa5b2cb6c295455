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

    records = np.zeros(logits.size, CANDIDATE).view(np.uint8)
    address = ctypes.cast(apply, ctypes.c_void_p).value
    assert address is not None
    token = _cpu.sample_best(logits, count, records, address, 4711)
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

    records = np.zeros(size, CANDIDATE).view(np.uint8)
    token = _cpu.sample_best(logits, 40, records, ctypes.cast(apply, ctypes.c_void_p).value or 0, 2, 1, recent)
    assert token == changed.argmax()
    assert [sampler for sampler, _ in seen] == [1, 2]
    before, after = (candidates for _, candidates in seen)
    assert (np.diff(before["id"]) > 0).all()
    assert set(inside) <= set(before["id"])
    np.testing.assert_array_equal(before["logit"], logits[before["id"]])
    assert set(np.argsort(changed)[-40:]) <= set(after["id"])
