"""Binding: giving the handles of lowered programs the memory that they read and write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.memory.kv_pool import KVPool
from engine.memory.weight_store import WeightStore
from engine.models.graph import Experts, Graph, Op, StateLayer, op_weights
from engine.runtime.devices.memory import Bytes, Region
from engine.runtime.lowering import CpuProgram
from engine.runtime.placement import HITS, STREAMED, Placement, buffer_of
from engine.runtime.prefetch import Piece
from engine.runtime.residency import Residency


class Binder:
    """Binds programs of one model: weights from its file or from device memory, caches from where they are."""

    def __init__(self, graph: Graph, weights: WeightStore, kv: KVPool, residency: Residency) -> None:
        self._graph = graph
        self._weights = weights
        self._kv = kv
        self._residency = residency

    def bind_cpu(self, program: CpuProgram) -> None:
        """The CPU has all weights, which are the file's and cost nothing until they are read, and the caches in RAM."""
        known = {name: handle for name, handle in program.weights.items() if name in self._graph.weights}
        self._weights.bind(program.program, known)
        self._bind_caches(program, on_device=False)

    def bind_device(
        self, program: CpuProgram, graph: Graph, placement: Placement, tiles: Sequence[Sequence[Region]]
    ) -> None:
        """What the placement has on the device, with `tiles` as the buffers that experts are streamed into."""
        for op in graph.ops:
            if placement.is_on_device(op.item):
                for name, memory in self._memory_of(op, tiles).items():
                    program.program.bind_weight(program.weights[name], memory)
        self._bind_caches(program, on_device=True)

    def _bind_caches(self, program: CpuProgram, on_device: bool) -> None:
        """Those that this side's attention works with."""
        for index in range(len(program.kv_layers)):
            if self._kv.is_moved(index) is on_device:
                bind_layer(program, self._graph, self._kv, index)

    def _memory_of(self, op: Op, tiles: Sequence[Sequence[Region]]) -> Mapping[str, Bytes]:
        """The device's memory of the weights that an operation reads."""
        names = op_weights(op)
        if not names:
            return {}
        held: Mapping[str, Bytes]
        if isinstance(op, Experts) and op.item.endswith(STREAMED):
            buffer = buffer_of(op.gate)
            assert buffer is not None
            held = self._residency.passing.tile_memory(op.item.removesuffix(STREAMED), tiles, buffer)
        elif op.item.endswith(HITS):
            held = self._residency.bank_weights(op.item.removesuffix(HITS))
        else:
            held = self._residency.item_weights(op.item)
        return {name: held[name.partition("#")[0]] for name in names}


def bind_pieces(program: CpuProgram, graph: Graph, pieces: Iterable[Piece], buffers: Mapping[int, Region]) -> None:
    """What is prefetched, where it will be."""
    for piece in pieces:
        for name, offset in piece.offsets.items():
            memory = buffers[piece.buffer].view(offset, offset + graph.weights[name].nbytes)
            program.program.bind_weight(program.weights[name], memory)


def bind_layer(program: CpuProgram, graph: Graph, pool: KVPool, index: int) -> None:
    """Gives a layer of `program` what it remembers sequences in."""
    is_state = isinstance(graph.kv_layers[index], StateLayer)
    bind = program.program.bind_state if is_state else program.program.bind_kv
    bind(program.kv_layers[index], *pool.layer(index))
