"""One run of a CudaProgram: the batch on the device, scratch memory, and operations of several launches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels.cuda.memory import Array, Memory
from kernels.cuda.operands import (
    EXTENT_BYTES,
    K_TYPES,
    MATVEC_MOST,
    PARTITION,
    QUERY_ROWS,
    Cache,
    ExpertTable,
    Items,
    Places,
    Rows,
    Spans,
    Temperature,
    int8_bytes,
    is_float,
    partitions_for,
    prefill_items,
)
from kernels.cuda.operations import Operations

if TYPE_CHECKING:
    from kernels._cpu import Batch, Floats, Ints


@dataclass
class Value:
    width: int
    ids: bool = False
    outputs: bool = False  # a row per output; else per token. As its last writer left it
    address: int = 0
    capacity: int = 0  # rows

    def reserve(self, memory: Memory, rows: int) -> None:
        """Room for `rows` rows. What was written before is kept only where there is room already."""
        if rows > self.capacity:
            if self.address:
                memory.free(self.address)
                self.address = self.capacity = 0
            self.address, self.capacity = memory.allocate(max(1, rows) * self.width * 4), rows

    def release(self, memory: Memory) -> None:
        if self.address:
            memory.free(self.address)
        self.address = self.capacity = 0


class Run:
    """Everything of one batch. `close` ends its scratch memory."""

    def __init__(self, operations: Operations, memory: Memory, values: list[Value], batch: Batch) -> None:
        self.operations = operations
        self.n, self.output_count = len(batch), len(batch.outputs)
        self.batch = batch
        self._memory, self._values = memory, values
        self._tables = batch.block_tables
        self._scratch: dict[Hashable, int] = {}
        self._items: dict[int, Items] = {}  # by heads per KV head
        self._spans: Spans | None = None
        self._made: set[Hashable] = set()  # scratch memory that holds what it is for
        for value in values:
            value.reserve(memory, max(self.n, self.output_count))

    def close(self) -> None:
        for address in self._scratch.values():
            self._memory.free(address)
        self._scratch.clear()

    def rows(self, outputs: bool) -> int:
        return self.output_count if outputs else self.n

    def at(self, value: int) -> int:
        return self._values[value].address

    def scratch(self, name: Hashable, size: int) -> int:
        """Memory until the end of the run, one for each name, which always asks for the same size."""
        if name not in self._scratch:
            self._scratch[name] = self._memory.allocate(max(1, size))
        return self._scratch[name]

    def _array(self, name: Hashable, make: Callable[[], Array]) -> int:
        if name not in self._scratch:
            self._scratch[name] = self._memory.put(make())
        return self._scratch[name]

    # ---- the batch ----

    @property
    def tokens(self) -> int:
        return self._array("tokens", lambda: self.batch.tokens)

    @property
    def positions(self) -> int:
        return self._array("positions", lambda: self.batch.positions)

    @property
    def outputs(self) -> int:
        return self._array("outputs", lambda: self.batch.outputs)

    def places(self, table: int) -> Places:
        """With one of the batch's block tables."""
        sequences = self._array("sequences", lambda: self.batch.sequences)
        (rows, blocks), first = self._tables.shape, self._array("tables", lambda: self._tables)
        return Places(self.positions, sequences, first + 4 * table * (rows // self.batch.tables) * blocks, blocks)

    def prefill_items(self, heads_per_kv: int) -> Items:
        if heads_per_kv not in self._items:
            order, items = prefill_items(self.batch.positions, self.batch.sequences, heads_per_kv)
            places = (
                self._array(("order", heads_per_kv), lambda: order),
                self._array(("items", heads_per_kv), lambda: items),
            )
            self._items[heads_per_kv] = Items(*places, len(items))
        return self._items[heads_per_kv]

    @property
    def spans(self) -> Spans:
        if self._spans is None:
            order, items = prefill_items(self.batch.positions, self.batch.sequences, 1, most=self.n)
            slots = self._array("slots", lambda: self.batch.slots)
            places = self._array("span order", lambda: order), self._array("spans", lambda: items)
            self._spans = Spans(*places, slots, len(items))
        return self._spans

    def partitions(self, window: int) -> int:
        return max(partitions_for(int(position), window) for position in self.batch.positions)

    def rope_table(self, frequencies: Floats, magnitude: float, temperature: Temperature) -> int:
        """Once per run for all layers that turn alike."""
        name = "rope", frequencies.tobytes(), magnitude, temperature
        table, pairs = self.scratch(name, self.n * 2 * frequencies.size * 4), frequencies.size
        if name not in self._made:
            self._made.add(name)
            given = self._array(("frequencies", frequencies.tobytes()), lambda: frequencies)
            self.operations.rope_table(self.positions, given, table, self.n, pairs, magnitude, temperature)
        return table

    # ---- activations as matrices take them ----

    def packed(self, x: int, n: int, cols: int, type_id: int) -> Rows:
        """Rows x in the form of this weight type; made once for the matrices that share them, until forget_packed."""
        if is_float(type_id):
            return Rows(x)
        name = "packed", x, n, cols, type_id in K_TYPES
        sizes = int8_bytes(n, cols)
        if name not in self._scratch:
            values = self.scratch(name, sizes[0])
            rows = Rows(values, self.scratch((*name, "facts"), sizes[1]))
            self.operations.quantize(x, rows, n, cols, type_id)
        return Rows(self._scratch[name], self._scratch[*name, "facts"])

    def forget_packed(self) -> None:
        """To be called when the rows may change."""
        for name in self._packed_names():
            self._memory.free(self._scratch.pop(name))

    def _packed_names(self) -> list[Hashable]:
        return [name for name in self._scratch if isinstance(name, tuple) and name[0] == "packed"]


_ONE_TOKEN = np.zeros(1, np.int32), np.array([[0, 0, 1]], np.int32)  # `prefill_items` of it
_COLUMNS = 10  # of int32 that a batch takes per token, beside its block table


class StepRun(Run):
    """For one batch after another of `n` tokens, each with an output. What differs between them lies at fixed addresses
    and no memory is given back, so that the launches of one pass can be captured and replayed for all.

    `tables` block tables have `table_blocks` columns; decode attention goes as far as `most_partitions`.
    """

    def __init__(
        self,
        operations: Operations,
        memory: Memory,
        values: list[Value],
        n: int,
        tables: int,
        table_blocks: int,
        most_partitions: int,
    ) -> None:
        self.operations = operations
        self.n = self.output_count = n
        self._memory, self._values = memory, values
        self._scratch, self._items, self._made = {}, {}, set()
        self._sizes: dict[Hashable, int] = {}
        self._spare: defaultdict[int, list[int]] = defaultdict(list)  # by size: memory that a name no longer needs
        self._tables_count, self._table_blocks, self._most_partitions = tables, table_blocks, most_partitions
        self.block_bytes = 4 * n * (_COLUMNS + tables * table_blocks)
        self.block = self.scratch("batch", self.block_bytes)
        for value in values:
            value.reserve(memory, n)

    def begin_pass(self) -> None:
        self._made.clear()

    def scratch(self, name: Hashable, size: int) -> int:
        if name not in self._scratch:
            spare = self._spare[size]
            self._scratch[name] = spare.pop() if spare else self._memory.allocate(max(1, size))
            self._sizes[name] = size
        return self._scratch[name]

    def forget_packed(self) -> None:
        for name in self._packed_names():
            self._spare[self._sizes[name]].append(self._scratch.pop(name))

    def close(self) -> None:
        super().close()
        for addresses in self._spare.values():
            for address in addresses:
                self._memory.free(address)
        self._spare.clear()

    def pack(self, batch: Batch) -> Ints:
        """What `block` has to hold: tokens, positions, sequences, outputs; order, spans, slots; block tables.

        There are as many spans as tokens: those that no sequence needs are empty.
        """
        packed, n = np.zeros(self.block_bytes // 4, np.int32), self.n
        order, spans = _ONE_TOKEN if n == 1 else prefill_items(batch.positions, batch.sequences, 1, most=n)
        for number, part in enumerate((batch.tokens, batch.positions, batch.sequences, batch.outputs, order)):
            packed[number * n : (number + 1) * n] = part
        packed[5 * n : 5 * n + spans.size] = spans.ravel()
        packed[8 * n : 8 * n + batch.slots.size] = batch.slots.ravel()
        tables = batch.block_tables.reshape(batch.tables, -1, batch.block_tables.shape[1])
        room = packed[_COLUMNS * n :].reshape(self._tables_count, n, -1)
        room[: tables.shape[0], : tables.shape[1], : tables.shape[2]] = tables
        return packed

    @property
    def tokens(self) -> int:
        return self.block

    @property
    def positions(self) -> int:
        return self.block + 4 * self.n

    @property
    def outputs(self) -> int:
        return self.block + 12 * self.n

    def places(self, table: int) -> Places:
        tables = self.block + 4 * (_COLUMNS + table * self._table_blocks) * self.n
        return Places(self.positions, self.block + 8 * self.n, tables, self._table_blocks)

    @property
    def spans(self) -> Spans:
        order, spans, slots = (self.block + 4 * column * self.n for column in (4, 5, 8))
        return Spans(order, spans, slots, self.n)

    def partitions(self, window: int) -> int:
        return min(self._most_partitions, abs(window) // PARTITION + 2) if window else self._most_partitions


def attend(
    run: Run,
    cache: Cache,
    places: Places,
    q: int,
    out: int,
    heads: int,
    scale: float,
    window: int,
    soft_cap: float,
    sinks: int,
) -> None:
    """With few tokens a block takes one and a part of its keys, with many a block takes 64 query rows and all keys."""
    per_kv = heads // cache.kv_heads
    fits_tiles = max(cache.key_dim, cache.value_dim) <= 256 and per_kv <= QUERY_ROWS and not cache.is_latent
    if run.n > MATVEC_MOST and fits_tiles:
        items = run.prefill_items(per_kv)
        run.operations.attention_prefill(cache, q, out, places, items, heads, scale, window, soft_cap, sinks)
        return
    partitions = run.partitions(window)
    rows = run.n * heads * partitions
    partials = run.scratch(("partials", rows, cache.value_dim), rows * cache.value_dim * 4)
    extents = run.scratch(("extents", rows), rows * EXTENT_BYTES)
    run.operations.attention_decode(
        cache, q, out, places, run.n, heads, scale, window, partitions, partials, extents, soft_cap, sinks
    )


def multiply_experts(
    run: Run,
    gate: ExpertTable,
    up: ExpertTable,
    down: ExpertTable,
    x: int,
    ids: int,
    weights: int,
    out: int,
    n: int,
    top_k: int,
    activation: int,
) -> None:
    """out = the weighted sum over the experts that are here: fused for few rows, grouped by expert for many."""
    operations, hidden = run.operations, run.scratch(("hidden", n, gate.rows), n * top_k * gate.rows * 4)
    if n <= MATVEC_MOST and gate.is_like(up):
        rows = run.packed(x, n, gate.cols, gate.type_id)
        operations.experts_gate_up(gate, up, ids, rows, hidden, n, top_k, activation)
        rows = run.packed(hidden, n * top_k, down.cols, down.type_id)
        operations.experts_down(down, ids, weights, rows, out, n, top_k)
    else:
        _multiply_grouped(run, gate, up, down, x, ids, hidden, n, top_k, activation)
        product = run.scratch(("product", n, down.rows), n * top_k * down.rows * 4)
        operations.combine_experts(down, ids, weights, product, out, n, down.rows, top_k)
    run.forget_packed()


def _multiply_grouped(
    run: Run,
    gate: ExpertTable,
    up: ExpertTable,
    down: ExpertTable,
    x: int,
    ids: int,
    hidden: int,
    n: int,
    top_k: int,
    activation: int,
) -> None:
    operations, pairs_count = run.operations, n * top_k
    starts = run.scratch(("starts", gate.experts), (gate.experts + 1) * 4)
    pairs = run.scratch(("pairs", pairs_count), pairs_count * 4)
    ups = run.scratch(("ups", pairs_count, up.rows), pairs_count * up.rows * 4)
    product = run.scratch(("product", n, down.rows), pairs_count * down.rows * 4)
    operations.group_pairs(gate, ids, starts, pairs, n, top_k)
    for table, to in ((gate, hidden), (up, ups)):
        rows = run.packed(x, n, table.cols, table.type_id)
        operations.experts_matmul(table, starts, pairs, rows, to, n, top_k)
    operations.glu(hidden, ups, hidden, pairs_count * gate.rows, activation)
    rows = run.packed(hidden, pairs_count, down.cols, down.type_id)
    operations.experts_matmul(down, starts, pairs, rows, product, n, 1)
