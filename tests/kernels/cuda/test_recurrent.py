"""Recurrent layers on the device against float64: two sequences in one batch, one of them new."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.cuda.operands import Spans, prefill_items
from tests.support import program_reference as reference
from tests.support.cuda_machine import Machine

EPS = 2.0**-24
SEQUENCES = np.array([0, 1, 0, 0, 1, 0], np.int32)
SLOTS = np.array([[0, 2], [-1, 1]], np.int32)


def spans(machine: Machine) -> Spans:
    positions = np.arange(len(SEQUENCES), dtype=np.int32)
    order, items = prefill_items(positions, SEQUENCES, len(SEQUENCES))
    return Spans(machine.put(order), machine.put(items), machine.put(SLOTS), len(items))


def noise(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("channels", "taps"), [(7, 4), (200, 2)])
def test_short_conv(machine: Machine, channels: int, taps: int) -> None:
    x, weight, tails = noise(0, 6, channels), noise(1, channels, taps), noise(2, 3, taps - 1, channels)
    out, kept = machine.put(np.full_like(x, np.nan)), machine.put(tails)
    machine.operations.short_conv(machine.put(x), machine.put(weight), out, spans(machine), kept, channels, taps)
    for sequence, before, slot in ((0, tails[0], 2), (1, np.zeros_like(tails[0]), 1)):
        rows = np.flatnonzero(sequence == SEQUENCES)
        inputs = np.concatenate([before, x[rows]]).astype(np.float64)
        sums = sum(inputs[j : j + len(rows)] * weight[:, j] for j in range(taps))
        magnitude = sum(np.abs(inputs[j : j + len(rows)] * weight[:, j]) for j in range(taps))
        assert (np.abs(machine.get(out)[rows] - reference.silu(sums)) <= 30 * EPS * (magnitude + 1)).all()
        np.testing.assert_array_equal(machine.get(kept)[slot], inputs[len(inputs) - taps + 1 :].astype(np.float32))
    np.testing.assert_array_equal(machine.get(kept)[0], tails[0])


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize(("key_dim", "value_dim"), [(32, 32), (20, 141)])
def test_delta_rule(machine: Machine, key_dim: int, value_dim: int, tiled: bool) -> None:
    key_heads, value_heads = 2, 4
    states = noise(1, 3, value_heads, key_dim, value_dim)
    a, dt = -np.abs(noise(2, value_heads)), noise(3, value_heads)
    x = noise(5, 6, 2 * key_heads * key_dim + value_heads * value_dim)
    alpha, beta = 2 * noise(6, 6, value_heads), noise(7, 6, value_heads)
    out, kept = machine.put(np.full((6, value_heads * value_dim), np.nan, np.float32)), machine.put(states)
    gates = machine.put(alpha), machine.put(beta), machine.put(a), machine.put(dt)
    dims = key_heads, value_heads, key_dim, value_dim
    machine.operations.delta_rule(machine.put(x), gates, out, spans(machine), kept, *dims, tiled, 1e-6)
    for sequence, state, slot in ((0, states[0], 2), (1, np.zeros_like(states[0]), 1)):
        rows = np.flatnonzero(sequence == SEQUENCES)
        given = x[rows], alpha[rows], beta[rows], a, dt, state.astype(np.float64)
        expected, left = reference.delta_rule(*given, key_heads, tiled, 1e-6)
        bound = 4 * (len(rows) + key_dim) * EPS * max(1.0, np.abs(left).max(), np.abs(state).max())
        assert np.abs(machine.get(out)[rows] - expected).max() <= bound
        assert np.abs(machine.get(kept)[slot] - left).max() <= bound
    np.testing.assert_array_equal(machine.get(kept)[0], states[0])
