"""Programs on a card: the CUDA kernels over memory of one region, so that everything they take counts as used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.runtime.devices.cuda.card import Card
from engine.runtime.devices.cuda.copies import HostBuffer, PinnedMemory
from engine.runtime.devices.cuda.memory import CudaRegion
from engine.runtime.devices.device import WorkspaceNeed
from kernels._cpu import Batch
from kernels.cuda.driver import DriverKernels
from kernels.cuda.memory import DriverMemory
from kernels.cuda.program import CudaProgram
from kernels.cuda.run import Run

Ints = npt.NDArray[np.int32]

_STEP = 1 << 20  # by which the region grows beyond what was reserved


class WorkspaceMemory(DriverMemory):
    """Allocations inside a region, which grows where it has to. Freed memory may be used at once by what is launched
    next: everything is on one stream."""

    def __init__(self, card: Card, pinned: PinnedMemory, region: CudaRegion) -> None:
        super().__init__(card.driver, card.streams.get("compute", 0))
        self._card, self._pinned = card, pinned
        self._region = region
        self._host: dict[int, HostBuffer] = {}  # by the address of what was given

    def allocate(self, size: int) -> int:
        space, region = self._region.space, self._region
        begin = space.allocate(size)
        if begin is None:
            raise MemoryError
        if begin + size > region.size:
            try:
                region.resize(min(region.capacity, -(-(begin + size) // _STEP) * _STEP))
            except BaseException:
                space.free(begin)
                raise
        return region.address + begin

    def free(self, address: int) -> None:
        self._region.space.free(address - self._region.address)

    def host_array(self, count: int) -> npt.NDArray[np.int64]:
        buffer = self._pinned.allocate(8 * count)
        array: npt.NDArray[np.int64] = buffer.bytes.view(np.int64)
        array[:] = 0
        self._host[array.ctypes.data] = buffer
        return array

    def free_host_array(self, array: npt.NDArray[np.int64]) -> None:
        self._pinned.free(self._host.pop(array.ctypes.data))

    def move(self, to: int, source: int, size: int) -> None:
        self._card.enter()
        super().move(to, source, size)


@dataclass
class CardProgram(CudaProgram):
    """Launches in any thread."""

    card: Card | None = None

    def launch(self, run: Run, begin: int, end: int) -> None:
        assert self.card is not None
        self.card.enter()
        super().launch(run, begin, end)


def new_program(card: Card, pinned: PinnedMemory, kernels: DriverKernels, workspace: CudaRegion) -> CardProgram:
    stream = card.streams.get("compute", 0)
    return CardProgram(kernels, WorkspaceMemory(card, pinned, workspace), stream, card=card)


def largest_batches(need: WorkspaceNeed) -> Sequence[Batch]:
    """The batches that take most memory: the largest part of prompts, and few tokens at the end of full contexts."""
    room = need.blocks * need.block_tokens
    numbers, few = np.arange(need.tokens, dtype=np.int32), np.arange(need.outputs, dtype=np.int32)
    return [
        _batch(room - 1 - numbers % room, numbers // room, need),
        _batch(np.full(need.outputs, room - 1, np.int32), few, need),
    ]


def _batch(positions: Ints, sequences: Ints, need: WorkspaceNeed) -> Batch:
    count = len(need.graph.windows)
    tables = np.tile(np.arange(need.blocks, dtype=np.int32), (count * (int(sequences.max()) + 1), 1))
    outputs = np.arange(min(need.outputs, len(positions)), dtype=np.int32)
    return Batch(np.zeros(len(positions), np.int32), positions, sequences, tables, outputs, None, count)
