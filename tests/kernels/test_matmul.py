"""Every weight type on every tier, against the published dequantiser and the scalar tier.

Tiers that this machine cannot run are tested in software (kernels._cpu_emulated), on fewer shapes because that is slow;
they are skipped where that module was not built.

The bound: products inside a block are exact integers, so what remains is float32 rounding of the block results and
of their sum. With B blocks (or values, for float weights) per row each output is off by at most (B + 16) roundings of
2^-24 relative to sum |w||x|, where a weight d * q + m counts as |d * q| + |m|, because the two parts are rounded
apart. The 16 covers the roundings of scales in the kernel and in the reference's own float32 operands.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels import _cpu
from tests.support.guarded import guarded
from tests.support.quantize import (
    FLOAT_TYPES,
    QUANT_BYTES,
    TYPES,
    block_elements,
    dequantize,
    magnitude,
    quantize,
    random_blocks,
    row_bytes,
    type_id,
)


class Kernels(NamedTuple):
    module: Any
    tier: str
    emulated: bool = False


def all_tiers() -> list[Any]:
    native = _cpu.tiers()
    params = [pytest.param(Kernels(_cpu, tier), id=tier) for tier in native]
    for tier in ("avx512", "avx512_vnni"):
        if tier in native or "avx2" not in native:
            continue
        # Not built (`make test` does, with libsimde-dev): every test of the tier fails.
        found = importlib.util.find_spec("kernels._cpu_emulated")
        module = importlib.import_module("kernels._cpu_emulated") if found else None
        params.append(pytest.param(Kernels(module, tier, emulated=True), id=f"{tier}_emulated"))
    return params


ALL_TIERS = all_tiers()


def shapes(name: str, emulated: bool) -> list[tuple[int, int]]:
    """(rows, cols): odd row counts, and block counts that are no multiple of 4."""
    if name in FLOAT_TYPES:
        some = [(1, 1), (3, 7), (17, 33), (19, 64), (33, 515), (37, 1131), (10, 2053)]
    elif block_elements(name) == 32:
        some = [(1, 32), (5, 96), (17, 160), (16, 576), (37, 288), (35, 1056)]
    else:
        some = [(1, 256), (5, 512), (17, 768), (37, 768), (35, 1280)]
    return some[-2:-1] if emulated else some


def token_counts(name: str, emulated: bool) -> list[int]:
    """Few tokens, which go by rows, and those whose tiles of a panel are of each size; of many also two blocks."""
    some = [1, 2, 3, 4, 5, 7, 11, 13] if emulated else list(range(1, 18))
    if name in FLOAT_TYPES:  # by rows up to 16
        some += [19] if emulated else [19, 131]
    return some


def check(name: str, kernels: Kernels, raw: NDArray[np.uint8], cols: int, x: NDArray[np.float32]) -> None:
    rows = raw.shape[0]
    with guarded(raw) as memory:
        out = kernels.module.matmul(type_id(name), memory, rows, cols, x, kernels.tier)
    weights = dequantize(raw, name).astype(np.float64)
    operand = kernels.module.quantized_activations(type_id(name), x, kernels.tier).astype(np.float64)
    sums = cols if name in FLOAT_TYPES else cols // block_elements(name)
    bound = (sums + 16) * 2.0**-24 * (np.abs(operand) @ magnitude(raw, name).T)
    error = np.abs(out - operand @ weights.T)
    assert (error <= bound).all(), (rows, cols, x.shape[0], float((error - bound).max()))


@pytest.mark.parametrize("kernels", ALL_TIERS)
@pytest.mark.parametrize("name", TYPES)
def test_product_is_within_the_derived_bound(name: str, kernels: Kernels) -> None:
    rng = np.random.default_rng(1)
    for rows, cols in shapes(name, kernels.emulated):
        raw = random_blocks(name, rows, cols, rng)
        for tokens in token_counts(name, kernels.emulated):
            check(name, kernels, raw, cols, rng.standard_normal((tokens, cols), dtype=np.float32))


@pytest.mark.parametrize("kernels", ALL_TIERS)
@pytest.mark.parametrize("name", TYPES)
def test_extreme_quants_and_activations_do_not_overflow(name: str, kernels: Kernels) -> None:
    """All weights at either end of the grid, all activations at full scale or flat: the largest integer sums."""
    cols = 512
    rng = np.random.default_rng(2)
    weights = np.concatenate([np.full((8, cols), 1.0), np.full((8, cols), -1.0), rng.choice([-1.0, 1.0], (5, cols))])
    raw = quantize(weights.astype(np.float32), name)
    signs = rng.choice([-1.0, 1.0], (4, cols))
    spiky = np.where(rng.random((3, cols)) < 0.05, 50.0, 1.0)
    x = np.concatenate([np.ones((2, cols)), -np.ones((2, cols)), signs, spiky]).astype(np.float32)
    check(name, kernels, raw, cols, x)
    if name not in FLOAT_TYPES:
        saturated = raw.reshape(21, -1, row_bytes(name, block_elements(name))).copy()
        for begin, end in QUANT_BYTES[name]:
            saturated[:, :, begin:end] = np.where(np.arange(21) % 3 == 0, 0x80, 0xFF)[:, None, None]
        check(name, kernels, saturated.reshape(21, -1), cols, x)


@pytest.mark.parametrize("kernels", ALL_TIERS)
@pytest.mark.parametrize("name", [n for n in TYPES if n not in FLOAT_TYPES])
def test_activations_are_quantised_alike_on_every_tier(name: str, kernels: Kernels) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((9, 1280)).astype(np.float32)
    x[1] = rng.uniform(-1, 1, 1280)
    x[2] = 1.0
    x[3] = 0.0
    x[4, :256] = 1e-38
    x[5] *= 1e30
    expected = _cpu.quantized_activations(type_id(name), x, "scalar")
    for tokens in (2, 9):  # few tokens may be stored in another order than many
        packed = kernels.module.quantized_activations(type_id(name), x[:tokens], kernels.tier)
        np.testing.assert_array_equal(packed, expected[:tokens])
    step = np.abs(x.reshape(9, -1, 32)).max(-1) if block_elements(name) == 32 else np.abs(x).max(-1, keepdims=True)
    error = np.abs(expected - x).reshape(9, step.shape[1], -1).max(-1)
    assert (error <= step / 127 * 1.1 + 2.0**-100).all()  # half a step, or a whole one where a flat block was coarsened


@pytest.mark.parametrize("kernels", ALL_TIERS)
@pytest.mark.parametrize("name", TYPES)
def test_dequantize_equals_the_published_one(name: str, kernels: Kernels) -> None:
    rng = np.random.default_rng(4)
    cols = 512
    raw = random_blocks(name, 5, cols, rng)
    with guarded(raw) as memory:
        values = kernels.module.dequantize(type_id(name), memory, 5, cols, kernels.tier)
    np.testing.assert_array_equal(values, dequantize(raw, name))


@pytest.mark.parametrize("kernels", ALL_TIERS)
@pytest.mark.parametrize("name", TYPES)
def test_arbitrary_bytes_never_crash(name: str, kernels: Kernels) -> None:
    """Weights are file content: NaN scales, infinities and every bit pattern must pass through."""
    rng = np.random.default_rng(5)
    cols, rows = (1024, 21) if name not in FLOAT_TYPES else (515, 21)
    with np.errstate(all="ignore"):
        x = rng.integers(0, 2**32, (18, cols), dtype=np.uint32).view(np.float32)
    x[:9] = rng.standard_normal((9, cols), dtype=np.float32)
    for tokens in (1, 3, 18):
        raw = rng.integers(0, 256, (rows, row_bytes(name, cols)), dtype=np.uint8)
        with guarded(raw) as memory:
            out = kernels.module.matmul(type_id(name), memory, rows, cols, x[:tokens], kernels.tier)
            kernels.module.dequantize(type_id(name), memory, rows, cols, kernels.tier)
        with guarded(raw, at_begin=True) as memory:  # some loads begin before what they are for
            again = kernels.module.matmul(type_id(name), memory, rows, cols, x[:tokens], kernels.tier)
        assert out.shape == (tokens, rows)
        np.testing.assert_array_equal(again, out)


@pytest.mark.parametrize("kernels", ALL_TIERS)
@pytest.mark.parametrize("name", TYPES)
def test_a_token_that_is_not_finite_spoils_no_other(name: str, kernels: Kernels) -> None:
    rng = np.random.default_rng(6)
    cols = 512
    raw = random_blocks(name, 17, cols, rng)
    x = rng.standard_normal((19, cols), dtype=np.float32)
    clean = kernels.module.matmul(type_id(name), raw.reshape(-1), 17, cols, x, kernels.tier)
    x[4, 100] = np.nan
    x[7, 300] = np.inf
    out = kernels.module.matmul(type_id(name), raw.reshape(-1), 17, cols, x, kernels.tier)
    others = [t for t in range(19) if t not in (4, 7)]
    np.testing.assert_array_equal(out[others], clean[others])
    assert not np.isfinite(out[[4, 7]]).any()


def test_bad_arguments_are_refused() -> None:
    raw = np.zeros(144, np.uint8)
    x = np.zeros((1, 256), np.float32)
    with pytest.raises(ValueError, match="unknown weight type 9"):
        _cpu.matmul(9, raw, 1, 256, x)
    with pytest.raises(ValueError, match="fewer than 2 rows of 144"):
        _cpu.matmul(type_id("Q4_K"), raw, 2, 256, x)
    with pytest.raises(ValueError, match="multiple of 256"):
        _cpu.matmul(type_id("Q4_K"), raw, 1, 128, x)
    with pytest.raises(ValueError, match="tokens"):
        _cpu.matmul(type_id("Q4_K"), raw, 1, 256, np.zeros((1, 512), np.float32))
    with pytest.raises(ValueError, match="unknown tier"):
        _cpu.matmul(type_id("Q4_K"), raw, 1, 256, x, "sse")


@pytest.mark.parametrize("name", TYPES)
def test_quant_types_name_the_published_sizes(name: str) -> None:
    listed = _cpu.QUANT_TYPES[type_id(name)]
    assert listed == (name, block_elements(name), row_bytes(name, block_elements(name)))
