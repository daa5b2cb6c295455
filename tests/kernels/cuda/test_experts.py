"""Routing, and experts of which some are absent, on both paths: few rows (fused kernels) and many (grouped)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels import _cpu
from kernels.cuda.operands import SILU, ExpertTable, Rows, int8_bytes
from tests.support import program_reference as reference
from tests.support.cuda_machine import Machine
from tests.support.quantize import FLOAT_TYPES, TYPES, block_elements, dequantize, magnitude, random_blocks, type_id

EPS = 2.0**-24
EXPERTS, TOP_K, ABSENT = 6, 3, (1, 4)


@pytest.mark.parametrize("sigmoid", [False, True])
@pytest.mark.parametrize(("experts", "top_k"), [(1, 1), (5, 5), (37, 4), (128, 8)])
def test_router_chooses_as_the_cpu(machine: Machine, experts: int, top_k: int, sigmoid: bool) -> None:
    rng = np.random.default_rng(experts)
    logits = np.round(rng.standard_normal((6, experts)) * 2, 1).astype(np.float32)  # with equal ones among them
    logits[1] = np.nan
    logits[2, 0] = np.inf
    logits[3, -1] = -np.inf
    for normalise, scale in ((True, 1.0), (False, 2.5)):
        ids = machine.put(np.full((6, top_k), -7, np.int32))
        weights = machine.put(np.full((6, top_k), np.nan, np.float32))
        machine.operations.router(machine.put(logits), ids, weights, 6, experts, top_k, sigmoid, normalise, scale)
        expected_ids, expected = cpu_router(logits, top_k, sigmoid, normalise, scale)
        np.testing.assert_array_equal(machine.get(ids), expected_ids)
        # expf is good to two roundings and one of its argument; sums of n terms to n.
        np.testing.assert_allclose(machine.get(weights), expected, rtol=(experts + top_k + 24) * EPS, atol=1e-37)


@pytest.mark.parametrize("sigmoid", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(("experts", "top_k", "groups"), [(8, 2, (1, 1)), (24, 3, (4, 2)), (96, 6, (32, 3))])
def test_router_with_bias_and_groups_chooses_as_the_cpu(
    machine: Machine, experts: int, top_k: int, groups: tuple[int, int], biased: bool, sigmoid: bool
) -> None:
    rng = np.random.default_rng(experts)
    logits = rng.standard_normal((5, experts)).astype(np.float32)
    logits[1, : experts // 2] = np.nan
    bias = rng.standard_normal(experts).astype(np.float32) if biased else None
    ids, weights = machine.put(np.full((5, top_k), -7, np.int32)), machine.put(np.full((5, top_k), np.nan, np.float32))
    at = 0 if bias is None else machine.put(bias)
    machine.operations.router(machine.put(logits), ids, weights, 5, experts, top_k, sigmoid, True, 2.5, at, *groups)
    expected_ids, expected = cpu_router(logits, top_k, sigmoid, True, 2.5, bias, groups)
    np.testing.assert_array_equal(machine.get(ids), expected_ids)
    np.testing.assert_allclose(machine.get(weights), expected, rtol=(experts + top_k + 24) * EPS, atol=1e-37)


def cpu_router(
    logits: NDArray[np.float32],
    top_k: int,
    sigmoid: bool,
    normalise: bool,
    scale: float,
    bias: NDArray[np.float32] | None = None,
    groups: tuple[int, int] = (1, 1),
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    program = _cpu.Program("scalar")
    values = [program.value(logits.shape[1]), program.value(top_k, ids=True), program.value(top_k)]
    weight = None if bias is None else reference.bound_weight(program, bias)
    program.router(*values, top_k, "sigmoid" if sigmoid else "softmax", normalise, scale, weight, *groups)
    program.finish()
    program.write(values[0], logits)
    program.run(_cpu.ThreadPool(1), reference.batch(np.arange(len(logits))))
    return program.read(values[1]).view(np.int32).copy(), program.read(values[2]).copy()


class Experts:
    """EXPERTS random matrices; those in ABSENT have a null pointer."""

    def __init__(self, machine: Machine, name: str, rows: int, cols: int, seed: int, is_biased: bool = False) -> None:
        rng = np.random.default_rng(seed)
        raw = [random_blocks(name, rows, cols, rng) for _ in range(EXPERTS)]
        pointers = [0 if e in ABSENT else machine.put(blocks) for e, blocks in enumerate(raw)]
        self.bias = rng.standard_normal((EXPERTS, rows)).astype(np.float32) * is_biased
        biases = [0 if e in ABSENT else machine.put(bias) for e, bias in enumerate(self.bias)]
        biases_at = machine.put(biases, np.uint64) if is_biased else 0
        self.table = ExpertTable(machine.put(pointers, np.uint64), type_id(name), EXPERTS, rows, cols, biases_at)
        self.weights = [dequantize(blocks, name).astype(np.float64) for blocks in raw]
        self.magnitudes = [magnitude(blocks, name) for blocks in raw]
        self.sums = cols if name in FLOAT_TYPES else cols // 32

    def product(self, expert: int, x: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The exact product and the bound of a computed one (test_matrices.py)."""
        size = self.magnitudes[expert] @ np.abs(x) + np.abs(self.bias[expert])
        return self.weights[expert] @ x + self.bias[expert], (self.sums + 16) * EPS * size


def packed(machine: Machine, x: NDArray[np.float32], name: str) -> tuple[Rows, NDArray[np.float64]]:
    n, cols = x.shape
    if name in FLOAT_TYPES:
        return Rows(machine.put(x)), x.astype(np.float64)
    values_bytes, facts_bytes = int8_bytes(n, cols)
    rows = Rows(machine.put(np.zeros(values_bytes, np.int8)), machine.put(np.zeros(facts_bytes, np.uint8)))
    machine.operations.quantize(machine.put(x), rows, n, cols, type_id(name))
    scales = machine.get(rows.facts).view(np.float32).reshape(n, -1, 2)[..., :1].astype(np.float64)
    return rows, (scales * machine.get(rows.values).reshape(n, -1, 32)).reshape(n, cols)


def is_here(expert: int) -> bool:
    return 0 <= expert < EXPERTS and expert not in ABSENT


@pytest.mark.parametrize(("name", "is_biased"), [*((name, False) for name in TYPES), ("F32", True), ("Q8_0", True)])
def test_fused_experts_leave_out_absent_ones(machine: Machine, name: str, is_biased: bool) -> None:
    cols, rows, out_rows = (40, 24, 11) if name in FLOAT_TYPES else (max(64, block_elements(name)),) * 2 + (11,)
    ids = np.array([[0, 5, 1], [4, 1, 3], [-1, 2, EXPERTS]], np.int32)
    factors = np.random.default_rng(8).uniform(0.1, 1, ids.shape).astype(np.float32)
    x, operand = packed(machine, np.random.default_rng(7).standard_normal((3, cols)).astype(np.float32), name)
    gate, up = (Experts(machine, name, rows, cols, seed, is_biased) for seed in (1, 2))
    id_address = machine.put(ids)
    hidden_address = machine.put(np.full((3, TOP_K, rows), np.nan, np.float32))
    machine.operations.experts_gate_up(gate.table, up.table, id_address, x, hidden_address, 3, TOP_K, SILU)
    hidden = machine.get(hidden_address)
    for n, k in np.ndindex(ids.shape):
        if not is_here(ids[n, k]):
            assert (hidden[n, k] == 0).all()
            continue
        (g, g_bound), (u, u_bound) = (e.product(ids[n, k], operand[n]) for e in (gate, up))
        bound = 1.1 * g_bound * np.abs(u) + np.abs(reference.silu(g)) * u_bound + 40 * EPS * np.abs(g * u)
        assert (np.abs(hidden[n, k] - reference.silu(g) * u) <= bound).all(), (n, k)

    down = Experts(machine, name, out_rows, rows, 3, is_biased)
    down_x, down_operand = packed(machine, hidden.reshape(-1, rows), name)
    y = machine.put(np.full((3, out_rows), np.nan, np.float32))
    machine.operations.experts_down(down.table, id_address, machine.put(factors), down_x, y, 3, TOP_K)
    check_sums(machine.get(y), ids, factors, down, down_operand)


def check_sums(
    y: NDArray[np.float32],
    ids: NDArray[np.int32],
    factors: NDArray[np.float32],
    down: Experts,
    x: NDArray[np.float64],
) -> None:
    for n, row in enumerate(ids):
        expected, bound = np.zeros(y.shape[1]), np.zeros(y.shape[1])
        for k, expert in enumerate(row):
            if is_here(expert):
                product, product_bound = down.product(expert, x[n * TOP_K + k])
                expected += factors[n, k] * product
                bound += factors[n, k] * (product_bound + (TOP_K + 1) * EPS * np.abs(product))
        assert (np.abs(y[n] - expected) <= bound).all(), n


@pytest.mark.parametrize("is_biased", [False, True])
@pytest.mark.parametrize("name", ["F32", "Q8_0", "Q4_K", "Q6_K"])
def test_grouped_experts_give_the_same_sums(machine: Machine, name: str, is_biased: bool) -> None:
    """Many rows: pairs sorted by expert (one has more than a tile's worth), products by tiles, then combined."""
    n, cols, rows = 75, 64 if name in FLOAT_TYPES else block_elements(name), 13
    rng = np.random.default_rng(11)
    ids = np.stack([rng.permutation(EXPERTS)[:TOP_K] for _ in range(n)]).astype(np.int32)
    ids[:70, 0] = 5  # most tokens go there
    ids[:70, 1:] = np.stack([rng.permutation(5)[: TOP_K - 1] for _ in range(70)])
    factors = rng.uniform(0.1, 1, ids.shape).astype(np.float32)
    experts = Experts(machine, name, rows, cols, 4, is_biased)
    id_address = machine.put(ids)
    starts, pairs = (machine.put(np.full(size, -1, np.int32)) for size in (EXPERTS + 1, n * TOP_K))
    machine.operations.group_pairs(experts.table, id_address, starts, pairs, n, TOP_K)
    begins, order = machine.get(starts), machine.get(pairs)
    for e in range(EXPERTS):
        found = np.sort(order[begins[e] : begins[e + 1]])
        np.testing.assert_array_equal(found, np.flatnonzero(ids.ravel() == e) if is_here(e) else [])

    x, operand = packed(machine, rng.standard_normal((n, cols)).astype(np.float32), name)
    products = machine.put(np.full((n * TOP_K, rows), np.nan, np.float32))
    machine.operations.experts_matmul(experts.table, starts, pairs, x, products, n, TOP_K)
    y = machine.put(np.full((n, rows), np.nan, np.float32))
    machine.operations.combine_experts(experts.table, id_address, machine.put(factors), products, y, n, rows, TOP_K)
    check_sums(machine.get(y), ids, factors, experts, np.repeat(operand, TOP_K, 0))
