"""What operations take: activations, matrices, expert tables, caches, and where a batch's tokens are.

Every pointer is an address on the kernel set's device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernels.cuda.source import CACHE_TYPES, FLOAT_TYPES

SILU, GELU, SIGMOID, SWIGLU_OAI, LINEAR = range(5)
ROWS_PER_BLOCK, TILE = 8, 64  # of the matrix-vector and of the matrix-matrix kernels
MATVEC_MOST = 8  # rows of activations up to which the matrix-vector kernel is used
HEADS_PER_BLOCK, PARTITION = 8, 256  # of attention_decode
QUERY_ROWS = 64  # of a block of attention_prefill
DEEP_ROWS, DEEP_KEYS, DEEP_VALUES = 32, 16, 512  # of a block of attention_prefill_deep
LEAST_SHARED = 64 << 10  # bytes of shared memory that a block may have on every architecture (Turing's)
FACTS_BYTES, EXTENT_BYTES = 8, 8
Ints = NDArray[np.int32]
Temperature = tuple[float, float, float]  # length, scale, offset: 1 + scale ln(floor((position + offset) / length) + 1)
# Blocks of 256 values, whose activations share one scale, too.
K_TYPES = (10, 11, 12, 13, 14, 16, 17, 18, 19, 21, 22, 23, 29, 34, 35)


class Rows(NamedTuple):
    """Activations as a matrix takes them: addresses of the values and, for int8, of their facts (else 0)."""

    values: int
    facts: int = 0


def int8_bytes(n: int, cols: int) -> tuple[int, int]:
    """Bytes of the values and of the facts of n quantised rows."""
    return n * cols, n * (cols // 32) * FACTS_BYTES


class Matrix(NamedTuple):
    """Raw GGUF rows, 16-byte aligned."""

    address: int
    type_id: int
    rows: int
    cols: int


class ExpertTable(NamedTuple):
    """Stacked matrices as an array of pointers on the device, one per expert; null: that expert is not here.

    `biases`: a like array of float vectors [rows], or 0."""

    address: int
    type_id: int
    experts: int
    rows: int
    cols: int
    biases: int = 0

    def is_like(self, other: ExpertTable) -> bool:
        """Of the same type and shape."""
        return self[1:5] == other[1:5]


@dataclass(frozen=True)
class Cache:
    """One layer's paged KV cache; see kernels/cuda/cache.cuh for its layout."""

    keys: int
    values: int
    type_id: int
    kv_heads: int
    key_dim: int
    value_dim: int
    block_tokens: int

    @property
    def is_latent(self) -> bool:
        return self.values == self.keys

    def __post_init__(self) -> None:
        step = 32 if self.type_id == 8 else 8
        if self.type_id not in CACHE_TYPES or self.key_dim % step or self.value_dim % step or self.value_dim > 1024:
            raise ValueError(f"no CUDA kernel for a cache of type {self.type_id}, {self.key_dim} x {self.value_dim}")


class Places(NamedTuple):
    """Where the batch's tokens are: int32 arrays [n], [n] and [sequences, table_blocks]."""

    positions: int
    sequences: int
    tables: int
    table_blocks: int


@dataclass(frozen=True)
class Spans:
    """A batch by sequences, for recurrent layers: order [n], spans [count, 3] and slots [sequences, 2], int32."""

    order: int
    spans: int
    slots: int
    count: int


@dataclass(frozen=True)
class Items:
    """`prefill_items` on the device, and how many items there are."""

    order: int
    items: int
    count: int


@dataclass(frozen=True)
class PrefillForm:
    """Which attention_prefill reads a cache: `most` tokens per item, groups of heads per KV head, shared bytes."""

    suffix: str
    most: int
    groups: int
    shared: int


def prefill_form(cache: Cache, heads: int) -> PrefillForm | None:
    """None: no kernel does it."""
    per_kv, largest = heads // cache.kv_heads, max(cache.key_dim, cache.value_dim)
    row = -(-cache.key_dim // 16) * 16 + 8  # halves of a query or key
    if largest <= 256 and per_kv <= QUERY_ROWS and not cache.is_latent:
        keys = 32 if largest <= 128 else 16
        halves = (QUERY_ROWS + keys) * row + cache.value_dim * (keys + 8)
        return PrefillForm("" if largest <= 128 else "_wide", QUERY_ROWS // per_kv, 1, 2 * halves)
    halves = (DEEP_ROWS + DEEP_KEYS) * row + (0 if cache.is_latent else DEEP_KEYS * (cache.value_dim + 8))
    if cache.value_dim > DEEP_VALUES or 2 * halves > LEAST_SHARED:
        return None
    together = min(DEEP_ROWS, per_kv)
    return PrefillForm("_deep", DEEP_ROWS // together, -(-per_kv // together), 2 * halves)


def prefill_items(positions: Ints, sequences: Ints, most: int) -> tuple[Ints, Ints]:
    """How attention_prefill cuts a batch: order [n], the tokens by sequence and position, and items [count, 3]:
    sequence, first place in `order`, number of tokens: at most `most` each."""
    order = np.lexsort((positions, sequences)).astype(np.int32)
    items: list[tuple[int, int, int]] = []
    starts = np.flatnonzero(np.diff(sequences[order], prepend=-1)).tolist()
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        sequence = int(sequences[order[start]])
        items += [(sequence, first, min(most, end - first)) for first in range(start, end, most)]
    return order, np.array(items, np.int32)


def partitions_for(position: int, window: int = 0) -> int:
    """How many partitions attention_decode needs for a query at this position."""
    return position // PARTITION - first_seen(position, window) // PARTITION + 1


def first_seen(position: int, window: int) -> int:
    """The first position that a query sees, as the kernels have it."""
    if window < 0:
        return position // -window * -window
    return max(0, position - window + 1) if window else 0


def is_float(type_id: int) -> bool:
    """Whether matrices of this type take float rows."""
    return type_id in FLOAT_TYPES
