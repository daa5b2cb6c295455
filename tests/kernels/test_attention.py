"""Attention over the paged cache on every tier against float64.

The bound: a score is off by at most δ = (dim + 4) u |scale| Σ|q||k| (u = 2^-24), a weight hence by 2δ relatively, plus
the exponential's error and its argument's rounding; sums over N keys add N u. The output is a mean of values under
those weights, so |error| <= (2 δ + (N + 100) u) Σ weight |v|, doubled because the weights are normalised.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels import _cpu
from tests.support import program_reference as ref
from tests.support.quantize import dequantize, quantize

U = 2.0**-24
TIERS = ref.all_tiers()
TYPE_NAMES = {ref.F32: "F32", ref.F16: "F16", ref.Q8_0: "Q8_0"}


@dataclass(frozen=True)
class Case:
    """Sequences as (length before, new tokens); their blocks are scattered over the pool."""

    sequences: tuple[tuple[int, int], ...] = ((0, 9),)
    heads: int = 4
    kv_heads: int = 2
    key_dim: int = 64
    value_dim: int = 64
    block_tokens: int = 16
    kv_type: int = ref.F16
    window: int = 0  # below zero: chunks
    table: int = 0  # of the batch's block tables
    soft_cap: float = 0.0
    sinks: bool = False
    shuffled: bool = False  # the order of tokens in the batch
    latent: bool = False  # a key's leading values are the value


class Layer:
    """A cache whose past is random, a batch that continues it, and what attention should give."""

    def __init__(self, case: Case) -> None:
        self.case, rng = case, np.random.default_rng(11)
        blocks = [-(-(past + new) // case.block_tokens) for past, new in case.sequences]
        self.pool = sum(blocks) + 3
        order = rng.permutation(self.pool)[: sum(blocks)].astype(np.int32)
        self.tables = np.full((len(blocks), max(blocks)), -1, np.int32)
        for row, table in enumerate(np.split(order, np.cumsum(blocks)[:-1])):
            self.tables[row, : len(table)] = table
        others = np.zeros((case.table * len(blocks), max(blocks)), np.int32)  # of layers that are not here
        self.all_tables = np.concatenate([others, self.tables])
        shape = (self.pool, case.kv_heads, case.block_tokens)
        self.keys = self._raw(rng.standard_normal((*shape, case.key_dim)))
        if not case.latent:
            self.values = self._raw(rng.standard_normal((*shape, case.value_dim)))
        tokens = [(s, past + i) for s, (past, new) in enumerate(case.sequences) for i in range(new)]
        if case.shuffled:
            tokens = [tokens[i] for i in rng.permutation(len(tokens))]
        self.sequences, self.positions = (np.array(a, np.int32) for a in zip(*tokens, strict=True))
        n = len(tokens)
        self.q = (2 * rng.standard_normal((n, case.heads, case.key_dim))).astype(np.float32)
        self.k = self._exact(rng.standard_normal((n, case.kv_heads, case.key_dim)))
        self.v = self._exact(rng.standard_normal((n, case.kv_heads, case.value_dim)))
        self.sinks = (3 * rng.standard_normal(case.heads)).astype(np.float32) if case.sinks else None

    def _raw(self, x: NDArray[np.float64]) -> NDArray[np.uint8]:
        rows = quantize(x.reshape(-1, x.shape[-1]).astype(np.float32), TYPE_NAMES[self.case.kv_type])
        return rows.reshape(*x.shape[:-1], -1)

    def _float(self, raw: NDArray[np.uint8]) -> NDArray[np.float32]:
        rows = dequantize(np.ascontiguousarray(raw.reshape(-1, raw.shape[-1])), TYPE_NAMES[self.case.kv_type])
        return rows.reshape(*raw.shape[:-1], -1)

    def _exact(self, x: NDArray[np.float64]) -> NDArray[np.float32]:
        """Values that the cache's type holds without rounding; Q8_0 is compared through what it stored."""
        return x.astype(np.float16).astype(np.float32) if self.case.kv_type != ref.Q8_0 else x.astype(np.float32)

    def run(self, tier: ref.Kernels | None = None, threads: int = 2, scale: float | None = None) -> NDArray[np.float32]:
        c, n = self.case, len(self.positions)
        tier = tier or ref.Kernels()
        p: _cpu.Program = tier.module.Program(tier.tier)
        q, k, v = (p.value(x[0].size) for x in (self.q, self.k, self.v))
        out = p.value(c.heads * c.value_dim)
        kv = p.kv_layer(c.kv_heads, c.key_dim, c.value_dim, c.kv_type, c.block_tokens, c.latent, c.table)
        if c.latent:
            p.bind_kv(kv, self.keys)
            v = k
        else:
            p.bind_kv(kv, self.keys, self.values)
        sinks = None if self.sinks is None else ref.bound_weight(p, self.sinks)
        scale = c.key_dim**-0.5 if scale is None else scale
        p.attention(q, k, v, kv, out, c.heads, scale, c.window, c.soft_cap, sinks)
        p.finish()
        for handle, x in ((q, self.q), (v, self.v), (k, self.k))[:: 2 if c.latent else 1]:
            p.write(handle, x.reshape(n, -1))
        p.run(
            tier.module.ThreadPool(threads),
            ref.batch(self.positions, self.sequences, self.all_tables, module=tier.module, count=c.table + 1),
        )
        return np.array(p.read(out)).reshape(n, c.heads, c.value_dim)

    def sequence(self, s: int, end: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """What the cache holds of sequence s at positions 0 … end - 1: keys and values [end, kv_heads, dim]."""
        table = self.tables[s, : -(-end // self.case.block_tokens)]

        def rows(raw: NDArray[np.uint8], dim: int) -> NDArray[np.float32]:
            return self._float(raw[table]).transpose(0, 2, 1, 3).reshape(-1, self.case.kv_heads, dim)[:end]

        keys = rows(self.keys, self.case.key_dim)
        return keys, keys[..., : self.case.value_dim] if self.case.latent else rows(self.values, self.case.value_dim)

    def check(self, got: NDArray[np.float32]) -> None:
        c, scale = self.case, self.case.key_dim**-0.5
        for s, (past, new) in enumerate(c.sequences):
            keys, values = self.sequence(s, past + new)
            for i in np.flatnonzero(self.sequences == s):
                position = int(self.positions[i])
                first = ref.first_seen(position, c.window)
                args = (scale, first, position, c.soft_cap, self.sinks)
                expected = ref.attention(self.q[i], keys, values, *args)
                spread = ref.attention(self.q[i], keys, np.abs(values), *args)
                k = np.abs(keys[first : position + 1].astype(np.float64))
                group = c.heads // c.kv_heads
                for h in range(c.heads):
                    delta = (c.key_dim + 4) * U * scale * (k[:, h // group] @ np.abs(self.q[i, h])).max()
                    delta += 12 * U * c.soft_cap  # of tanh: an exponential, a quotient and a difference from 1
                    bound = 2 * (2 * delta + (position + 100) * U) * spread[h]
                    assert (np.abs(got[i, h] - expected[h]) <= bound).all(), (s, position, h)


CASES = [
    Case(),
    Case(sequences=((0, 1),)),
    Case(sequences=((37, 1),)),
    Case(sequences=((700, 1),), block_tokens=32),
    Case(sequences=((2100, 1),), heads=3, kv_heads=1, block_tokens=64),
    Case(sequences=((530, 2), (0, 1), (90, 1), (15, 1)), heads=8, kv_heads=2),
    Case(sequences=((5, 40), (100, 3), (0, 1), (63, 1)), shuffled=True),
    Case(sequences=((0, 130),), heads=8, kv_heads=1),
    Case(sequences=((33, 70),), heads=6, kv_heads=2, block_tokens=5),
    Case(sequences=((90, 20),), heads=7, kv_heads=1, window=17),
    Case(sequences=((900, 1), (3, 1)), window=100),
    Case(sequences=((90, 20), (15, 1), (900, 1)), heads=7, kv_heads=1, window=-16),
    Case(sequences=((64, 70), (3, 1)), window=-100, table=1),
    Case(sequences=((700, 1), (90, 20)), table=2),
    Case(sequences=((900, 1), (3, 1)), window=100, sinks=True),
    Case(sequences=((900, 1), (40, 30), (0, 1)), heads=6, sinks=True),
    Case(sequences=((2100, 1), (33, 7)), heads=5, kv_heads=1, soft_cap=5.0),
    Case(sequences=((90, 20), (11, 1)), heads=7, kv_heads=1, key_dim=20, value_dim=33, soft_cap=2.0, sinks=True),
    Case(sequences=((300, 1), (20, 19)), kv_type=ref.Q8_0, window=19, soft_cap=50.0, sinks=True),
    *(Case(sequences=((50, 1), (10, 23)), heads=g * 2, key_dim=32, value_dim=32) for g in range(1, 9)),
    *(Case(sequences=((70, 1), (20, 19)), key_dim=d, value_dim=d) for d in (80, 96, 128, 256, 20)),
    Case(sequences=((70, 1), (20, 19)), key_dim=96, value_dim=64),
    Case(sequences=((70, 1), (20, 19)), key_dim=33, value_dim=7),
    *(Case(sequences=((70, 1), (20, 19)), kv_type=t) for t in (ref.F32, ref.Q8_0)),
    *(Case(sequences=((300, 1), (20, 19)), kv_type=t, key_dim=128, value_dim=32) for t in (ref.F32, ref.Q8_0)),
    *(
        Case(sequences=((70, 1), (20, 19)), heads=h, kv_heads=1, kv_type=t, key_dim=96, value_dim=64, latent=True)
        for t in TYPE_NAMES
        for h in (3, 17)
    ),
    Case(sequences=((300, 1), (9, 1), (0, 3)), heads=128, kv_heads=1, key_dim=576, value_dim=512, latent=True),
    Case(sequences=((40, 1), (5, 7)), heads=40, kv_heads=2, key_dim=20, value_dim=12, latent=True, shuffled=True),
]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_numpy(tier: ref.Kernels, case: Case) -> None:
    layer = Layer(case)
    layer.check(layer.run(tier))


@pytest.mark.parametrize("case", [CASES[5], CASES[6], CASES[7]], ids=str)
def test_threads_do_not_change_bits(case: Case) -> None:
    alone = Layer(case).run(threads=1)
    for threads in (2, 3, 4):
        np.testing.assert_array_equal(Layer(case).run(threads=threads), alone)


@pytest.mark.parametrize("tier", TIERS)
def test_half_precision_rows_are_rounded_to_nearest_even(tier: ref.Kernels) -> None:
    layer = Layer(Case(key_dim=36, value_dim=36))
    layer.k[:] = np.random.default_rng(1).standard_normal(layer.k.shape)
    layer.k[0, 0, :8] = [0, -0.0, 65504, 65520, 1e-8, 6e-8, -3e-7, 1 + 2**-11]
    layer.run(tier)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(layer.sequence(0, 9)[0], layer.k.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("tier", TIERS)
def test_q8_0_rows_are_within_half_a_step(tier: ref.Kernels) -> None:
    layer = Layer(Case(kv_type=ref.Q8_0))
    layer.k[3] = 0
    layer.run(tier)
    stored = layer.sequence(0, 9)[0].reshape(-1, 32)
    exact = layer.k.reshape(-1, 32)
    step = np.abs(exact).max(-1, keepdims=True) / 127
    assert (np.abs(stored - exact) <= step * (0.5 + 127 * 2.0**-11) + 1e-7).all()  # the step itself is half precision


@pytest.mark.parametrize("tier", TIERS)
def test_other_rows_of_the_cache_are_untouched(tier: ref.Kernels) -> None:
    layer = Layer(Case(sequences=((5, 3), (40, 1))))
    before = layer.keys.copy(), layer.values.copy()
    layer.run(tier)
    changed = (layer.keys != before[0]).any(-1) | (layer.values != before[1]).any(-1)
    written = np.zeros_like(changed)
    for s, p in zip(layer.sequences, layer.positions, strict=True):
        written[layer.tables[s, p // 16], :, p % 16] = True
    assert not (changed & ~written).any() and (changed == written).all()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("case", [Case(), CASES[5]], ids=str)
def test_extreme_scores(tier: ref.Kernels, case: Case) -> None:
    """Scores of ±10^4: one key takes all the weight and nothing overflows."""
    layer = Layer(case)
    layer.q *= 1000
    got = layer.run(tier)
    for i, (s, p) in enumerate(zip(layer.sequences, layer.positions, strict=True)):
        keys, values = layer.sequence(int(s), int(p) + 1)
        for h in range(case.heads):
            scores = keys[:, h * case.kv_heads // case.heads].astype(np.float64) @ layer.q[i, h] * case.key_dim**-0.5
            best = np.argsort(scores)
            if p == 0 or scores[best[-1]] - scores[best[-2]] > 20:
                expected = values[best[-1], h * case.kv_heads // case.heads]
                np.testing.assert_allclose(got[i, h], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("tier", TIERS)
def test_not_a_number_stays_with_its_rows(tier: ref.Kernels) -> None:
    layer = Layer(Case(sequences=((20, 12), (20, 12))))
    clean = layer.run(tier)
    layer.q[layer.sequences == 0] = np.nan
    got = layer.run(tier)
    np.testing.assert_array_equal(got[layer.sequences == 1], clean[layer.sequences == 1])
    assert np.isnan(got[layer.sequences == 0]).all()


@pytest.mark.parametrize("tier", TIERS)
def test_a_sink_far_above_all_scores_takes_everything(tier: ref.Kernels) -> None:
    layer = Layer(Case(sequences=((700, 1), (0, 9)), sinks=True))
    layer.sinks = np.array([-np.inf, 1e4, -1e4, 3e38], np.float32)
    got, plain = layer.run(tier), Layer(Case(sequences=((700, 1), (0, 9)))).run(tier)
    assert (got[:, [1, 3]] == 0).all()
    np.testing.assert_array_equal(got[:, [0, 2]], plain[:, [0, 2]])
