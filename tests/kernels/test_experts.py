"""Routing and experts against numpy: ties, NaN, masks, any number of threads."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels import _cpu
from tests.support import program_reference as ref
from tests.support.quantize import dequantize, random_blocks, type_id

Floats = NDArray[np.float32]
Ids = NDArray[np.int32]


def route(
    logits: Floats,
    top_k: int,
    gating: str = "softmax",
    normalise: bool = True,
    scale: float = 1.0,
    bias: Floats | None = None,
    groups: tuple[int, int] = (1, 1),
) -> tuple[Ids, Floats]:
    p = _cpu.Program()
    v, ids, weights = p.value(logits.shape[1]), p.value(top_k), p.value(top_k)
    p.router(
        v, ids, weights, top_k, gating, normalise, scale, None if bias is None else ref.bound_weight(p, bias), *groups
    )
    p.finish()
    p.write(v, logits)
    p.run(_cpu.ThreadPool(2), ref.batch(range(len(logits)), tables=[[0]]))
    return np.array(p.read(ids)), np.array(p.read(weights))


@pytest.mark.parametrize("gating", ["softmax", "sigmoid"])
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize(("experts", "top_k"), [(8, 2), (128, 8), (5, 5), (1, 1), (300, 256)])
def test_router(gating: str, normalise: bool, experts: int, top_k: int) -> None:
    logits = (3 * np.random.default_rng(0).standard_normal((7, experts))).astype(np.float32)
    ids, weights = route(logits, top_k, gating, normalise, 1.5)
    exact = logits.astype(np.float64)
    gates = np.exp(exact - exact.max(-1, keepdims=True))
    gates = gates / gates.sum(-1, keepdims=True) if gating == "softmax" else 1 / (1 + np.exp(-exact))
    order = np.argsort(-exact, axis=-1, kind="stable")[:, :top_k]
    chosen = np.take_along_axis(gates, order, -1)
    if normalise:
        chosen /= chosen.sum(-1, keepdims=True)
    assert ids.dtype == np.int32
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_allclose(weights, 1.5 * chosen, rtol=(experts + 16) * 2.0**-24)


@pytest.mark.parametrize("gating", ["softmax", "sigmoid"])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(
    ("experts", "top_k", "groups"),
    [(8, 2, (1, 1)), (8, 3, (4, 2)), (256, 8, (8, 4)), (384, 8, (1, 1)), (64, 6, (32, 3))],
)
def test_router_with_bias_and_groups(
    gating: str, biased: bool, experts: int, top_k: int, groups: tuple[int, int]
) -> None:
    """The bias changes the choice, not the weights; only the groups with the best two experts are open."""
    rng = np.random.default_rng(1)
    logits = (2 * rng.standard_normal((9, experts))).astype(np.float32)
    bias = rng.standard_normal(experts).astype(np.float32) * np.float32(0.5) if biased else None
    ids, weights = route(logits, top_k, gating, True, 2.5, bias, groups)
    gates, scores = ref.router_scores(logits, gating, bias, groups)
    order = np.argsort(-scores, axis=-1, kind="stable")[:, :top_k]
    chosen = np.take_along_axis(gates, order, -1)
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_allclose(weights, 2.5 * chosen / chosen.sum(-1, keepdims=True), rtol=(experts + 16) * 2.0**-24)


def test_wild_biases_still_choose_different_experts() -> None:
    bias = np.array([1, np.inf, -np.inf, np.nan, 0, 0, 0, 0], np.float32)
    ids, weights = route(np.zeros((2, 8), np.float32), 4, "sigmoid", bias=bias, groups=(4, 2))
    assert ids.tolist() == [[1, 0, 4, 5]] * 2
    np.testing.assert_allclose(weights, 0.25)


def test_ties_go_to_the_lower_expert() -> None:
    ids, weights = route(np.array([[1, 2, 2, 1, 2], [0, 0, 0, 0, 0]], np.float32), 3)
    assert ids.tolist() == [[1, 2, 4], [0, 1, 2]]
    np.testing.assert_allclose(weights, 1 / 3, rtol=1e-6)


@pytest.mark.parametrize("gating", ["softmax", "sigmoid"])
def test_wild_logits_still_choose_different_experts(gating: str) -> None:
    nan, inf = np.nan, np.inf
    rows = [[nan] * 4, [nan, 1, nan, 2], [inf, -inf, 0, nan], [inf, inf, inf, inf], [-inf] * 4, [3e38, -3e38, 3e38, 0]]
    ids, weights = route(np.array(rows, np.float32), 3, gating)
    assert ids.tolist() == [[0, 1, 2], [3, 1, 0], [0, 2, 1], [0, 1, 2], [0, 1, 2], [0, 2, 3]]
    assert np.isfinite(weights).all() and (weights >= 0).all()


class Moe:
    """Random experts of one weight type, and what they should give for the ids and weights of a batch."""

    def __init__(self, name: str = "F32", experts: int = 6, width: int = 32, hidden: int = 64) -> None:
        rng = np.random.default_rng(4)
        self.shape, self.name = (experts, width, hidden), name
        self.raw = {
            role: np.stack([random_blocks(name, rows, cols, rng) for _ in range(experts)])
            for role, rows, cols in (("gate", hidden, width), ("up", hidden, width), ("down", width, hidden))
        }

        self.biases: list[Floats] = []  # of gate, up and down
        self.activation: Literal["silu", "swiglu_oai"] = "silu"
        self.exact = {
            role: np.stack([dequantize(one, name).astype(np.float64) for one in raw]) for role, raw in self.raw.items()
        }

    def run(self, x: Floats, ids: Ids, weights: Floats, threads: int = 2, present: list[bool] | None = None) -> Floats:
        experts, width, hidden = self.shape
        p = _cpu.Program()
        v, out = p.value(width), p.value(width)
        i, w = p.value(ids.shape[1], ids=True), p.value(ids.shape[1])
        handles = []
        for role, rows, cols in (("gate", hidden, width), ("up", hidden, width), ("down", width, hidden)):
            handles.append(p.weight(type_id(self.name), rows, cols, experts))
            p.bind_weight(handles[-1], self.raw[role])
        mask = None
        if present is not None:
            mask = p.expert_mask(experts)
            p.set_expert_mask(mask, np.array(present))
        biases = []
        for bias in self.biases:
            biases.append(p.weight(0, 1, bias.shape[1], experts))
            p.bind_weight(biases[-1], bias)
        p.experts(v, i, w, *handles, out, self.activation, mask, biases)
        p.finish()
        p.write(v, x)
        p.write(i, ids)
        p.write(w, weights)
        p.run(_cpu.ThreadPool(threads), ref.batch(range(len(x)), tables=[[0]]))
        return np.array(p.read(out))

    def expected(self, x: Floats, ids: Ids, weights: Floats) -> NDArray[np.float64]:
        out = np.zeros(x.shape)
        for t, row in enumerate(x.astype(np.float64)):
            for expert, weight in zip(ids[t], weights[t], strict=True):
                if 0 <= expert < self.shape[0]:
                    gate, up, down = (self.exact[role][expert] for role in ("gate", "up", "down"))
                    gate_bias, up_bias, down_bias = (b[expert] for b in self.biases) if self.biases else (0, 0, 0)
                    g, u = gate @ row + gate_bias, up @ row + up_bias
                    hidden = ref.silu(g) * u if self.activation == "silu" else ref.swiglu_oai(g, u)
                    out[t] += weight * (down @ hidden + down_bias)
        return out

    def routed(self, tokens: int, top_k: int, seed: int = 0) -> tuple[Floats, Ids, Floats]:
        rng = np.random.default_rng(seed)
        ids = np.stack([rng.permutation(self.shape[0])[:top_k] for _ in range(tokens)]).astype(np.int32)
        x = rng.standard_normal((tokens, self.shape[1])).astype(np.float32)
        return x, ids, rng.random((tokens, top_k)).astype(np.float32)


@pytest.mark.parametrize("tokens", [1, 2, 13, 70])
@pytest.mark.parametrize("top_k", [1, 2, 6])
def test_experts(tokens: int, top_k: int) -> None:
    moe = Moe()
    routed = moe.routed(tokens, top_k)
    np.testing.assert_allclose(moe.run(*routed), moe.expected(*routed), rtol=0, atol=1e-5)


@pytest.mark.parametrize(("hidden", "tokens"), [(512, 300), (1024, 300)])  # of 6 experts, three and one in a wave
def test_experts_in_waves(hidden: int, tokens: int) -> None:
    moe = Moe(hidden=hidden)
    routed = moe.routed(tokens, 6)
    whole = moe.run(*routed)
    np.testing.assert_allclose(whole, moe.expected(*routed), rtol=0, atol=1e-4)
    np.testing.assert_array_equal(moe.run(*routed, threads=3), whole)
    x, ids, weights = routed
    present = [False, True, True, False, True, False]
    ours = moe.run(x, ids, weights, present=present)
    hidden_ids = np.where(np.isin(ids, np.flatnonzero(present)), ids, -1)
    np.testing.assert_allclose(ours, moe.expected(x, hidden_ids, weights), rtol=0, atol=1e-4)


@pytest.mark.parametrize("activation", ["silu", "swiglu_oai"])
@pytest.mark.parametrize("tokens", [1, 2, 13, 70])
def test_biases(tokens: int, activation: Literal["silu", "swiglu_oai"]) -> None:
    moe, rng = Moe(hidden=96), np.random.default_rng(8)
    moe.activation = activation
    moe.biases = [rng.standard_normal((6, size)).astype(np.float32) for size in (96, 96, 32)]
    routed = moe.routed(tokens, 3)
    whole = moe.run(*routed)
    np.testing.assert_allclose(whole, moe.expected(*routed), rtol=0, atol=2e-5)
    np.testing.assert_array_equal(moe.run(*routed, threads=3), whole)
    present = [True, False, False, True, True, False]
    ours, theirs = (moe.run(*routed, present=m) for m in (present, [not x for x in present]))
    np.testing.assert_allclose(ours + theirs, whole, rtol=0, atol=2e-5)


@pytest.mark.parametrize("name", ["Q4_K", "Q8_0", "Q4_1", "F16"])
@pytest.mark.parametrize("tokens", [1, 33])
def test_quantised_experts(name: str, tokens: int) -> None:
    """int8 activations: each is off by at most 1/254 of its block's largest, so the bound is loose but not empty."""
    moe = Moe(name, width=256, hidden=512)
    routed = moe.routed(tokens, 2)
    expected = moe.expected(*routed)
    error = np.abs(moe.run(*routed) - expected)
    assert error.max() <= (1e-4 if name == "F16" else 0.03) * np.abs(expected).max()


@pytest.mark.parametrize("name", ["F32", "Q4_K"])
@pytest.mark.parametrize("tokens", [1, 29])
def test_threads_do_not_change_bits(name: str, tokens: int) -> None:
    moe = Moe(name, width=256, hidden=256)
    routed = moe.routed(tokens, 3)
    alone = moe.run(*routed, threads=1)
    for threads in (2, 3, 4):
        np.testing.assert_array_equal(moe.run(*routed, threads=threads), alone)


@pytest.mark.parametrize("tokens", [1, 20])
def test_masks_split_the_sum(tokens: int) -> None:
    """What two programs with complementary masks compute adds up to what one computes."""
    moe = Moe()
    routed = moe.routed(tokens, 4)
    present = [True, False, False, True, True, False]
    ours, theirs = (moe.run(*routed, present=m) for m in (present, [not x for x in present]))
    np.testing.assert_allclose(ours + theirs, moe.run(*routed), rtol=0, atol=1e-5)
    assert (moe.run(*routed, present=[False] * 6) == 0).all()
    x, ids, weights = routed
    hidden = np.where(np.isin(ids, np.flatnonzero(present)), ids, -1)
    np.testing.assert_allclose(ours, moe.expected(x, hidden, weights), rtol=0, atol=1e-5)


def test_ids_outside_the_experts_contribute_nothing() -> None:
    moe = Moe()
    x, _, weights = moe.routed(3, 4)
    ids = np.array([[-1, 6, 2**31 - 1, -(2**31)], [5, 5, 5, 0], [1, 2, 3, 4]], np.int32)
    once = np.array([[-1, 6, -1, -1], [5, -1, -1, 0], [1, 2, 3, 4]], np.int32)  # a repeated expert counts once
    np.testing.assert_allclose(moe.run(x, ids, weights), moe.expected(x, once, weights), rtol=0, atol=1e-5)


def test_ids_that_nobody_wrote() -> None:
    moe = Moe(experts=2)
    p = _cpu.Program()
    v, out, i, w = p.value(32), p.value(32), p.value(2, ids=True), p.value(2)
    handles = [p.weight(0, r, c, 2) for r, c in ((64, 32), (64, 32), (32, 64))]
    for handle, role in zip(handles, ("gate", "up", "down"), strict=True):
        p.bind_weight(handle, moe.raw[role])
    p.experts(v, i, w, *handles, out)
    p.finish()
    p.run(_cpu.ThreadPool(2), ref.batch(range(50), tables=[[0]]))
    assert (p.read(out) == 0).all()
