"""KVPool: the keys and values of all sequences, in blocks of a few tokens each, handed out and counted here.

A block number means the same in every layer: block b of a layer holds keys and values of `block_tokens` consecutive
positions, [kv_heads, block_tokens, dim]. Blocks carry a reference count, so that sequences with the same beginning
share them; who wants to write to a shared block copies it first.

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
from engine.models.graph import KVLayer

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
    """`blocks` blocks for each of `layers`, stored as `quant_type`. OutOfMemoryError if they cannot be mapped."""

    def __init__(
        self,
        layers: Sequence[KVLayer],
        blocks: int,
        quant_type: QuantType = QuantType.F16,
        block_tokens: int = BLOCK_TOKENS,
    ) -> None:
        self.blocks = blocks
        self.block_tokens = block_tokens
        self.quant_type = quant_type
        self._sizes = [_cell_bytes(layer, quant_type, block_tokens) for layer in layers]  # of each layer's arrays
        self.bytes_per_block = sum(map(sum, self._sizes))
        self._layers: list[Sequence[Cells | CellMemory]] = [_map_arrays(sizes, blocks) for sizes in self._sizes]
        self._references = [0] * blocks
        self._free = list(range(blocks))  # a heap: the lowest number first

    @staticmethod
    def bytes_per_token(layers: Sequence[KVLayer], quant_type: QuantType = QuantType.F16) -> int:
        return sum(sum(_cell_bytes(layer, quant_type, 1)) for layer in layers)

    @property
    def free_blocks(self) -> int:
        return len(self._free)

    def is_moved(self, index: int) -> bool:
        """Whether a layer's memory is elsewhere."""
        return not isinstance(self._layers[index][0], np.ndarray)

    def layer(self, index: int) -> tuple[Any, ...]:
        """Keys and values of one layer, each [blocks, bytes of a block], for the program that computes with them; of a
        latent layer its keys alone."""
        return tuple(array if isinstance(array, np.ndarray) else array.view() for array in self._layers[index])

    def layer_bytes(self, index: int) -> tuple[int, ...]:
        """Of each of a layer's arrays."""
        return tuple(self.blocks * size for size in self._sizes[index])

    def move_layer(self, index: int, *memory: CellMemory) -> None:
        """From now on the layer lives in `memory`, of the same sizes; what is in use is copied there."""
        for to, cells in zip(memory, self._read_used(index), strict=True):
            to.write(0, cells)
        self._layers[index] = memory

    def move_layer_home(self, index: int) -> None:
        """Back into RAM. OutOfMemoryError, with nothing changed, if there is no room."""
        arrays = _map_arrays(self._sizes[index], self.blocks)
        for array, cells in zip(arrays, self._read_used(index), strict=True):
            array.reshape(-1)[: len(cells)] = cells
        self._layers[index] = arrays

    def _read_used(self, index: int) -> Iterator[Cells]:
        """The bytes of all blocks in use, of each of a layer's arrays."""
        for memory, size in zip(self._layers[index], self._sizes[index], strict=True):
            used = self._used_blocks * size
            if isinstance(memory, np.ndarray):
                yield memory.reshape(-1)[:used]
            else:
                cells = np.empty(used, np.uint8)
                memory.read(0, cells)
                yield cells

    @property
    def _used_blocks(self) -> int:
        """All blocks in use lie below this number."""
        return max((block + 1 for block, count in enumerate(self._references) if count), default=0)

    def blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.block_tokens)

    def allocate(self) -> int:
        """A free block with one reference. IndexError when none is left: ask `free_blocks` first."""
        block = heapq.heappop(self._free)
        self._references[block] = 1
        return block

    def retain(self, block: int) -> None:
        assert self._references[block] > 0, block
        self._references[block] += 1

    def release(self, block: int) -> None:
        assert self._references[block] > 0, block
        self._references[block] -= 1
        if self._references[block] == 0:
            heapq.heappush(self._free, block)

    def is_shared(self, block: int) -> bool:
        return self._references[block] > 1

    def copy(self, source: int, target: int) -> None:
        """Copies a block's keys and values in every layer."""
        for arrays, sizes in zip(self._layers, self._sizes, strict=True):
            for array, size in zip(arrays, sizes, strict=True):
                if isinstance(array, np.ndarray):
                    array[target] = array[source]
                else:
                    array.copy(source * size, target * size, size)

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> None:
        """AssertionError unless `tables`, all that are alive, account for every block that is not free."""
        counted = Counter(block for table in tables for block in table)
        assert all(self._references[block] == counted[block] for block in range(self.blocks)), "references differ"
        assert len(self._free) == len(set(self._free)), "a block is free twice"
        assert all(self._references[block] == 0 for block in self._free), "a free block is in use"
        assert len(self._free) + len(counted) == self.blocks, "free + used differs from all"


def _cell_bytes(layer: KVLayer, quant_type: QuantType, tokens: int) -> tuple[int, ...]:
    """Bytes of `tokens` positions in each of the layer's arrays."""
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


def _map_anonymous(size: int) -> mmap.mmap:
    """Private where the system tells private and shared memory apart, so that it is counted as this process's own."""
    if hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)
