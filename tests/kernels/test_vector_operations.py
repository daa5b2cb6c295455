"""Row-wise operations on every tier against float64, with bounds from the number of roundings (u = 2^-24)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels import _cpu
from tests.support import program_reference as ref
from tests.support.quantize import TYPES, block_elements, dequantize, random_blocks, type_id

U = 2.0**-24
TIERS = ref.all_tiers()
WIDTHS = [1, 7, 8, 33, 64, 131, 576]
Floats = NDArray[np.float32]


def execute(
    tier: ref.Kernels,
    inputs: list[Floats],
    width: int,
    record: Callable[[_cpu.Program, list[int], int], None],
    threads: int = 2,
) -> Floats:
    """Runs one operation whose inputs are written from outside; returns its output."""
    p: _cpu.Program = tier.module.Program(tier.tier)
    handles = [p.value(x.shape[1]) for x in inputs]
    out = p.value(width)
    record(p, handles, out)
    p.finish()
    rows = inputs[0].shape[0]
    for handle, x in zip(handles, inputs, strict=True):
        p.write(handle, x)
    p.run(tier.module.ThreadPool(threads), ref.batch(np.arange(rows)[::-1] * 3, module=tier.module))
    return np.array(p.read(out))


def noise(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("width", WIDTHS)
def test_rms_norm(tier: ref.Kernels, width: int) -> None:
    x, weight = 5 * noise(3, width), noise(width, seed=1)

    def record(p: _cpu.Program, handles: list[int], out: int) -> None:
        p.rms_norm(handles[0], ref.bound_weight(p, weight), out, 1e-6)

    expected = ref.rms_norm(x, weight, 1e-6)
    error = np.abs(execute(tier, [x], width, record) - expected)
    assert (error <= (width / 2 + 8) * U * np.abs(expected)).all()  # the sum's roundings count half, under the root
    plain = execute(tier, [x], width, lambda p, h, out: p.rms_norm(h[0], None, out, 1e-6))
    expected = ref.rms_norm(x, np.ones(width), 1e-6)
    assert (np.abs(plain - expected) <= (width / 2 + 8) * U * np.abs(expected)).all()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("heads", "dim"), [(1, 24), (5, 64), (3, 20)])
def test_rms_norm_by_groups(tier: ref.Kernels, heads: int, dim: int) -> None:
    x, weight = noise(4, heads * dim), noise(dim, seed=1)

    def record(p: _cpu.Program, handles: list[int], out: int) -> None:
        p.rms_norm(handles[0], ref.bound_weight(p, weight), out, 1e-5, group=dim)

    expected = ref.rms_norm(x.reshape(4, heads, dim), weight, 1e-5).reshape(4, -1)
    error = np.abs(execute(tier, [x], heads * dim, record) - expected)
    assert (error <= (dim / 2 + 8) * U * np.abs(expected)).all()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("groups", "dim", "rest"), [(1, 32, 8), (2, 20, 5), (3, 8, 0)])
def test_rms_norm_of_the_leading_groups(tier: ref.Kernels, groups: int, dim: int, rest: int) -> None:
    x, weight, width = noise(4, groups * dim + rest), noise(dim, seed=1), groups * dim + rest

    def record(p: _cpu.Program, handles: list[int], out: int) -> None:
        p.rms_norm(handles[0], ref.bound_weight(p, weight), out, 1e-5, dim, groups)

    got = execute(tier, [x], width, record)
    expected = ref.rms_norm(x[:, : groups * dim].reshape(4, groups, dim), weight, 1e-5).reshape(4, -1)
    assert (np.abs(got[:, : groups * dim] - expected) <= (dim / 2 + 8) * U * np.abs(expected)).all()
    np.testing.assert_array_equal(got[:, groups * dim :], x[:, groups * dim :])


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("mode", ["norm", "neox"])
@pytest.mark.parametrize(
    ("heads", "head_dim", "rope_dim", "offset"),
    [(3, 64, 64, 0), (2, 80, 80, 0), (4, 96, 32, 0), (1, 12, 10, 0), (2, 256, 128, 0), (3, 96, 32, 64), (1, 21, 6, 7)],
)
def test_rope(tier: ref.Kernels, mode: str, heads: int, head_dim: int, rope_dim: int, offset: int) -> None:
    x = noise(5, heads * head_dim)
    frequencies = (10000.0 ** (-np.arange(rope_dim // 2) / (rope_dim // 2))).astype(np.float32)
    p: _cpu.Program = tier.module.Program(tier.tier)
    v = p.value(heads * head_dim)
    p.rope(v, heads, head_dim, rope_dim, mode, frequencies, 1.25, offset)
    p.finish()
    p.write(v, x)
    positions = np.array([0, 1, 77, 4095, 131071])
    p.run(tier.module.ThreadPool(2), ref.batch(positions, module=tier.module))
    shaped = x.reshape(5, heads, head_dim)
    turned = ref.rope(shaped[..., offset:], positions, frequencies, mode, 1.25)
    expected = np.concatenate([shaped[..., :offset], turned], axis=-1)
    # Cosine and sine are rounded twice, each product and the sum once.
    largest = np.sqrt(2) * 1.25 * np.abs(shaped).max(-1, keepdims=True)
    assert (np.abs(p.read(v).reshape(shaped.shape) - expected) <= 6 * U * largest).all()


@pytest.mark.parametrize("tier", TIERS)
def test_rope_with_a_temperature(tier: ref.Kernels) -> None:
    x, frequencies = noise(4, 3 * 8), np.array([1.0, 0.1, 0.01, 0.0], np.float32)
    positions, heat = np.array([0, 62, 63, 131071]), (64.0, 0.1, 1.0)
    p: _cpu.Program = tier.module.Program(tier.tier)
    hot, cold = p.value(24), p.value(24)
    p.rope(hot, 3, 8, 8, "norm", frequencies, 1.25, 0, heat)
    p.rope(cold, 3, 8, 8, "norm", frequencies, 1.25)
    p.finish()
    for value in (hot, cold):
        p.write(value, x)
    p.run(tier.module.ThreadPool(1), ref.batch(positions, module=tier.module))
    for value, factor in ((hot, ref.temperature(positions, *heat)), (cold, np.ones(4))):
        expected = ref.rope(x.reshape(4, 3, 8), positions, frequencies, "norm", 1.25 * factor)
        largest = np.sqrt(2) * 1.25 * factor[:, None, None] * np.abs(x).reshape(4, 3, 8).max(-1, keepdims=True)
        assert (np.abs(p.read(value).reshape(4, 3, 8) - expected) <= 8 * U * largest).all()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("activation", ["silu", "gelu", "sigmoid", "linear"])
def test_glu(tier: ref.Kernels, activation: str) -> None:
    """e^-x is good to 4 u and loses another |x| u by the rounding of its argument."""
    gate = np.concatenate([np.linspace(-110, 110, 1601), [0.0, -0.0, 1e-30, 80.0, -80.0]]).astype(np.float32)[None]
    up = noise(1, gate.shape[1])
    got = execute(tier, [gate, up], gate.shape[1], lambda p, h, out: p.glu(h[0], h[1], out, activation))
    activated = {"silu": ref.silu, "gelu": ref.gelu, "sigmoid": ref.sigmoid, "linear": np.float64}[activation](gate)
    expected = activated * up
    x = np.abs(gate.astype(np.float64))
    argument = 1.6 * (x + 0.045 * x**3) if activation == "gelu" else x
    bound = (10 + 6 * np.minimum(argument, 90)) * U * np.abs(expected) + 1e-13 * np.abs(up)
    assert (np.abs(got - expected) <= bound).all()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("gates", "span"), [(1, 37), (3, 16), (5, 1)])
def test_one_gate_for_several_neighbours(tier: ref.Kernels, gates: int, span: int) -> None:
    gate, up = noise(7, gates), noise(7, gates * span)
    got = execute(tier, [gate, up], gates * span, lambda p, h, out: p.glu(h[0], h[1], out, "sigmoid"))
    expected = ref.sigmoid(gate).repeat(span, axis=1) * up
    assert (np.abs(got - expected) <= 20 * U * np.abs(expected)).all()


@pytest.mark.parametrize("tier", TIERS)
def test_swiglu_oai(tier: ref.Kernels) -> None:
    gate = np.concatenate([np.linspace(-60, 60, 1601), [0.0, -0.0, 7.0, np.inf, np.nan]]).astype(np.float32)[None]
    up = (6 * noise(1, gate.shape[1])).astype(np.float32)
    up[0, :4] = [7.0, -7.0, np.inf, -np.inf]
    got = execute(tier, [gate, up], gate.shape[1], lambda p, h, out: p.glu(h[0], h[1], out, "swiglu_oai"))
    expected = ref.swiglu_oai(gate, up)
    argument = 1.702 * np.minimum(np.abs(gate.astype(np.float64)), 90)
    bound = (14 + 6 * argument) * U * (np.abs(expected) + np.abs(gate) * U) + 1e-13
    assert (np.abs(got - expected) <= bound)[:, :-1].all() and np.isnan(got[0, -1])


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("cap", [0.5, 30.0])
@pytest.mark.parametrize("width", WIDTHS)
def test_soft_cap(tier: ref.Kernels, cap: float, width: int) -> None:
    """tanh is 1 less a quotient: its error is a few roundings of 1, whatever its size."""
    x = (cap * 3 * noise(3, width)).astype(np.float32)
    x[0, 0], x[1, 0], x[2, 0] = np.inf, -np.inf, 0
    p: _cpu.Program = tier.module.Program(tier.tier)
    value = p.value(width)
    p.soft_cap(value, cap)
    p.finish()
    p.write(value, x)
    p.run(tier.module.ThreadPool(2), ref.batch(range(3), tables=[[0]], module=tier.module))
    got = np.array(p.read(value))
    assert (np.abs(got - cap * np.tanh(x.astype(np.float64) / cap)) <= 12 * U * cap).all()
    assert got[0, 0] == np.float32(cap) and got[1, 0] == -np.float32(cap)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("width", WIDTHS)
def test_add_and_scale(tier: ref.Kernels, width: int) -> None:
    a, b = noise(6, width), noise(6, width, seed=1)

    def record(p: _cpu.Program, handles: list[int], out: int) -> None:
        p.add(*handles, out)
        p.scale(out, 0.3)

    np.testing.assert_array_equal(execute(tier, [a, b], width, record), (a + b) * np.float32(0.3))


@pytest.mark.parametrize("name", TYPES)
def test_embed_reads_every_type(name: str) -> None:
    cols = 2 * max(block_elements(name), 32)
    raw = random_blocks(name, 9, cols, np.random.default_rng(3))
    p = _cpu.Program()
    table, out = p.weight(type_id(name), 9, cols), p.value(cols)
    p.bind_weight(table, raw)
    p.embed(table, out)
    p.finish()
    tokens = [8, 0, 3, 3]
    p.run(_cpu.ThreadPool(2), ref.batch(range(4), tokens=tokens))
    np.testing.assert_allclose(p.read(out), dequantize(raw, name)[tokens], rtol=3 * U, atol=1e-9)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("tokens", [1, 2, 37])
def test_linear_is_the_tier_s_product(name: str, tokens: int) -> None:
    """Packing, sharing out rows and fusing change no bit of what the product kernels give for the whole matrix."""
    cols, rows = 2 * max(block_elements(name), 32), [96, 40, 7]
    rng = np.random.default_rng(5)
    raws = [random_blocks(name, r, cols, rng) for r in rows]
    x = noise(tokens, cols)
    p = _cpu.Program()
    v, outs, weights = p.value(cols), [p.value(r) for r in rows], [p.weight(type_id(name), r, cols) for r in rows]
    for w, raw in zip(weights, raws, strict=True):
        p.bind_weight(w, raw)
    p.linear(v, weights, [], outs)
    p.finish()
    p.write(v, x)
    p.run(_cpu.ThreadPool(3), ref.batch(range(tokens), tables=[[0]]))
    for out, r, raw in zip(outs, rows, raws, strict=True):
        whole = _cpu.matmul(type_id(name), raw.reshape(-1), r, cols, x)
        np.testing.assert_array_equal(p.read(out), whole)


@pytest.mark.parametrize("tokens", [1, 19])
def test_types_mix_in_one_linear(tokens: int) -> None:
    names, cols = ["Q4_K", "Q6_K", "F16", "Q8_0", "F32"], 512
    rng, x = np.random.default_rng(6), noise(tokens, 512)
    raws = [random_blocks(name, 33, cols, rng) for name in names]
    p = _cpu.Program()
    v, outs = p.value(cols), [p.value(33) for _ in names]
    weights = [p.weight(type_id(name), 33, cols) for name in names]
    for w, raw in zip(weights, raws, strict=True):
        p.bind_weight(w, raw)
    bias = ref.bound_weight(p, noise(33, seed=2))
    p.linear(v, weights, [None, bias, None, -1, bias], outs)
    p.finish()
    p.write(v, x)
    p.run(_cpu.ThreadPool(2), ref.batch(range(tokens), tables=[[0]]))
    for name, raw, out, biased in zip(names, raws, outs, [0, 1, 0, 0, 1], strict=True):
        whole = _cpu.matmul(type_id(name), raw.reshape(-1), 33, cols, x)
        np.testing.assert_array_equal(p.read(out), whole + np.float32(biased) * noise(33, seed=2))
