"""Runs of few tokens whose launches are captured once: what differs between steps lies in one block of memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import TYPE_CHECKING

from kernels.cuda.memory import Memory
from kernels.cuda.operands import PARTITION, Places, Spans
from kernels.cuda.operations import Operations
from kernels.cuda.run import Run, Value

if TYPE_CHECKING:
    from kernels._cpu import Batch, Ints

_COLUMNS = 10  # of int32 that a batch takes per token, beside its block tables


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

    def host_block(self, words: Ints) -> HostBlock:
        """`words` [block_bytes / 4] of the host's memory, to be copied to `block` before each pass."""
        return HostBlock(words, self._tables_count)

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


class HostBlock:
    """A block in the host's memory: tokens, positions, sequences, outputs; order, spans, slots; block tables.

    There are as many spans as tokens: those that no sequence needs are empty. It is filled between any two tokens, so
    natively (`fill_block` in kernels/cpu/bind_program.cpp); what no kernel reads of an earlier step stays in it.
    """

    def __init__(self, words: Ints, tables: int) -> None:
        words[:] = 0
        self._words, self._tables = words, tables

    def fill(self, batch: Batch) -> None:
        batch.fill_block(self._words, self._tables)
