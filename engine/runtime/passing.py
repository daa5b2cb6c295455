"""Passing weights: what lies in RAM and comes through device memory for a step: tiles of experts, prefetched pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from engine.memory.weight_store import WeightStore
from engine.models.graph import Experts, Graph
from engine.runtime.devices.device import Device
from engine.runtime.devices.memory import Bytes, Region
from engine.runtime.placement import BUFFERS
from engine.runtime.prefetch import Piece
from engine.runtime.traffic import Traffic


class PassingWeights:
    """Buffers for tiles, two of them, and for pieces: some are filled while another is used."""

    def __init__(self, graph: Graph, device: Device, weights: WeightStore, traffic: Traffic) -> None:
        self.tiles: list[list[Region]] = []  # by buffer: gate, up, down, biases
        self.buffers: dict[int, Region] = {}  # by number, for items that are prefetched
        self._memory = device.memory
        self._weights = weights
        self._traffic = traffic
        self._shapes = graph.weights
        self._experts = {op.item: op for op in graph.ops if isinstance(op, Experts)}

    @property
    def charged(self) -> int:
        """Device memory in use."""
        return sum(region.charged for buffer in (*self.tiles, self.buffers.values()) for region in buffer)

    def allocate_tiles(self, banks: Mapping[str, int]) -> list[list[Region]]:
        """Buffers for tiles of so many experts of each bank: those that are there, if they fit. DeviceMemoryError."""
        sizes = [0] * max((len(self._experts[bank].tensors) for bank in banks), default=0)
        for bank, experts in banks.items():
            for role, name in enumerate(self._experts[bank].tensors):
                shape = self._shapes[name]
                sizes[role] = max(sizes[role], shape.nbytes // shape.count * experts)
        if self.tiles and [region.size for region in self.tiles[0]] == sizes:
            return self.tiles
        new: list[list[Region]] = [[] for _ in range(BUFFERS)] if banks else []
        try:
            for buffer in new:
                for size in sizes:
                    buffer.append(self._memory.allocate(size, "Tiles of experts"))
        except BaseException:
            release_tiles(new)
            raise
        return new

    def set_tiles(self, tiles: list[list[Region]]) -> None:
        """`tiles` take the place of those that were there."""
        if tiles is not self.tiles:
            release_tiles(self.tiles)
            self.tiles = tiles

    def tile_memory(self, bank: str, tiles: Sequence[Sequence[Region]], buffer: int) -> dict[str, Bytes]:
        """By tensor: the buffer's bytes for it."""
        return {name: tiles[buffer][role].view() for role, name in enumerate(self._experts[bank].tensors)}

    def load_tile(self, bank: str, experts: Sequence[int], buffer: int) -> int:
        """Copies experts into a buffer, one after another; the bytes copied."""
        copied = 0
        for role, name in enumerate(self._experts[bank].tensors):
            size = self._shapes[name].nbytes // self._shapes[name].count
            source = self._source(name)
            for place, expert in enumerate(experts):
                self.tiles[buffer][role].write(place * size, source[expert * size : (expert + 1) * size])
            copied += size * len(experts)
        self._traffic.count(copied)
        return copied

    # --- what is prefetched -----------------------------------------------------------------------------------

    def allocate_buffers(self, sizes: Mapping[int, int]) -> dict[int, Region]:
        """Memory for what is prefetched: that which is there, if it fits. DeviceMemoryError."""
        if {number: region.size for number, region in self.buffers.items()} == sizes:
            return self.buffers
        new: dict[int, Region] = {}
        try:
            for number, size in sizes.items():
                new[number] = self._memory.allocate(size, "Prefetched weights")
        except BaseException:
            release_tiles([new.values()])
            raise
        return new

    def set_buffers(self, buffers: dict[int, Region]) -> None:
        """`buffers` take the place of those that were there."""
        if buffers is not self.buffers:
            release_tiles([self.buffers.values()])
            self.buffers = buffers

    def piece_parts(self, piece: Piece) -> list[tuple[Region, int, Bytes]]:
        """What a piece's copy takes: where to, in bytes of the buffer, and from where."""
        buffer = self.buffers[piece.buffer]
        return [(buffer, offset, self._source(name)) for name, offset in piece.offsets.items()]

    def load_piece(self, piece: Piece) -> int:
        """Copies an item's piece into its buffer; the bytes copied."""
        copied = 0
        for buffer, offset, source in self.piece_parts(piece):
            buffer.write(offset, source)
            copied += len(source)
        self._traffic.count(copied)
        return copied

    def _source(self, name: str) -> Bytes:
        return np.frombuffer(self._weights.buffer(name), np.uint8)

    def close(self) -> None:
        self.set_tiles([])
        self.set_buffers({})


def release_tiles(buffers: Iterable[Iterable[Region]]) -> None:
    for buffer in buffers:
        for region in buffer:
            region.release()
