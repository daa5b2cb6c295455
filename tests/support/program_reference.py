"""The operations of a program in numpy float64, and short ways to make programs and batches for tests."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from kernels import _cpu

Array = NDArray[np.float64]
F32, F16, Q8_0 = 0, 1, 8


class Kernels(NamedTuple):
    """A tier and the native module that has it: kernels._cpu, or for AVX-512 in software kernels._cpu_emulated."""

    tier: _cpu.TierChoice = "auto"
    module: Any = _cpu


def all_tiers() -> list[Any]:
    """Test parameters: every tier this machine can run, and AVX-512 at least in software."""
    native = _cpu.tiers()
    params = [pytest.param(Kernels(tier), id=tier) for tier in native]
    if "avx2" in native and "avx512" not in native:
        try:
            emulated = Kernels("avx512", importlib.import_module("kernels._cpu_emulated"))
            params.append(pytest.param(emulated, id="avx512_emulated"))
        except ImportError:
            skip = pytest.mark.skip(reason="kernels._cpu_emulated was not built (needs libsimde-dev)")
            params.append(pytest.param(Kernels("avx512"), id="avx512_emulated", marks=skip))
    return params


def rms_norm(x: ArrayLike, weight: ArrayLike, eps: float) -> Array:
    x = np.asarray(x, np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * np.asarray(weight, np.float64)


def silu(x: ArrayLike) -> Array:
    x = np.asarray(x, np.float64)
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


def sigmoid(x: ArrayLike) -> Array:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-np.asarray(x, np.float64)))


def gelu(x: ArrayLike) -> Array:
    x = np.asarray(x, np.float64)
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def router_scores(
    logits: ArrayLike, gating: str, bias: ArrayLike | None = None, groups: tuple[int, int] = (1, 1)
) -> tuple[Array, Array]:
    """Gates [rows, experts], and what experts are chosen by: minus infinity outside the groups that are open."""
    logits = np.asarray(logits, np.float64)
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    softmax = exponentials / exponentials.sum(-1, keepdims=True)
    gates = softmax if gating == "softmax" else 1 / (1 + np.exp(-logits))
    scores = gates if bias is None else gates + np.asarray(bias, np.float64)
    count, used = groups
    if count == 1:
        return gates, scores
    grouped = scores.reshape(len(scores), count, -1)
    best_two = np.sort(grouped, -1)[..., -2:].sum(-1)
    open_groups = np.argsort(-best_two, axis=-1, kind="stable")[:, :used]
    closed = np.ones((len(scores), count), bool)
    np.put_along_axis(closed, open_groups, False, -1)
    return gates, np.where(closed[..., None], -np.inf, grouped).reshape(scores.shape)


def swiglu_oai(gate: ArrayLike, up: ArrayLike) -> Array:
    """gpt-oss's: sigmoid(1.702 gate) gate (up + 1), of values bounded by 7."""
    gate, up = np.minimum(np.asarray(gate, np.float64), 7), np.clip(np.asarray(up, np.float64), -7, 7)
    return silu(1.702 * gate) / 1.702 * (up + 1)


def temperature(positions: ArrayLike, length: float, scale: float, offset: float) -> Array:
    """What queries at `positions` are multiplied by."""
    return 1 + scale * np.log(np.floor((np.asarray(positions, np.float64) + offset) / length) + 1)


def rope(
    x: ArrayLike, positions: ArrayLike, frequencies: ArrayLike, mode: str, magnitude: float | Array = 1.0
) -> Array:
    """x [tokens, heads, head_dim]; rotates the first 2 * len(frequencies) values of every head."""
    out = np.array(x, np.float64)
    angles = np.asarray(positions, np.float64)[:, None] * np.asarray(frequencies, np.float64)
    pairs = angles.shape[1]
    magnitudes = np.broadcast_to(magnitude, len(angles))[:, None, None]
    cosines, sines = (magnitudes * f(angles)[:, None, :] for f in (np.cos, np.sin))
    if mode == "norm":
        first, second = np.s_[..., 0 : 2 * pairs : 2], np.s_[..., 1 : 2 * pairs : 2]
    else:
        first, second = np.s_[..., :pairs], np.s_[..., pairs : 2 * pairs]
    a, b = out[first].copy(), out[second].copy()
    out[first], out[second] = a * cosines - b * sines, a * sines + b * cosines
    return out


def delta_rule(
    x: ArrayLike,
    alpha: ArrayLike,
    beta: ArrayLike,
    a: ArrayLike,
    dt: ArrayLike,
    state: Array,
    key_heads: int,
    tiled: bool,
    eps: float,
) -> tuple[Array, Array]:
    """One sequence's tokens through state [value_heads, key_dim, value_dim]: outputs [tokens, all values], and the
    state behind them. x holds all queries, keys, then values."""
    x, alpha, beta, a, dt = (np.asarray(part, np.float64) for part in (x, alpha, beta, a, dt))
    heads, key_dim, value_dim = state.shape
    state, keys, outs = state.copy(), key_heads * key_dim, []
    for t in range(len(x)):
        q, k = (x[t, i * keys : (i + 1) * keys].reshape(key_heads, key_dim) for i in (0, 1))
        q, k = (part / np.sqrt((part**2).sum(-1, keepdims=True) + eps) for part in (q, k))
        v = x[t, 2 * keys :].reshape(heads, value_dim)
        decay = np.exp(a * np.log1p(np.exp(alpha[t] + dt)))
        for h in range(heads):
            of = h % key_heads if tiled else h // (heads // key_heads)
            state[h] *= decay[h]
            state[h] += np.outer(k[of], (v[h] - k[of] @ state[h]) / (1 + np.exp(-beta[t, h])))
        owner = np.arange(heads) % key_heads if tiled else np.arange(heads) // (heads // key_heads)
        outs.append((q[owner][:, None, :] @ state)[:, 0].reshape(-1) / np.sqrt(key_dim))
    return np.array(outs), state


def first_seen(position: int, window: int) -> int:
    """The first of the positions that a query sees: all, the last `window`, or its chunk of -window."""
    if window < 0:
        return position // -window * -window
    return max(0, position - window + 1) if window else 0


def attention(
    q: ArrayLike,
    keys: ArrayLike,
    values: ArrayLike,
    scale: float,
    first: int,
    last: int,
    soft_cap: float = 0.0,
    sinks: ArrayLike | None = None,
) -> Array:
    """One query [heads, key_dim] over keys [positions, kv_heads, key_dim] at positions first … last."""
    q = np.asarray(q, np.float64)
    k, v = (np.asarray(a, np.float64)[first : last + 1] for a in (keys, values))
    group = q.shape[0] // k.shape[1]
    out = np.empty((q.shape[0], v.shape[2]))
    for h in range(q.shape[0]):
        scores = scale * (k[:, h // group] @ q[h])
        if soft_cap:
            scores = soft_cap * np.tanh(scores / soft_cap)
        weights = np.exp(scores - scores.max())
        sink = 0.0 if sinks is None else np.exp(np.asarray(sinks, np.float64)[h] - scores.max())
        out[h] = weights / (weights.sum() + sink) @ v[:, h // group]
    return out


def batch(
    positions: ArrayLike,
    sequences: ArrayLike | None = None,
    tables: ArrayLike | None = None,
    tokens: ArrayLike | None = None,
    outputs: Sequence[int] = (),
    module: Any = _cpu,
    slots: ArrayLike | None = None,
    count: int = 1,
) -> _cpu.Batch:
    """A batch of one sequence with one block, unless told otherwise. count: of block tables among `tables`."""
    positions = np.asarray(positions, np.int32)
    zeros = np.zeros_like(positions)
    made: _cpu.Batch = module.Batch(
        zeros if tokens is None else np.asarray(tokens, np.int32),
        positions,
        zeros if sequences is None else np.asarray(sequences, np.int32),
        np.zeros((1, 1), np.int32) if tables is None else np.asarray(tables, np.int32),
        np.asarray(outputs, np.int32),
        None if slots is None else np.asarray(slots, np.int32),
        count,
    )
    return made


def bound_weight(program: _cpu.Program, array: ArrayLike) -> int:
    """A float32 weight [rows, cols], [count, rows, cols] or a vector, bound at once."""
    array = np.ascontiguousarray(array, np.float32)
    count = array.shape[0] if array.ndim == 3 else 1
    rows = array.shape[-2] if array.ndim > 1 else 1
    handle = program.weight(F32, rows, array.shape[-1], count)
    program.bind_weight(handle, array)
    return handle
