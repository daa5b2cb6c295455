"""One run of a CudaProgram: the batch on the device, scratch memory, and operations of several launches."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.cuda.memory import Array, Memory
from kernels.cuda.operands import (
    EXTENT_BYTES,
    K_TYPES,
    MATVEC_MOST,
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
    prefill_form,
    prefill_items,
)
from kernels.cuda.operations import Operations

if TYPE_CHECKING:
    from kernels._cpu import Batch, Floats


@dataclass(slots=True)
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

    def prefill_items(self, most: int) -> Items:
        """Of at most so many tokens each."""
        if most not in self._items:
            order, items = prefill_items(self.batch.positions, self.batch.sequences, most)
            places = self._array(("order", most), lambda: order), self._array(("items", most), lambda: items)
            self._items[most] = Items(*places, len(items))
        return self._items[most]

    @property
    def spans(self) -> Spans:
        if self._spans is None:
            order, items = prefill_items(self.batch.positions, self.batch.sequences, self.n)
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
    """With few tokens a block takes one and a part of its keys, with many it takes up to 64 query rows and all keys."""
    form = prefill_form(cache, heads) if run.n > MATVEC_MOST else None
    if form is not None:
        items = run.prefill_items(form.most)
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
