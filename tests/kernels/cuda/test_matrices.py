"""Matrix products and embeddings, every weight type, against the published dequantiser in float64.

The bound: products inside a slice of 32 values are exact integers, so what remains is float32 rounding of the slices'
results and of their sum. With S slices (or values, for float weights) per row an output is off by at most (S + 16)
roundings of 2^-24 relative to sum |w||x|, where a weight d * q + m counts as |d * q| + |m|: the two parts are rounded
apart. The 16 covers the scales' own roundings, in the kernel and in the reference's float32 operands, bias, residual.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels import _cpu
from kernels.cuda.operands import K_TYPES, Matrix, Rows, int8_bytes
from tests.support.cuda_machine import Machine
from tests.support.quantize import (
    FLOAT_TYPES,
    QUANT_BYTES,
    TYPES,
    block_elements,
    dequantize,
    magnitude,
    random_blocks,
    row_bytes,
    type_id,
)

Floats = NDArray[np.float32]


def shapes(name: str) -> list[tuple[int, int]]:
    """(rows, cols): odd rows, and slices that fill neither a warp nor a tile's steps."""
    if name in FLOAT_TYPES:
        return [(1, 1), (9, 40), (67, 33)]
    return [(1, 32), (13, 96), (67, 1120)] if block_elements(name) == 32 else [(1, 256), (13, 512), (67, 1280)]


def packed(machine: Machine, x: Floats, name: str) -> tuple[Rows, NDArray[np.float64]]:
    """The rows as matrices of this type take them, and the numbers they stand for."""
    n, cols = x.shape
    if name in FLOAT_TYPES:
        return Rows(machine.put(x)), x.astype(np.float64)
    values_bytes, facts_bytes = int8_bytes(n, cols)
    rows = Rows(machine.put(np.full(values_bytes, 99, np.int8)), machine.put(np.full(facts_bytes, 0xFF, np.uint8)))
    machine.operations.quantize(machine.put(x), rows, n, cols, type_id(name))
    scales = machine.get(rows.facts).view(np.float32).reshape(n, -1, 2)[..., 0].astype(np.float64)
    return rows, (scales[..., None] * machine.get(rows.values).reshape(n, -1, 32)).reshape(n, cols)


def matrix(machine: Machine, raw: NDArray[np.uint8], name: str, cols: int) -> Matrix:
    return Matrix(machine.put(raw), type_id(name), raw.shape[0], cols)


@pytest.mark.parametrize("name", TYPES)
def test_products_are_within_the_derived_bound(machine: Machine, name: str) -> None:
    rng = np.random.default_rng(1)
    for rows, cols in shapes(name):
        raw = random_blocks(name, rows, cols, rng)
        w, weights = matrix(machine, raw, name, cols), dequantize(raw, name).astype(np.float64)
        sums = cols if name in FLOAT_TYPES else cols // 32
        for n in (1, 3, 11, 70) if rows == 67 else (2,):
            x, operand = packed(machine, rng.standard_normal((n, cols), dtype=np.float32), name)
            bias, residual = rng.standard_normal(rows, np.float32), rng.standard_normal((n, rows), np.float32)
            bound = (
                (sums + 16) * 2.0**-24 * (np.abs(operand) @ magnitude(raw, name).T + np.abs(bias) + np.abs(residual))
            )
            kinds = ("matvec", "matmul") if n in (2, 3) else ("linear",)
            for kind in kinds:
                y = machine.put(np.full((n, rows), np.nan, np.float32))
                getattr(machine.operations, kind)(w, x, y, n)
                error = np.abs(machine.get(y) - operand @ weights.T)
                assert (error <= bound).all(), (kind, rows, cols, n)
                y = machine.put(residual)
                getattr(machine.operations, kind)(w, x, y, n, machine.put(bias), y)
                error = np.abs(machine.get(y) - (operand @ weights.T + bias + residual))
                assert (error <= bound).all(), (kind, rows, cols, n, "with bias and residual")


@pytest.mark.parametrize("name", [name for name in TYPES if name not in FLOAT_TYPES])
def test_saturated_quants_and_full_scale_activations(machine: Machine, name: str) -> None:
    """Every quant field at an end of its range and all activations at ±127: the largest integers of every step."""
    rng, cols = np.random.default_rng(2), 512
    raw = random_blocks(name, 18, cols, rng)
    blocks = raw.reshape(18, -1, row_bytes(name, block_elements(name))).copy()
    for begin, end in QUANT_BYTES[name]:
        blocks[:, :, begin:end] = np.array([0x00, 0x80, 0xFF])[np.arange(18) % 3, None, None]
    raw = blocks.reshape(18, -1)
    w, weights = matrix(machine, raw, name, cols), dequantize(raw, name).astype(np.float64)
    x, operand = packed(machine, rng.choice([-1.0, 1.0], (3, cols)).astype(np.float32), name)
    bound = (cols // 32 + 16) * 2.0**-24 * (np.abs(operand) @ magnitude(raw, name).T)
    for kind in (machine.operations.matvec, machine.operations.matmul):
        y = machine.put(np.full((3, 18), np.nan, np.float32))
        kind(w, x, y, 3)
        assert (np.abs(machine.get(y) - operand @ weights.T) <= bound).all(), kind.__name__


@pytest.mark.parametrize("name", ["Q8_0", "Q4_K"])
def test_activations_are_quantised_as_on_the_cpu(machine: Machine, name: str) -> None:
    rng, cols = np.random.default_rng(3), 1280
    x = rng.standard_normal((8, cols)).astype(np.float32)
    x[1] = rng.uniform(-1, 1, cols)
    x[2] = 1.0  # flat: coarsened for the K types
    x[3] = 0.0
    x[4, :256] = 1e-38
    x[5] *= 1e30
    x[6, 40] = np.inf
    x[7, 700] = np.nan
    rows, operand = packed(machine, x, name)
    np.testing.assert_array_equal(operand.astype(np.float32), _cpu.quantized_activations(type_id(name), x, "scalar"))
    q = machine.get(rows.values).reshape(-1, 2, 16)
    sums = machine.get(rows.facts).view(np.int16).reshape(-1, 4)[:, 2:]
    np.testing.assert_array_equal(sums, q.sum(-1))
    assert (type_id(name) in K_TYPES) == (np.abs(machine.get(rows.values).reshape(8, cols)[2]).max() < 127)


def test_rows_of_any_whole_slices_are_quantised(machine: Machine) -> None:
    for cols in (32, 288, 1024 + 32):
        x = np.random.default_rng(4).standard_normal((2, cols)).astype(np.float32)
        operand = packed(machine, x, "Q4_0")[1]
        np.testing.assert_array_equal(operand.astype(np.float32), _cpu.quantized_activations(2, x, "scalar"))


@pytest.mark.parametrize("name", TYPES)
def test_embedding_dequantises_rows(machine: Machine, name: str) -> None:
    cols = 768 if name not in FLOAT_TYPES else 33
    raw = random_blocks(name, 5, cols, np.random.default_rng(5))
    tokens = [4, 0, 5, 2, -1]
    y = machine.put(np.full((5, cols), 7, np.float32))
    machine.operations.embed(matrix(machine, raw, name, cols), machine.put(tokens, np.int32), y, 5)
    out, expected = machine.get(y), dequantize(raw, name)
    bound = 4 * 2.0**-24 * magnitude(raw, name)  # products and their difference, fused on a GPU
    for i, token in enumerate(tokens):
        if 0 <= token < 5:
            assert (np.abs(out[i] - expected[token]) <= bound[token]).all(), token
        else:
            assert np.isnan(out[i]).all(), token


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_a_product_per_head(machine: Machine, name: str, transposed: bool) -> None:
    """Each head's rows lie in the middle of all rows; what of a head is left over is none of the product's."""
    rng = np.random.default_rng(4)
    heads, head_rows, first, rows, n = 3, 21, 4, 13, 2
    cols = 40 if name in FLOAT_TYPES else 2 * block_elements(name)
    taken, made = (rows, cols) if transposed else (cols, rows)
    x_head = taken + 11 if transposed else taken + 32
    raw = random_blocks(name, heads * head_rows, cols, rng)
    w = matrix(machine, raw, name, cols)
    part = slice(first, first + rows)
    weights = dequantize(raw, name).astype(np.float64).reshape(heads, head_rows, cols)[:, part]
    sizes = magnitude(raw, name).reshape(heads, head_rows, cols)[:, part]
    x = rng.standard_normal((n * heads, x_head), dtype=np.float32)
    out = machine.put(np.full((n, heads, made), np.nan, np.float32))
    dims = (n, heads, first, rows, x_head, made)
    if transposed:
        operand = x.astype(np.float64)
        machine.operations.head_transposed(w, machine.put(x), out, *dims)
    else:
        given, operand = packed(machine, x, name)
        machine.operations.head_linear(w, given, out, *dims)
    operand = operand.reshape(n, heads, x_head)[..., :taken]
    product = "hrc,nhr->nhc" if transposed else "hrc,nhc->nhr"
    expected = np.einsum(product, weights, operand)
    bound = (taken + 16) * 2.0**-24 * np.einsum(product, sizes, np.abs(operand))
    assert (np.abs(machine.get(out) - expected) <= bound).all()
