"""What the handles of a CudaProgram stand for, and the memory that they are bound to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernels._cpu import QUANT_TYPES
from kernels.cuda.kernel_set import KernelSet
from kernels.cuda.memory import Memory
from kernels.cuda.operands import Cache, ExpertTable, Matrix
from kernels.cuda.run import Value

if TYPE_CHECKING:
    from kernels._cpu import Buffer


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


@dataclass(eq=False)
class Bank:
    """One `experts` operation."""

    weights: tuple[int, ...]  # gate, up, down, and behind them their biases where there are any
    mask: int | None
    begin: int = 0  # its pointer tables in the block of all, in bytes: one after another, in the order of the weights
    pointers: NDArray[np.int64] | None = None  # what they are to hold [weights, experts], in the host's block
    addresses: NDArray[np.int64] | None = None  # of all matrices, a row per weight; behind them 0, for place -1


@dataclass
class Handles:
    """A program's values, weights and memories by number; weights and memories are bound between runs.

    All pointer tables lie in one block, which stays where it is and is written anew, as a whole, when weights or masks
    change: so a captured graph goes on with it, and one copy is enough whatever has changed.

    ValueError where no kernel takes what is asked for, RuntimeError where something is used that is not bound.
    """

    kernels: KernelSet
    memory: Memory
    stream: int = 0  # where it launches
    tier: str = "cuda"
    _values: list[Value] = field(default_factory=list)
    _weights: list[Weight] = field(default_factory=list)
    _kv_layers: list[KvLayer] = field(default_factory=list)
    _state_layers: list[StateLayer] = field(default_factory=list)
    _places: list[NDArray[np.int32]] = field(default_factory=list)
    _placed: list[list[Bank]] = field(default_factory=list)  # by mask: whose experts it tells of
    _banks: list[Bank] = field(default_factory=list)
    _stale: set[Bank] = field(default_factory=set)  # their pointer tables are to be written anew
    _table_block: int | None = None  # all pointer tables
    _host_block: NDArray[np.int64] | None = None  # what was sent there last: held until it is there
    _is_dry: bool = False  # nothing has to be bound

    def value(self, width: int, ids: bool = False) -> int:
        self._values.append(Value(width, ids))
        return len(self._values) - 1

    def weight(self, type_id: int, rows: int, cols: int, count: int = 1) -> int:
        if type_id not in QUANT_TYPES or cols % QUANT_TYPES[type_id][1]:
            raise ValueError(f"weight: no CUDA kernel for type {type_id} with {cols} columns")
        self._weights.append(Weight(type_id, rows, cols, count))
        return len(self._weights) - 1

    def bind_weight(self, handle: int, buffer: Buffer, offset: int = 0) -> None:
        """`buffer` is memory of the device: 16-byte aligned from `offset` on; held until rebound."""
        weight = self._weights[handle]
        address, owner = self.memory.borrow(buffer, offset, weight.matrix_bytes * weight.count)
        if address % 16:
            raise ValueError(f"bind_weight: weight {handle} is not 16-byte aligned")
        weight.address, weight.owner = address, owner
        for bank in self._banks:
            if handle in bank.weights:
                bank.addresses = None
                self._stale.add(bank)

    def kv_layer(
        self,
        kv_heads: int,
        key_dim: int,
        value_dim: int,
        type_id: int,
        block_tokens: int,
        latent: bool = False,
        table: int = 0,
    ) -> int:
        Cache(0, 0, type_id, kv_heads, key_dim, value_dim, block_tokens)  # refuses what no kernel reads
        self._kv_layers.append(KvLayer((type_id, kv_heads, key_dim, value_dim, block_tokens), latent, table))
        return len(self._kv_layers) - 1

    def bind_kv(self, handle: int, keys: Buffer, values: Buffer | None = None) -> None:
        layer = self._kv_layers[handle]
        if layer.latent != (values is None):
            raise ValueError(f"bind_kv: KV layer {handle} takes keys{' alone' if layer.latent else ' and values'}")
        borrowed = [self.memory.borrow(buffer, 0, 0) for buffer in (keys, values) if buffer is not None]
        layer.keys, layer.values = borrowed[0][0], borrowed[-1][0]
        layer.owners = tuple(owner for _, owner in borrowed)

    def state_layer(self, tail_values: int, state_values: int) -> int:
        self._state_layers.append(StateLayer(tail_values, state_values))
        return len(self._state_layers) - 1

    def bind_state(self, handle: int, tails: Buffer, states: Buffer) -> None:
        layer = self._state_layers[handle]
        (layer.tails, tails_owner), (layer.states, owner) = (self.memory.borrow(b, 0, 0) for b in (tails, states))
        layer.owners = tails_owner, owner

    def _bound_state(self, handle: int) -> StateLayer:
        layer = self._state_layers[handle]
        if not layer.owners and not self._is_dry:
            raise RuntimeError(f"run: state layer {handle} is not bound")
        return layer

    def expert_mask(self, experts: int) -> int:
        """Which of `experts` are here, and where: at first, each in the place of its number."""
        self._places.append(np.arange(experts, dtype=np.int32))
        self._placed.append([])
        return len(self._places) - 1

    def set_expert_mask(self, handle: int, present: NDArray[np.bool_]) -> None:
        self.set_expert_places(handle, np.where(present, np.arange(len(present), dtype=np.int32), np.int32(-1)))

    def set_expert_places(self, handle: int, places: NDArray[np.int32]) -> None:
        """Expert e is the matrix number places[e] of its stacks; -1: not here. In force from the next run, or after
        `refresh`."""
        self._places[handle] = np.array(places, np.int32)
        self._stale.update(self._placed[handle])

    def _bound(self, handle: int) -> Weight:
        weight = self._weights[handle]
        if not weight.address and not self._is_dry:
            raise RuntimeError(f"run: weight {handle} is not bound")
        return weight

    def _add_bank(self, bank: Bank) -> None:
        self._banks.append(bank)
        self._stale.add(bank)
        if bank.mask is not None:
            self._placed[bank.mask].append(bank)
        self._forget_tables()

    def _tables(self, bank: Bank) -> tuple[ExpertTable, ExpertTable, ExpertTable]:
        weights, count = [self._bound(handle) for handle in bank.weights], self._expert_count(bank)
        if self._table_block is None:
            self._table_block = self.memory.allocate(self._lay_out_tables())
        if bank in self._stale and not self._is_dry:
            self.memory.set(self._table_block, self._written_tables())
        first = self._table_block + bank.begin
        at = [*range(first, first + len(weights) * 8 * count, 8 * count)]
        biases = at[3:] or (0, 0, 0)
        gate, up, down = (
            ExpertTable(table, w.type_id, count, w.rows, w.cols, bias)
            for table, w, bias in zip(at[:3], weights[:3], biases, strict=True)
        )
        return gate, up, down

    def _expert_count(self, bank: Bank) -> int:
        return self._weights[bank.weights[0]].count if bank.mask is None else len(self._places[bank.mask])

    def _lay_out_tables(self) -> int:
        """Bytes of the block."""
        end = 0
        for bank in self._banks:
            bank.begin, end = end, end + len(bank.weights) * 8 * self._expert_count(bank)
        return end

    def _written_tables(self) -> NDArray[np.int64]:
        """The block as it is to be. Asked for between two tokens wherever an expert came or went, so a bank takes one
        array operation on what is known already. Banks whose weights are not bound stay as they are."""
        if self._host_block is None:
            self._host_block = self.memory.host_array(self._lay_out_tables() // 8)
            for bank in self._banks:
                count = self._expert_count(bank)
                part = self._host_block[bank.begin // 8 :][: len(bank.weights) * count]
                bank.pointers = part.reshape(len(bank.weights), count)
        for bank in self._stale:
            if all(self._weights[handle].address for handle in bank.weights):
                self._write_pointers(bank)
        self._stale.clear()
        return self._host_block

    def _write_pointers(self, bank: Bank) -> None:
        assert bank.pointers is not None
        if bank.addresses is None:
            weights = [self._weights[handle] for handle in bank.weights]
            begins, sizes = [w.address for w in weights], [w.matrix_bytes for w in weights]
            count = max(weights[0].count, self._expert_count(bank))
            numbers = np.arange(count + 1, dtype=np.int64)
            bank.addresses = np.array(begins, np.int64)[:, None] + np.array(sizes, np.int64)[:, None] * numbers
            bank.addresses[:, -1] = 0
        if bank.mask is None:
            bank.pointers[:] = bank.addresses[:, :-1]
        else:
            bank.addresses.take(self._places[bank.mask], axis=1, out=bank.pointers)

    def _forget_tables(self) -> None:
        """Gives back the block."""
        if self._table_block is not None:
            self.memory.free(self._table_block)
            self._table_block = None
        if self._host_block is not None:
            for bank in self._banks:
                bank.pointers = None
            self.memory.free_host_array(self._host_block)
            self._host_block = None
        self._stale.update(self._banks)
