"""A forward pass over the CUDA kernels, with the interface of `kernels._cpu.Program`.

What is captured once for the CPU can so be captured for a device: the same handles (handles.py), operations (record.py)
and batches. Operations are launched one by one, in order.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.cuda.footprint import CountingMemory, Footprint, NoKernels
from kernels.cuda.memory import DeviceRows
from kernels.cuda.operations import Operations
from kernels.cuda.record import Recorder
from kernels.cuda.run import Run, Value
from kernels.cuda.step_run import StepRun

_ADDRESS = operator.attrgetter("address")

if TYPE_CHECKING:
    from kernels._cpu import Batch, Floats, Ints, ThreadPool


@dataclass
class CudaProgram(Recorder):
    """Not for several threads at once. Raises ValueError where the kernels refuse an operation, LaunchError when one
    fails, RuntimeError where something is not bound."""

    _last: tuple[int, int] = (0, 0)  # rows per token and per output of the last run
    _run: Run | None = None  # of the latest batch

    def run(self, pool: ThreadPool | None, batch: Batch, begin: int = 0, end: int = -1) -> None:
        """Operations begin … end for one batch. `pool` is the CPU's and not used. What a batch needs on the device
        stays there until another one comes, because a step is run in parts."""
        if self._run is None or self._run.batch is not batch:
            self.forget_run()
            self._run = Run(Operations(self.kernels, self.stream), self.memory, self._values, batch)
        self.launch(self._run, begin, end)
        self._last = self._run.n, self._run.output_count

    def launch(self, run: Run, begin: int, end: int) -> None:
        index, end = begin, self.operation_count if end < 0 else end
        while index < end:
            pair = self._pairs.get(index) if index + 1 < end else None
            (pair or self._operations[index])(run)
            index += 2 if pair else 1

    def footprint(self, batch: Batch) -> Footprint:
        """What a run of everything would take for this batch. Nothing has to be bound, and nothing is launched."""
        memory, kernels = CountingMemory(), NoKernels()
        values = [Value(value.width, value.ids, value.outputs) for value in self._values]
        real, block = self.memory, self._table_block
        self.memory, self._is_dry, self._table_block = memory, True, None
        try:
            self.launch(Run(Operations(kernels), memory, values, batch), 0, -1)
        finally:
            self.memory, self._is_dry, self._table_block = real, False, block
        return Footprint(memory.peak, frozenset(kernels.names))

    def step_run(self, tokens: int, table_blocks: int, partitions: int) -> StepRun:
        """For repeated steps of so many tokens; to be closed before the program is."""
        operations = Operations(self.kernels, self.stream)
        tables = 1 + max((layer.table for layer in self._kv_layers), default=0)
        return StepRun(operations, self.memory, self._values, tokens, tables, table_blocks, partitions)

    def width(self, value: int) -> int:
        return self._values[value].width

    def addresses(self) -> Iterator[int]:
        """Of all values; a larger batch may move them."""
        return map(_ADDRESS, self._values)

    def refresh(self) -> None:
        """Pointer tables as they are to be for what is launched next. Waits for nothing: the next refresh has to come
        behind a wait for those launches."""
        if self._stale and self._table_block is not None:
            self.memory.send(self._table_block, self._written_tables())

    def forget_run(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None

    def close(self) -> None:
        """Gives back all memory that the program took. It must not be running."""
        self.forget_run()
        for value in self._values:
            value.release(self.memory)
        self._forget_tables()

    def rows(self, value: int) -> DeviceRows:
        """[rows, width] of the last run, where they are: good until the next run."""
        found = self._values[value]
        shape = self._last[found.outputs], found.width
        return DeviceRows(self.memory, found.address, shape, np.int32 if found.ids else np.float32)

    def read(self, value: int) -> Any:
        """[rows, width] of the last run, copied from the device."""
        return self.rows(value).copy()

    def write(self, value: int, rows: Floats | Ints | DeviceRows) -> None:
        found = self._values[value]
        if rows.shape[1] != found.width:
            raise ValueError(f"write: value {value} has {found.width} columns, not {rows.shape[1]}")
        found.reserve(self.memory, len(rows))
        if isinstance(rows, DeviceRows):
            self.memory.move(found.address, rows.address, rows.nbytes)
        else:
            self.memory.set(found.address, rows)
