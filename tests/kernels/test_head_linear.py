"""A product per head against the published dequantiser: every type and tier, both layouts, both directions.

Quantised weights meet int8 activations whose error is what a block's largest value rounds to; the transposed product is
float32 throughout.
"""

from __future__ import annotations

import numpy as np
import pytest

from kernels import _cpu
from tests.support import program_reference as ref
from tests.support.quantize import FLOAT_TYPES, TYPES, block_elements, dequantize, random_blocks, type_id

HEADS = 3
Case = tuple[int, int, int, int]  # first, rows used, rows per head, what of a head is left over


@pytest.mark.parametrize("tier", ref.all_tiers())
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("case", [(0, 7, 7, 0), (5, 6, 11, 9), (0, 40, 41, 32)])
@pytest.mark.parametrize("tokens", [1, 5, 19])
@pytest.mark.parametrize("transposed", [False, True])
def test_head_linear(tier: ref.Kernels, name: str, case: Case, tokens: int, transposed: bool) -> None:
    first, rows, head_rows, rest = case
    cols = 2 * max(32, block_elements(name))
    rng = np.random.default_rng(3)
    raw = random_blocks(name, HEADS * head_rows, cols, rng)
    weight = dequantize(raw, name).astype(np.float64).reshape(HEADS, head_rows, cols)[:, first : first + rows]
    taken, made = (rows, cols) if transposed else (cols, rows)
    x = rng.standard_normal((tokens, HEADS, taken + rest)).astype(np.float32)
    got = run(tier, raw, name, x, (first, rows, head_rows), made + rest, transposed)
    product = "hrc,thr->thc" if transposed else "hrc,thc->thr"
    expected = np.einsum(product, weight, x[..., :taken].astype(np.float64))
    magnitude = np.einsum(product, np.abs(weight), np.abs(x[..., :taken]).astype(np.float64))
    steps = 0.0 if transposed or name in FLOAT_TYPES else 0.5 / 127 * np.abs(x).max() / np.abs(x).mean()
    error = 2.0**-24 * (taken + 8) + (2.0**-8 if name == "BF16" and not transposed else 2.0**-11) + 2 * steps
    assert (np.abs(got[..., :made] - expected) <= error * magnitude + 1e-6).all()
    np.testing.assert_array_equal(got[..., made:], x[..., taken:])


def run(
    tier: ref.Kernels, raw: np.ndarray, name: str, x: np.ndarray, rows: tuple[int, int, int], out: int, transposed: bool
) -> np.ndarray:
    first, used, head_rows = rows
    tokens, _, head = x.shape
    p: _cpu.Program = tier.module.Program(tier.tier)
    v, y = p.value(HEADS * head), p.value(HEADS * out)
    weight = p.weight(type_id(name), head_rows, raw.shape[1] * block_elements(name) // ref_bytes(name), HEADS)
    p.bind_weight(weight, raw)
    p.head_linear(v, weight, y, HEADS, first, used, transposed)
    p.finish()
    p.write(v, x.reshape(tokens, -1))
    p.run(tier.module.ThreadPool(2), ref.batch(np.arange(tokens), module=tier.module))
    return np.array(p.read(y)).reshape(tokens, HEADS, out)


def ref_bytes(name: str) -> int:
    return _cpu.QUANT_TYPES[type_id(name)][2]


def test_one_matrix_or_a_stack_of_them_are_the_same() -> None:
    raw = random_blocks("F32", HEADS * 4, 32, np.random.default_rng(0))
    x = np.random.default_rng(1).standard_normal((2, HEADS * 32)).astype(np.float32)
    outs = []
    for rows, count in ((4, HEADS), (4 * HEADS, 1)):
        p = _cpu.Program()
        v, y, weight = p.value(HEADS * 32), p.value(HEADS * 4), p.weight(0, rows, 32, count)
        p.bind_weight(weight, raw)
        p.head_linear(v, weight, y, HEADS, 0, 4)
        p.finish()
        p.write(v, x)
        p.run(_cpu.ThreadPool(1), ref.batch([0, 1]))
        outs.append(np.array(p.read(y)))
    np.testing.assert_array_equal(*outs)
