"""Row operations against float64, within counted roundings of 2^-24 (EPS)."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.cuda.operands import GELU, LINEAR, SIGMOID, SILU, SWIGLU_OAI
from tests.support import program_reference as reference
from tests.support.cuda_machine import Machine

EPS = 2.0**-24


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("width", [1, 40, 255, 1024 + 3])
def test_rms_norm(machine: Machine, width: int) -> None:
    """A sum of squares of `width` terms is off by at most width / 256 + 15 roundings, half of them in the root."""
    x, residual, weight = random(3, width, seed=1) * 5, random(3, width, seed=2), random(width, seed=3)
    bound = (width / 512 + 16) * EPS
    y = machine.put(np.full_like(x, np.nan))
    machine.operations.rms_norm(machine.put(x), machine.put(weight), y, 3, width, 1e-5)
    expected = reference.rms_norm(x, weight, 1e-5)
    assert (np.abs(machine.get(y) - expected) <= bound * np.abs(expected)).all()

    machine.operations.rms_norm(machine.put(x), 0, y, 3, width, 1e-5)
    expected = reference.rms_norm(x, np.ones(width), 1e-5)
    assert (np.abs(machine.get(y) - expected) <= bound * np.abs(expected)).all()

    y, sums = machine.put(np.full_like(x, np.nan)), machine.put(x)
    machine.operations.add_rms_norm(sums, machine.put(residual), machine.put(weight), sums, y, 3, width, 1e-5)
    np.testing.assert_array_equal(machine.get(sums), x + residual)
    expected = reference.rms_norm(x + residual, weight, 1e-5)
    assert (np.abs(machine.get(y) - expected) <= bound * np.abs(expected)).all()


@pytest.mark.parametrize("heat", [(1.0, 0.0, 0.0), (64.0, 0.1, 1.0)])
@pytest.mark.parametrize("mode", ["norm", "neox"])
def test_rope(machine: Machine, mode: str, heat: tuple[float, float, float]) -> None:
    """Angles are exact to a rounding of half turns (pi * EPS), a cosine or sine adds two, magnitude and product two."""
    heads, head_dim, pairs, magnitude = 3, 20, 7, 1.25
    positions = np.array([0, 1, 511, 130_000], np.int32)
    frequencies = (10_000.0 ** (-np.arange(pairs) / pairs)).astype(np.float32)
    x = random(4, heads, head_dim)
    table = machine.put(np.full((4, 2, pairs), np.nan, np.float32))
    out = machine.put(x)
    given = machine.put(positions), machine.put(frequencies)
    machine.operations.rope_table(*given, table, 4, pairs, magnitude, heat)
    machine.operations.rope(out, table, 4, heads, head_dim, pairs, mode == "neox")
    magnitudes = magnitude * reference.temperature(positions, *heat)
    expected = reference.rope(x, positions, frequencies, mode, magnitudes)
    partner = reference.rope(np.abs(x), np.zeros(4), frequencies, mode, 1.0)
    largest = np.abs(partner).max(-1, keepdims=True)
    assert (np.abs(machine.get(out) - expected) <= 2 * magnitudes[:, None, None] * largest * (np.pi + 5) * EPS).all()
    np.testing.assert_array_equal(machine.get(out)[..., 2 * pairs :], x[..., 2 * pairs :])


@pytest.mark.parametrize("activation", [SILU, GELU, SIGMOID, LINEAR])
def test_glu(machine: Machine, activation: int) -> None:
    """expf is good to two roundings of its result, and of its argument y, whose rounding counts |y| times."""
    gate, up = random(2, 301) * 4, random(2, 301, seed=1)
    gate[0, :4] = [-200, -80, 80, 200]
    out = machine.put(gate)
    machine.operations.glu(out, machine.put(up), out, gate.size, activation)
    x = gate.astype(np.float64)
    # Gelu's tanh form is x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), and so without cancellation far below zero.
    argument = 2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3) if activation == GELU else x
    expected = (1 if activation == SIGMOID else x) * reference.silu(argument) / argument * up
    steepness = np.abs(argument)
    if activation == LINEAR:
        expected = x * up
    bound = (12 + 6 * np.minimum(steepness, 100)) * EPS * np.abs(expected) + 1e-35
    assert (np.abs(machine.get(out) - expected) <= bound).all()


def test_a_norm_of_a_part_of_each_row_and_a_copy_of_the_rest(machine: Machine) -> None:
    x, weight = random(5, 41), random(24, seed=1)
    out = machine.put(np.full((5, 41), np.nan, np.float32))
    given = machine.put(x)
    machine.operations.rms_norm(given, machine.put(weight), out, 5, 24, 1e-5, 41)
    machine.operations.copy_part(given + 4 * 24, out + 4 * 24, 5, 41, 41, 17)
    expected = reference.rms_norm(x[:, :24], weight, 1e-5)
    assert (np.abs(machine.get(out)[:, :24] - expected) <= 20 * EPS * np.abs(expected)).all()
    np.testing.assert_array_equal(machine.get(out)[:, 24:], x[:, 24:])


@pytest.mark.parametrize("span", [1, 7, 64])
def test_one_gate_for_several_neighbours(machine: Machine, span: int) -> None:
    gate, up = random(5), random(5 * span, seed=1)
    out = machine.put(up)
    machine.operations.glu(machine.put(gate), out, out, up.size, SIGMOID, span)
    expected = reference.sigmoid(gate).repeat(span) * up
    assert (np.abs(machine.get(out) - expected) <= 20 * EPS * np.abs(expected)).all()


def test_swiglu_oai(machine: Machine) -> None:
    gate, up = random(2, 301) * 6, random(2, 301, seed=1) * 6
    gate[0, :4], up[0, :4] = [-60, 7, np.inf, np.nan], [-np.inf, np.inf, 2, 3]
    out = machine.put(gate)
    machine.operations.glu(out, machine.put(up), out, gate.size, SWIGLU_OAI)
    expected, got = reference.swiglu_oai(gate, up), machine.get(out)
    bound = (14 + 6 * 1.702 * np.minimum(np.abs(gate), 90)) * EPS * (np.abs(expected) + EPS) + 1e-30
    wrong = ~(np.abs(got - expected) <= bound)
    assert np.flatnonzero(wrong).tolist() == [3] and np.isnan(got[0, 3])


def test_soft_cap(machine: Machine) -> None:
    x = random(3, 87) * 80
    x[0, :2] = [np.inf, -np.inf]
    out = machine.put(x)
    machine.operations.soft_cap(out, out, x.size, 30.0)
    expected = 30 * np.tanh(x.astype(np.float64) / 30)
    assert (np.abs(machine.get(out) - expected) <= 6 * EPS * np.abs(expected)).all()


def test_elementwise(machine: Machine) -> None:
    a, b = random(3, 87), random(3, 87, seed=1)
    out = machine.put(a)
    machine.operations.add(out, machine.put(b), out, a.size)
    np.testing.assert_array_equal(machine.get(out), a + b)
    out = machine.put(a)
    machine.operations.scale(out, out, a.size, 0.3)
    np.testing.assert_array_equal(machine.get(out), a * np.float32(0.3))
    out = machine.put(np.zeros((4, 87), np.float32))
    machine.operations.select_rows(machine.put(a), machine.put([2, 0, 0, 1], np.int32), out, 4, 87)
    np.testing.assert_array_equal(machine.get(out), a[[2, 0, 0, 1]])
