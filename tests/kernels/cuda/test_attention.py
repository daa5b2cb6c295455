"""The paged cache, bit for bit as the CPU fills it, and attention over it against float64.

Bound: a score is a sum of key_dim products, off by at most (key_dim / 8 + 8) roundings of 2^-24 relative to
scale * sum |q||k| =: s; expf turns that into a relative error of its value (and adds 3 roundings), the values' sum over
P positions adds P / 8 + 12 more. Weights relative to their sum: twice. The error is relative to sum p |v|.
Prefill rounds q, k, the weights p and v to half precision: 2^-11 of each, or 2^-25 where a weight is subnormal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels import _cpu
from kernels.cuda.operands import EXTENT_BYTES, Cache, Items, Places, partitions_for, prefill_form, prefill_items
from tests.support import program_reference as reference
from tests.support.cuda_machine import Machine
from tests.support.quantize import dequantize, row_bytes

EPS, HALF, SUBNORMAL = 2.0**-24, 2.0**-11, 2.0**-25
TYPES = {"F32": 0, "F16": 1, "Q8_0": 8}
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Shape:
    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    block_tokens: int
    lengths: tuple[int, ...]  # positions of every sequence, the new ones included
    latent: bool = False  # a key's leading values are the value

    @property
    def tables(self) -> NDArray[np.int32]:
        """Blocks in scattered order; unused entries point nowhere."""
        needed = [-(-length // self.block_tokens) for length in self.lengths]
        blocks = np.random.default_rng(0).permutation(sum(needed)).astype(np.int32)
        tables = np.full((len(needed), max(needed) + 1), 1 << 30, np.int32)
        for s, count in enumerate(needed):
            tables[s, :count], blocks = blocks[:count], blocks[count:]
        return tables


SHAPES = {
    "grouped": Shape(6, 2, 32, 64, 5, (1, 23)),
    "many heads": Shape(11, 1, 64, 32, 16, (40,)),
    "alone": Shape(2, 2, 96, 96, 32, (7, 33)),
    "latent": Shape(17, 1, 96, 64, 8, (3, 29), latent=True),
}


class Filled:
    """A cache that kv_store has filled with random keys and values, and the numbers it then stands for."""

    def __init__(self, machine: Machine, shape: Shape, type_name: str, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        n, self.shape, self.type_name = sum(shape.lengths), shape, type_name
        self.positions = np.concatenate([np.arange(length) for length in shape.lengths]).astype(np.int32)
        self.sequences = np.repeat(np.arange(len(shape.lengths)), shape.lengths).astype(np.int32)
        self.tables = shape.tables
        k, v = (rng.standard_normal((n, shape.kv_heads, dim)).astype(np.float32) for dim in self.dims)
        blocks = sum(-(-length // shape.block_tokens) for length in shape.lengths)
        self.k_raw, self.v_raw = (
            machine.put(np.zeros((blocks, shape.kv_heads, shape.block_tokens, row_bytes(type_name, dim)), np.uint8))
            for dim in self.dims
        )
        if shape.latent:
            self.v_raw = self.k_raw
        dims = (shape.kv_heads, *self.dims, shape.block_tokens)
        self.cache = Cache(self.k_raw, self.v_raw, TYPES[type_name], *dims)
        order = rng.permutation(n)
        self.inputs = k[order], v[order], self.positions[order], self.sequences[order]
        addresses = [machine.put(array) for array in self.inputs]
        places = Places(*addresses[2:], machine.put(self.tables), self.tables.shape[1])
        machine.operations.kv_store(self.cache, *addresses[:2], places, n)
        self.keys, self.values = (machine.get(raw) for raw in (self.k_raw, self.v_raw))

    @property
    def dims(self) -> tuple[int, int]:
        return self.shape.key_dim, self.shape.value_dim

    def rows(self, raw: NDArray[np.uint8], dim: int, sequence: int) -> Floats:
        """[positions, kv_heads, dim] of a sequence, as the cache holds them."""
        p = np.arange(self.shape.lengths[sequence])
        size = self.shape.block_tokens
        found = raw[self.tables[sequence, p // size], :, p % size]
        rows = dequantize(found.reshape(-1, found.shape[-1]), self.type_name)
        return rows.reshape(len(p), self.shape.kv_heads, -1)[..., :dim]


@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_cache_is_filled_as_on_the_cpu(machine: Machine, shape: Shape, type_name: str) -> None:
    filled = Filled(machine, shape, type_name)
    k, v, positions, sequences = filled.inputs
    program = _cpu.Program("scalar")
    widths = [shape.heads * shape.key_dim, k[0].size, v[0].size, shape.heads * shape.value_dim]
    q_value, k_value, v_value, out = (program.value(width) for width in widths)
    layer = program.kv_layer(shape.kv_heads, *filled.dims, TYPES[type_name], shape.block_tokens, shape.latent)
    keys = np.zeros_like(filled.keys)
    values = keys if shape.latent else np.zeros_like(filled.values)
    program.attention(q_value, k_value, k_value if shape.latent else v_value, layer, out, shape.heads, 1.0)
    program.finish()
    program.bind_kv(layer, *((keys,) if shape.latent else (keys, values)))
    program.write(q_value, np.zeros((len(k), widths[0]), np.float32))
    program.write(k_value, k.reshape(len(k), -1))
    if not shape.latent:
        program.write(v_value, v.reshape(len(v), -1))
    tables = np.where(filled.tables == 1 << 30, 0, filled.tables)
    program.run(_cpu.ThreadPool(1), reference.batch(positions, sequences, tables))
    np.testing.assert_array_equal(filled.keys, keys)
    np.testing.assert_array_equal(filled.values, values)


def queries(filled: Filled, n: int) -> tuple[Floats, NDArray[np.int32]]:
    """Up to n of the tokens (the last of every sequence among them) with a query each."""
    rng, shape = np.random.default_rng(1), filled.shape
    last = np.cumsum(shape.lengths) - 1
    others = rng.permutation(np.setdiff1d(np.arange(len(filled.positions)), last))
    tokens = np.concatenate([last, others])[:n]
    return rng.standard_normal((len(tokens), shape.heads, shape.key_dim)).astype(np.float32) * 2, tokens


def check(
    filled: Filled,
    tokens: NDArray[np.int32],
    q: Floats,
    out: Floats,
    scale: float,
    window: int,
    soft_cap: float,
    sinks: Floats | None,
    halves: bool = False,
) -> None:
    shape = filled.shape
    for i, token in enumerate(tokens):
        position, sequence = filled.positions[token], filled.sequences[token]
        first = reference.first_seen(position, window)
        k, v = (
            filled.rows(raw, dim, sequence) for raw, dim in zip((filled.keys, filled.values), filled.dims, strict=True)
        )
        args = (scale, first, position, soft_cap, sinks)
        expected = reference.attention(q[i], k, v, *args)
        weighted = reference.attention(q[i], k, np.abs(v), *args)
        k, v = np.abs(k[first : position + 1]), np.abs(v[first : position + 1])
        group = shape.heads // shape.kv_heads
        spread = scale * np.stack([k[:, h // group] @ np.abs(q[i, h]) for h in range(shape.heads)]).max(-1)
        score_error = (shape.key_dim / 8 + 8) * EPS * spread + (2.01 * HALF * spread if halves else 0)
        score_error += 4 * EPS * soft_cap  # tanhf is good to two roundings
        bound = 2 * (np.expm1(score_error) + (3 + len(k) / 8 + 12) * EPS)[:, None] * weighted
        if halves:
            bound += 2.01 * HALF * weighted + SUBNORMAL * v.sum(0)[np.arange(shape.heads) // group]
        assert (np.abs(out[i] - expected) <= bound).all(), (token, float(np.abs(out[i] - expected).max()))


def sinks_of(heads: int) -> Floats:
    return 3 * np.random.default_rng(2).standard_normal(heads).astype(np.float32)


def run_decode(
    machine: Machine,
    filled: Filled,
    n: int,
    window: int,
    partitions: int | None = None,
    soft_cap: float = 0.0,
    sinks: Floats | None = None,
) -> None:
    q, tokens = queries(filled, n)
    n, scale, shape = len(tokens), 0.25, filled.shape
    positions = filled.positions[tokens]
    places = Places(
        machine.put(positions),
        machine.put(filled.sequences[tokens]),
        machine.put(filled.tables),
        filled.tables.shape[1],
    )
    partitions = partitions or max(partitions_for(int(p), window) for p in positions)
    out = machine.put(np.full((n, shape.heads, shape.value_dim), np.nan, np.float32))
    partials = machine.put(np.full((n, shape.heads, partitions, shape.value_dim), np.nan, np.float32))
    extents = machine.put(np.full((n, shape.heads, partitions, EXTENT_BYTES), 0xFF, np.uint8))
    sinks_at = 0 if sinks is None else machine.put(sinks)
    scratch = (partitions, partials, extents)
    machine.operations.attention_decode(
        filled.cache, machine.put(q), out, places, n, shape.heads, scale, window, *scratch, soft_cap, sinks_at
    )
    check(filled, tokens, q, machine.get(out), scale, window, soft_cap, sinks)


@pytest.mark.parametrize("window", [0, 6, -7])
@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_decode_attention(machine: Machine, shape: Shape, type_name: str, window: int) -> None:
    run_decode(machine, Filled(machine, shape, type_name), 4, window)


@pytest.mark.parametrize("window", [0, 300, -200])
def test_decode_attention_over_several_partitions(machine: Machine, window: int) -> None:
    """More partitions than some tokens need: those leave nothing, and nothing is read of them."""
    filled = Filled(machine, Shape(3, 1, 32, 32, 16, (517, 3)), "Q8_0")
    run_decode(machine, filled, 4, window)
    run_decode(machine, filled, 2, window, partitions=5)


@pytest.mark.parametrize("window", [0, 6, -7])
def test_decode_attention_with_soft_cap_and_sinks(machine: Machine, window: int) -> None:
    for shape in SHAPES.values():
        filled = Filled(machine, shape, "F16")
        run_decode(machine, filled, 4, window, soft_cap=2.0)
        run_decode(machine, filled, 4, window, sinks=sinks_of(shape.heads))
    filled = Filled(machine, Shape(3, 1, 32, 32, 16, (517, 3)), "F16")
    run_decode(machine, filled, 4, 50 * window, soft_cap=2.0, sinks=sinks_of(3))


PREFILL_SHAPES = {
    "grouped": Shape(6, 2, 32, 64, 5, (1, 45)),
    "many heads": Shape(11, 1, 72, 40, 16, (40,)),
    "wide": Shape(2, 1, 256, 160, 16, (37,)),
    "latent": Shape(17, 1, 96, 64, 8, (3, 29), latent=True),
    "latent, many heads": Shape(70, 2, 72, 40, 5, (1, 21), latent=True),
    "deepest": Shape(16, 1, 576, 512, 16, (19,), latent=True),
    "deep": Shape(2, 1, 320, 296, 16, (37,)),
}


def run_prefill(
    machine: Machine, filled: Filled, n: int, window: int, soft_cap: float = 0.0, sinks: Floats | None = None
) -> None:
    q, tokens = queries(filled, n)
    scale, shape = 0.25 if filled.shape.key_dim < 128 else 0.0625, filled.shape
    positions, sequences = filled.positions[tokens], filled.sequences[tokens]
    form = prefill_form(filled.cache, shape.heads)
    assert form is not None
    order, items = prefill_items(positions, sequences, form.most)
    assert sorted(order) == list(range(len(tokens))) and items[:, 2].sum() == len(tokens)
    places = Places(machine.put(positions), 0, machine.put(filled.tables), filled.tables.shape[1])
    out = machine.put(np.full((len(tokens), shape.heads, shape.value_dim), np.nan, np.float32))
    device_items = Items(machine.put(order), machine.put(items), len(items))
    sinks_at = 0 if sinks is None else machine.put(sinks)
    machine.operations.attention_prefill(
        filled.cache, machine.put(q), out, places, device_items, shape.heads, scale, window, soft_cap, sinks_at
    )
    check(filled, tokens, q, machine.get(out), scale, window, soft_cap, sinks, halves=True)


@pytest.mark.parametrize("window", [0, 6, -7])
@pytest.mark.parametrize("type_name", TYPES)
@pytest.mark.parametrize("shape", PREFILL_SHAPES.values(), ids=PREFILL_SHAPES)
def test_prefill_attention(machine: Machine, shape: Shape, type_name: str, window: int) -> None:
    if type_name == "Q8_0":
        shape = replace(shape, key_dim=-(-shape.key_dim // 32) * 32, value_dim=-(-shape.value_dim // 32) * 32)
    filled = Filled(machine, shape, type_name)
    run_prefill(machine, filled, len(filled.positions), window)
    run_prefill(machine, filled, 5, window)


@pytest.mark.parametrize("window", [0, 6, -7])
@pytest.mark.parametrize("shape", PREFILL_SHAPES.values(), ids=PREFILL_SHAPES)
def test_prefill_attention_with_soft_cap_and_sinks(machine: Machine, shape: Shape, window: int) -> None:
    filled = Filled(machine, shape, "F16")
    run_prefill(machine, filled, len(filled.positions), window, soft_cap=2.0)
    run_prefill(machine, filled, 13, window, sinks=sinks_of(shape.heads))


def test_prefill_that_no_kernel_does_is_refused(machine: Machine) -> None:
    places, items = Places(0, 0, 0, 0), Items(0, 0, 0)
    for cache, heads in ((Cache(0, 0, 1, 1, 712, 512, 16), 1), (Cache(4, 8, 1, 1, 512, 512, 16), 1)):
        with pytest.raises(ValueError, match="no CUDA kernel for prefill"):
            machine.operations.attention_prefill(cache, 0, 0, places, items, heads, 1.0)


@pytest.mark.parametrize(("type_id", "dims"), [(1, (36, 64)), (8, (64, 48)), (2, (64, 64)), (1, (64, 1032))])
def test_a_cache_that_no_kernel_reads_is_refused(type_id: int, dims: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="no CUDA kernel for a cache"):
        Cache(0, 0, type_id, 1, *dims, 16)
