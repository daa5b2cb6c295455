"""Which state each layer keeps, read from GGUF metadata and tensor names.

Sources: llama.cpp's metadata keys (gguf-py constants) and its readers' window patterns per architecture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.placement.header_keys import HeaderKeys
from engine.placement.state import StateKind, StateShape


class _Named(Protocol):
    @property
    def name(self) -> str: ...


# Layers per period, of which the last attends to everything, where the file only gives the window's size.
_WINDOW_PERIOD = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gpt-oss": 2,
    "cohere2": 4,
    "llama4": 4,
    "exaone4": 4,
    "mistral3": 1,
}
_MAX_HEADS = 1 << 16
_CHUNK = 8192  # of llama4, without a key


def layer_states(keys: HeaderKeys, tensors: Mapping[int, Sequence[_Named]], count: int) -> tuple[StateShape, ...]:
    """One state per layer. Per-layer head counts may be zero: such a layer keeps no KV."""
    heads = keys.per_layer("attention.head_count", count, 0, high=_MAX_HEADS)
    kv_heads = keys.per_layer("attention.head_count_kv", count, 0, high=_MAX_HEADS)
    if not keys.has("attention.head_count_kv"):
        kv_heads = heads
    hidden = keys.integer("embedding_length", low=1, high=1 << 20)
    widest = max(heads) or 1
    key_dim = keys.integer("attention.key_length", hidden // widest, low=1, high=1 << 16)
    value_dim = keys.integer("attention.value_length", key_dim, low=1, high=1 << 16)
    windows = _windows(keys, count)
    latent = keys.integer("attention.kv_lora_rank", 0, high=1 << 16)
    if latent:
        return (_latent(keys, latent, max(heads)),) * count

    def state(layer: int) -> StateShape:
        names = {tensor.name.split(".", 2)[2] for tensor in tensors.get(layer, ())}
        if any(name.startswith("ssm_") for name in names):
            return _recurrent(keys, heads[layer])
        if not kv_heads[layer]:
            return StateShape(StateKind.NONE)
        kind = StateKind.WINDOW if windows[layer] else StateKind.FULL
        return StateShape(kind, heads[layer], kv_heads[layer], key_dim, value_dim, windows[layer])

    return tuple(state(layer) for layer in range(count))


def _windows(keys: HeaderKeys, count: int) -> tuple[int, ...]:
    """The window of each layer; 0 where a layer attends to everything."""
    window = keys.integer("attention.sliding_window", _CHUNK if keys.architecture == "llama4" else 0, high=1 << 31)
    if not window:
        return (0,) * count
    if keys.has("attention.sliding_window_pattern"):
        pattern = keys.per_layer("attention.sliding_window_pattern", count, high=4096)
        if len(set(pattern)) > 1 or pattern[0] <= 1:
            return tuple(window if flag else 0 for flag in pattern)
        period = pattern[0]
    elif keys.architecture in _WINDOW_PERIOD:
        period = _WINDOW_PERIOD[keys.architecture]
    else:
        return (0,) * count  # readers ignore the key here: counting whole contexts never counts too little
    if period == 1:
        return (window,) * count
    return tuple(window if (layer + 1) % period else 0 for layer in range(count))


def _latent(keys: HeaderKeys, rank: int, heads: int) -> StateShape:
    """Multi-head latent attention in its absorbed form: one row of rank + rotary values per position."""
    rope = keys.integer("rope.dimension_count", 64, low=1, high=1 << 16)
    return StateShape(StateKind.LATENT, heads, 1, rank + rope, 0)


def _recurrent(keys: HeaderKeys, heads: int) -> StateShape:
    """State of a gated delta net or a Mamba layer: the convolution's tail and the float32 state matrix.

    The formula is llama.cpp's: (conv - 1) × (inner + 2 × groups × state) + state × inner values.
    """
    inner = keys.integer("ssm.inner_size", low=1, high=1 << 24)
    state = keys.integer("ssm.state_size", low=1, high=1 << 16)
    groups = keys.integer("ssm.group_count", 0, high=1 << 16)
    convolution = keys.integer("ssm.conv_kernel", low=1, high=1 << 10)
    values = (convolution - 1) * (inner + 2 * groups * state) + state * inner
    return StateShape(StateKind.RECURRENT, heads, recurrent_bytes=4 * values)
