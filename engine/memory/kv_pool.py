"""KVPool: the keys and values of all sequences, in blocks of a few tokens each, handed out and counted here.

A block number means the same in every layer of a table: block b of a layer holds keys and values of `block_tokens`
consecutive positions, [kv_heads, block_tokens, dim]. Blocks carry a reference count, so that sequences with the
same beginning share them; who wants to write to a shared block copies it first.

Layers that see a window have blocks of their own, as many as the windows of a few sequences take (`positions_kept`),
numbered and counted apart for each size of a window: `table` 0 is for layers that see everything.

Recurrent layers keep a state of fixed size instead, in slots that are handed out and counted alike. A slot is written
once, from another: a step leaves what it began with, and whoever shares it keeps it.

Each layer's memory is an anonymous mapping of its own, which the system commits page by page as tokens arrive. Low
block numbers are handed out first, so that what is used stays together. A layer's memory can be elsewhere, such as on
the device that computes its attention.
"""

from __future__ import annotations

import heapq
import mmap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from engine.errors import OutOfMemoryError
from engine.gguf import QuantType
from engine.memory.available import format_bytes
from engine.models.graph import STATE_SLOTS, KVLayer, StateLayer, positions_kept, windows_of

BLOCK_TOKENS = 32

Cells = npt.NDArray[np.uint8]


class CellMemory(Protocol):
    """Memory elsewhere that holds one layer's keys or values; see engine/runtime/devices/memory.py."""

    def view(self) -> Any:
        """All of it, for the programs that can use it."""

    def write(self, begin: int, source: Cells) -> None: ...

    def read(self, begin: int, target: Cells) -> None: ...

    def copy(self, source: int, target: int, size: int) -> None: ...


class KVPool:
    """`blocks` blocks for each of `layers` that sees everything, stored as `quant_type`; where there are windows, as
    many as they need. OutOfMemoryError if they cannot be mapped."""

    def __init__(
        self,
        layers: Sequence[KVLayer | StateLayer],
        blocks: int,
        quant_type: QuantType = QuantType.F16,
        block_tokens: int = BLOCK_TOKENS,
        slots: int = STATE_SLOTS,
    ) -> None:
        self.blocks = blocks
        self.block_tokens = block_tokens
        self.quant_type = quant_type
        self._kinds = tuple(layers)
        self._sizes = [_cell_bytes(layer, quant_type, block_tokens) for layer in layers]  # of each layer's arrays
        self.windows = windows_of(layers)  # by table
        self.block_bytes = tuple(
            sum(sum(sizes) for sizes, layer in self._sized() if isinstance(layer, KVLayer) and layer.window == window)
            for window in self.windows
        )  # by table: of a block in all its layers
        self.bytes_per_slot = sum(sum(sizes) for sizes, layer in self._sized() if isinstance(layer, StateLayer))
        counts = {w: -(-positions_kept(w, blocks * block_tokens) // block_tokens) for w in self.windows}
        self._layers: list[Sequence[Cells | CellMemory]] = [
            _map_arrays(sizes, slots if isinstance(layer, StateLayer) else counts[layer.window])
            for sizes, layer in self._sized()
        ]
        self._tables = [_Counted(count) for count in counts.values()]
        self.slots = _Counted(slots if self.bytes_per_slot else 0)

    def _sized(self) -> Iterable[tuple[tuple[int, ...], KVLayer | StateLayer]]:
        return zip(self._sizes, self._kinds, strict=True)

    def _counted(self, layer: KVLayer | StateLayer) -> _Counted:
        """What a layer's memory consists of: blocks of a table, or slots."""
        return self.slots if isinstance(layer, StateLayer) else self._tables[self.windows.index(layer.window)]

    @staticmethod
    def bytes_per_token(layers: Sequence[KVLayer | StateLayer], quant_type: QuantType = QuantType.F16) -> int:
        """By which memory grows with the context: of layers that see everything."""
        full = (layer for layer in layers if isinstance(layer, KVLayer) and not layer.window)
        return sum(sum(_cell_bytes(layer, quant_type, 1)) for layer in full)

    @staticmethod
    def fixed_bytes(layers: Sequence[KVLayer | StateLayer], context: int, quant_type: QuantType = QuantType.F16) -> int:
        """Of windows and of all slots: the same for every context that is longer than the windows."""
        slots = sum(4 * (layer.tail_values + layer.state_values) for layer in layers if isinstance(layer, StateLayer))
        windows = (layer for layer in layers if isinstance(layer, KVLayer) and layer.window)
        return STATE_SLOTS * slots + sum(
            positions_kept(layer.window, context) * sum(_cell_bytes(layer, quant_type, 1)) for layer in windows
        )

    @property
    def is_recurrent(self) -> bool:
        """Whether a sequence's state has parts that cannot be cut back to an earlier position."""
        return self.slots.count > 0

    @property
    def forgets(self) -> bool:
        """Whether a sequence's state cannot be cut back to every earlier position."""
        return self.is_recurrent or len(self.windows) > 1

    @property
    def free_blocks(self) -> tuple[int, ...]:
        """By table."""
        return tuple(table.free for table in self._tables)

    @property
    def held_bytes(self) -> int:
        """Memory of the blocks and slots in use."""
        used_slots = self.slots.count - self.slots.free
        used = (table.count - table.free for table in self._tables)
        blocks = sum(count * size for count, size in zip(used, self.block_bytes, strict=True))
        return blocks + used_slots * self.bytes_per_slot

    @property
    def host_bytes(self) -> int:
        """RAM that all blocks and slots would take, those of layers that live elsewhere aside."""
        return sum(sum(self.layer_bytes(index)) for index in range(len(self._kinds)) if not self.is_moved(index))

    @property
    def used_host_bytes(self) -> int:
        """RAM of the blocks and slots in use."""
        return sum(
            (counted.count - counted.free) * sum(self._sizes[index])
            for index, counted in enumerate(map(self._counted, self._kinds))
            if not self.is_moved(index)
        )

    def trim(self) -> None:
        """Gives the RAM of free blocks and slots back to the system, as far as whole pages go."""
        for index, layer in enumerate(self._kinds):
            if self.is_moved(index):
                continue
            free = self._counted(layer).free_ranges()
            for array, size in zip(self._layers[index], self._sizes[index], strict=True):
                assert isinstance(array, np.ndarray)
                for first, last in free:
                    _release(array, first * size, last * size)

    def is_moved(self, index: int) -> bool:
        """Whether a layer's memory is elsewhere."""
        return not isinstance(self._layers[index][0], np.ndarray)

    def layer(self, index: int) -> tuple[Any, ...]:
        """Keys and values of one layer, each [blocks, bytes of a block], for the program that computes with them.

        Of a latent layer its keys alone; of a recurrent layer its convolution's tails and its states, [slots, bytes].
        """
        return tuple(array if isinstance(array, np.ndarray) else array.view() for array in self._layers[index])

    def layer_bytes(self, index: int) -> tuple[int, ...]:
        """Of each of a layer's arrays."""
        return tuple(self._counted(self._kinds[index]).count * size for size in self._sizes[index])

    def move_layer(self, index: int, *memory: CellMemory) -> int:
        """From now on the layer lives in `memory`, of the same sizes; what is in use is copied there: so many bytes."""
        copied = 0
        for to, cells in zip(memory, self._read_used(index), strict=True):
            to.write(0, cells)
            copied += len(cells)
        self._layers[index] = memory
        return copied

    def move_layer_home(self, index: int) -> int:
        """Back into RAM; the bytes copied. OutOfMemoryError, with nothing changed, if there is no room."""
        arrays = _map_arrays(self._sizes[index], self._counted(self._kinds[index]).count)
        used = self._used_bytes(index)
        for array, memory, size in zip(arrays, self._layers[index], used, strict=True):
            cells = array.reshape(-1)[:size]
            if isinstance(memory, np.ndarray):
                cells[:] = memory.reshape(-1)[:size]
            else:
                memory.read(0, cells)  # where they stay: they are nowhere else meanwhile
        self._layers[index] = arrays
        return sum(used)

    def _read_used(self, index: int) -> Iterator[Cells]:
        """The bytes of all blocks or slots in use, of each of a layer's arrays."""
        for memory, used in zip(self._layers[index], self._used_bytes(index), strict=True):
            if isinstance(memory, np.ndarray):
                yield memory.reshape(-1)[:used]
            else:
                cells = np.empty(used, np.uint8)
                memory.read(0, cells)
                yield cells

    def _used_bytes(self, index: int) -> list[int]:
        """Of all blocks or slots in use, in each of a layer's arrays."""
        used = self._counted(self._kinds[index]).used
        return [used * size for size in self._sizes[index]]

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def allocate(self, table: int = 0) -> int:
        """A free block with one reference. IndexError when none is left: ask `free_blocks` first."""
        return self._tables[table].allocate()

    def retain(self, block: int, table: int = 0) -> None:
        self._tables[table].retain(block)

    def release(self, block: int, table: int = 0) -> None:
        self._tables[table].release(block)

    def is_shared(self, block: int, table: int = 0) -> bool:
        return self._tables[table].references[block] > 1

    def copy(self, source: int, target: int, table: int = 0) -> None:
        """Copies a block's keys and values in every layer of its table."""
        for arrays, (sizes, layer) in zip(self._layers, self._sized(), strict=True):
            if self._counted(layer) is not self._tables[table]:
                continue
            for array, size in zip(arrays, sizes, strict=True):
                if isinstance(array, np.ndarray):
                    array[target] = array[source]
                else:
                    array.copy(source * size, target * size, size)

    def check_integrity(self, held: Iterable[Sequence[Sequence[int]]], slots: Iterable[int] = ()) -> None:
        """AssertionError unless `held`, each state's blocks by table, and `slots` account for what is not free."""
        states = list(held)
        for number, table in enumerate(self._tables):
            table.check_integrity(block for state in states for block in state[number])
        self.slots.check_integrity(slots)


class _Counted:
    """Numbers from 0 on, handed out lowest first, with reference counts: blocks, or slots."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.references = [0] * count
        self._free = list(range(count))  # a heap: the lowest number first

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def used(self) -> int:
        """All that are in use lie below this number."""
        return max((index + 1 for index, count in enumerate(self.references) if count), default=0)

    def allocate(self) -> int:
        index = heapq.heappop(self._free)
        self.references[index] = 1
        return index

    def retain(self, index: int) -> None:
        assert self.references[index] > 0, index
        self.references[index] += 1

    def release(self, index: int) -> None:
        assert self.references[index] > 0, index
        self.references[index] -= 1
        if self.references[index] == 0:
            heapq.heappush(self._free, index)

    def free_ranges(self) -> list[tuple[int, int]]:
        """First number, and the one behind the last, of each stretch of free ones."""
        is_free = np.diff(np.array([1, *(count != 0 for count in self.references), 1], np.int8))
        begins, ends = np.flatnonzero(is_free < 0), np.flatnonzero(is_free > 0)
        return list(zip(begins.tolist(), ends.tolist(), strict=True))

    def check_integrity(self, alive: Iterable[int]) -> None:
        counted = Counter(alive)
        assert all(self.references[index] == counted[index] for index in range(self.count)), "references differ"
        assert len(self._free) == len(set(self._free)), "one is free twice"
        assert all(self.references[index] == 0 for index in self._free), "a free one is in use"
        assert len(self._free) + len(counted) == self.count, "free + used differs from all"


def _cell_bytes(layer: KVLayer | StateLayer, quant_type: QuantType, tokens: int) -> tuple[int, ...]:
    """Bytes of `tokens` positions in each of the layer's arrays; of a recurrent layer, of a slot."""
    if isinstance(layer, StateLayer):
        return 4 * layer.tail_values, 4 * layer.state_values
    return tuple(layer.kv_heads * tokens * quant_type.row_bytes(row) for row in layer.rows)


def _map_arrays(sizes: Sequence[int], blocks: int) -> tuple[Cells, ...]:
    """One mapping per array. Its memory goes back to the system with the last reference to it."""
    try:
        return tuple(
            np.frombuffer(_map_anonymous(max(1, size * blocks)), np.uint8)[: size * blocks].reshape(blocks, size)
            for size in sizes
        )
    except (OSError, OverflowError, ValueError) as error:
        raise OutOfMemoryError(
            f"{format_bytes(sum(sizes) * blocks)} for the conversation's context could not be reserved.",
            done="Nothing was changed.",
            remedy="Choose a shorter context, or close other programs.",
        ) from error


def _release(array: Cells, begin: int, end: int) -> None:
    """The array's whole pages between two bytes; they read as zeros afterwards. Windows has no such call."""
    mapping = array.base
    while isinstance(mapping, np.ndarray):
        mapping = mapping.base
    mapping = mapping.obj if isinstance(mapping, memoryview) else mapping
    first = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
    size = end // mmap.PAGESIZE * mmap.PAGESIZE - first
    if isinstance(mapping, mmap.mmap) and size > 0 and hasattr(mapping, "madvise"):
        mapping.madvise(mmap.MADV_DONTNEED, first, size)


def _map_anonymous(size: int) -> mmap.mmap:
    """Private where the system tells private and shared memory apart, so that it is counted as this process's own."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)
