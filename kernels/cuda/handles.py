"""What the handles of a CudaProgram stand for."""

from __future__ import annotations

from dataclasses import dataclass

from kernels._cpu import QUANT_TYPES
from kernels.cuda.operations import Cache, Matrix


@dataclass
class Weight:
    type_id: int
    rows: int
    cols: int
    count: int
    address: int = 0
    owner: object = None

    @property
    def matrix_bytes(self) -> int:
        _, elements, size = QUANT_TYPES[self.type_id]
        return self.cols // elements * size * self.rows

    def matrix(self) -> Matrix:
        return Matrix(self.address, self.type_id, self.rows, self.cols)


@dataclass
class KvLayer:
    dims: tuple[int, int, int, int, int]  # type_id, kv_heads, key_dim, value_dim, block_tokens
    latent: bool = False  # the values are a part of the keys
    table: int = 0  # which of a batch's block tables says where its positions are
    keys: int = 0
    values: int = 0
    owners: tuple[object, ...] = ()

    def cache(self) -> Cache:
        return Cache(self.keys, self.values, *self.dims)


@dataclass
class StateLayer:
    tail_values: int
    state_values: int
    tails: int = 0
    states: int = 0
    owners: tuple[object, ...] = ()


@dataclass
class Bank:
    """One `experts` operation. Its pointer tables stay where they are and are written anew when weights or mask change,
    so that a captured graph goes on with them."""

    weights: tuple[int, ...]  # gate, up, down, and behind them their biases where there are any
    mask: int | None
    tables: int | None = None  # one after another, in the order of the weights
    is_stale: bool = True
