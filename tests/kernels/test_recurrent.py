"""Short convolution and gated delta rule on every tier against float64, and what a run leaves in the slots.

A state is a sum of terms whose factors are at most 1 and whose roundings add up over the tokens; with N tokens and keys
of D values, an output is off by at most 4 (N + D) roundings of the largest state's size.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels import _cpu
from tests.support import program_reference as ref

U = 2.0**-24
TIERS = ref.all_tiers()
Floats = NDArray[np.float32]


def noise(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Conv:
    """A convolution of `channels` over `taps` positions, with three slots."""

    def __init__(self, tier: ref.Kernels, channels: int, taps: int) -> None:
        self.tier, self.p = tier, tier.module.Program(tier.tier)
        self.weight = noise(channels, taps, seed=1)
        self.tails = noise(3, taps - 1, channels, seed=2)
        self.x, self.out = self.p.value(channels), self.p.value(channels)
        layer = self.p.state_layer((taps - 1) * channels, 1)
        self.p.bind_state(layer, self.tails, np.zeros((3, 1), np.float32))
        self.p.short_conv(self.x, ref.bound_weight(self.p, self.weight), self.out, layer)
        self.p.finish()

    def run(self, x: Floats, sequences: list[int], slots: list[tuple[int, int]]) -> Floats:
        self.p.write(self.x, x)
        batch = ref.batch(
            np.arange(len(x)), sequences, np.zeros((len(slots), 1), np.int32), module=self.tier.module, slots=slots
        )
        self.p.run(self.tier.module.ThreadPool(2), batch)
        return np.array(self.p.read(self.out))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("channels", "taps"), [(7, 4), (300, 2), (513, 4)])
def test_short_conv(tier: ref.Kernels, channels: int, taps: int) -> None:
    conv = Conv(tier, channels, taps)
    past, x = conv.tails[0].copy(), noise(7, channels, seed=3)
    got = conv.run(x, [0, 0, 1, 0, 1, 0, 0], [(0, 2), (-1, 1)])
    for rows, before, slot in (([0, 1, 3, 5, 6], past, 2), ([2, 4], np.zeros_like(past), 1)):
        inputs = np.concatenate([before, x[rows]]).astype(np.float64)
        sums = sum(inputs[j : j + len(rows)] * conv.weight[:, j] for j in range(taps))
        magnitude = sum(np.abs(inputs[j : j + len(rows)] * conv.weight[:, j]) for j in range(taps))
        assert (np.abs(got[rows] - ref.silu(sums)) <= (20 + taps) * U * (magnitude + 1)).all()
        np.testing.assert_array_equal(conv.tails[slot], inputs[len(inputs) - taps + 1 :].astype(np.float32))
    np.testing.assert_array_equal(conv.tails[0], past)  # what was read is as it was


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize(("key_dim", "value_dim"), [(32, 32), (20, 41), (128, 128)])
def test_delta_rule(tier: ref.Kernels, tiled: bool, key_dim: int, value_dim: int) -> None:
    delta = Delta(tier, 2, 4, key_dim, value_dim, tiled)
    before = delta.states.copy()
    x, alpha, beta = delta.inputs(6)
    got = delta.run(x, alpha, beta, [0, 1, 0, 0, 1, 0], [(0, 2), (-1, 1)])
    for rows, state, slot in (([0, 2, 3, 5], before[0], 2), ([1, 4], np.zeros_like(before[0]), 1)):
        expected, left = delta.expected(x[rows], alpha[rows], beta[rows], state.astype(np.float64))
        size = max(1.0, np.abs(left).max(), np.abs(state).max())
        assert np.abs(got[rows] - expected).max() <= 4 * (len(rows) + key_dim) * U * size
        assert np.abs(delta.states[slot] - left).max() <= 4 * (len(rows) + key_dim) * U * size
    np.testing.assert_array_equal(delta.states[0], before[0])


@pytest.mark.parametrize("tier", TIERS)
def test_a_state_may_be_written_where_it_was_read(tier: ref.Kernels) -> None:
    delta, other = (Delta(tier, 1, 3, 32, 32, False) for _ in range(2))
    x, alpha, beta = delta.inputs(3)
    np.testing.assert_array_equal(
        delta.run(x, alpha, beta, [0, 0, 0], [(0, 0)]), other.run(x, alpha, beta, [0, 0, 0], [(0, 1)])
    )
    np.testing.assert_array_equal(delta.states[0], other.states[1])


class Delta:
    """A delta rule with three slots of random states."""

    def __init__(
        self, tier: ref.Kernels, key_heads: int, value_heads: int, key_dim: int, value_dim: int, tiled: bool
    ) -> None:
        self.tier, self.p = tier, tier.module.Program(tier.tier)
        self.dims = key_heads, value_heads, key_dim, value_dim
        self.tiled = tiled
        self.states = noise(3, value_heads, key_dim, value_dim, seed=1)
        self.a, self.dt = -np.abs(noise(value_heads, seed=2)), noise(value_heads, seed=3)
        self.width = 2 * key_heads * key_dim + value_heads * value_dim
        self.handles = [self.p.value(n) for n in (self.width, value_heads, value_heads)]
        self.out = self.p.value(value_heads * value_dim)
        layer = self.p.state_layer(1, value_heads * key_dim * value_dim)
        self.p.bind_state(layer, np.zeros((3, 1), np.float32), self.states)
        weights = [ref.bound_weight(self.p, vector) for vector in (self.a, self.dt)]
        self.p.delta_rule(*self.handles, *weights, self.out, layer, *self.dims, tiled, 1e-6)
        self.p.finish()

    def inputs(self, tokens: int) -> tuple[Floats, Floats, Floats]:
        heads = self.dims[1]
        return noise(tokens, self.width, seed=5), 2 * noise(tokens, heads, seed=6), noise(tokens, heads, seed=7)

    def run(self, x: Floats, alpha: Floats, beta: Floats, sequences: list[int], slots: list[tuple[int, int]]) -> Floats:
        for handle, rows in zip(self.handles, (x, alpha, beta), strict=True):
            self.p.write(handle, rows)
        tables = np.zeros((len(slots), 1), np.int32)
        batch = ref.batch(np.arange(len(x)), sequences, tables, module=self.tier.module, slots=slots)
        self.p.run(self.tier.module.ThreadPool(2), batch)
        return np.array(self.p.read(self.out))

    def expected(
        self, x: Floats, alpha: Floats, beta: Floats, state: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return ref.delta_rule(x, alpha, beta, self.a, self.dt, state, *self.dims[:1], self.tiled, 1e-6)


def test_split_heads() -> None:
    p = _cpu.Program()
    x, both, one = p.value(3 * 10), p.value(3 * 7), p.value(3 * 3)
    p.split_heads(x, [both, one, both], [2, 3, 5], 3)
    p.finish()
    rows = noise(2, 30)
    p.write(x, rows)
    p.run(_cpu.ThreadPool(2), ref.batch([0, 1]))
    heads = rows.reshape(2, 3, 10)
    expected = np.concatenate([heads[..., :2].reshape(2, -1), heads[..., 5:].reshape(2, -1)], axis=1)
    np.testing.assert_array_equal(p.read(both), expected)
    np.testing.assert_array_equal(p.read(one), heads[..., 2:5].reshape(2, -1))


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        (None, "needs slots"),
        ([(0, 3)], "names slots 0 and 3"),
        ([(-2, 0)], "names slots -2 and 0"),
        ([(0, 1), (-1, 1)], "share slot 1"),
        ([(0, 1), (1, 2)], "share slot 1"),
        ([(0, 1), (-1, 2), (-1, 0)], "3 sequences|slots"),
    ],
)
def test_slots_are_checked(slots: list[tuple[int, int]] | None, message: str) -> None:
    conv = Conv(ref.Kernels(), 4, 3)
    conv.p.write(conv.x, noise(3, 4))
    count = min(2, len(slots or [0]))
    tables = np.zeros((count, 1), np.int32)
    with pytest.raises(ValueError, match=message):
        conv.p.run(_cpu.ThreadPool(1), ref.batch(range(3), [0, count - 1, 0], tables, slots=slots))
