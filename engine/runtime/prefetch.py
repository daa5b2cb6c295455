"""Prefetch: items that lie in RAM and come over the link for a step, to be computed on the device.

Where a copy hides behind what is computed before, an item of a dense model costs the device's time instead of the
CPU's. An item comes in pieces, each with one large product: while a piece is used, the next one is under way. So two
buffers hold about one item; with more of them copies run further ahead. An item that is lent its buffers lies there
from one step to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from engine.models.graph import Attention, DeltaRule, Experts, Graph, Op, RMSNorm, op_weights
from engine.placement.prefetch import BUFFERS

_LARGE_SHARE = 1 / 8  # of an item's bytes, for an operation to begin a piece of its own
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Piece:
    """graph.ops[begin:end] of an item; its weights' places in the buffer number `buffer`."""

    item: str
    begin: int
    end: int
    buffer: int
    offsets: Mapping[str, int]
    size: int


def prefetchable(graph: Graph) -> frozenset[str]:
    """Feed-forward blocks: what an attention remembers lies where it is computed, and of experts some are streamed."""
    stateful = {op.item for op in graph.ops if isinstance(op, Attention | DeltaRule)}
    with_experts = {layer_of(op) for op in graph.ops if isinstance(op, Experts)}
    found = {op.item for op in graph.ops if op_weights(op) and layer_of(op) and layer_of(op) not in with_experts}
    return frozenset(found - stateful)


def pieces_of(graph: Graph, items: Collection[str], depth: int, first: int = 0) -> tuple[Piece, ...]:
    """The pieces of `items` in the order in which they are needed. An item's take turns with its buffers, and items
    with those for `depth` of them, behind those for `first` others."""
    made: dict[str, int] = {}
    pieces = []
    for begin, end in _ranges(graph, items):
        offsets, size = _layout(graph, graph.ops[begin:end])
        if not offsets:
            continue
        item = graph.ops[begin].item
        place = made[item] = made.get(item, -1) + 1
        turn = first + (len(made) - 1) % depth
        pieces.append(Piece(item, begin, end, turn * BUFFERS + place % BUFFERS, offsets, size))
    return tuple(pieces)


def buffer_sizes(pieces: Iterable[Piece]) -> dict[int, int]:
    """Bytes of each buffer, by its number."""
    sizes: dict[int, int] = {}
    for piece in pieces:
        sizes[piece.buffer] = max(piece.size, sizes.get(piece.buffer, 0))
    return sizes


def layer_of(op: Op) -> str:
    """ "blk.3" of an operation of layer 3; nothing outside the layers."""
    prefix, _, _ = op.item.rpartition(".")
    return prefix if prefix.startswith("blk.") else ""


def _ranges(graph: Graph, items: Collection[str]) -> Iterator[tuple[int, int]]:
    """Runs of an item's operations, cut before each large product but the first; a norm goes with what follows it."""
    whole = dict.fromkeys(items, 0)
    for op in graph.ops:
        if op.item in whole:
            whole[op.item] += _bytes(graph, op)
    begin, has_large = 0, False
    for index, op in enumerate(graph.ops):
        starts = index == 0 or op.item != graph.ops[index - 1].item
        is_large = op.item in whole and _bytes(graph, op) >= _LARGE_SHARE * whole[op.item]
        if starts or (is_large and has_large):
            cut = index - 1 if not starts and isinstance(graph.ops[index - 1], RMSNorm) else index
            if cut > begin and graph.ops[begin].item in whole:
                yield begin, cut
            begin, has_large = cut, False
        has_large = has_large or is_large
    if graph.ops[begin].item in whole:
        yield begin, len(graph.ops)


def _layout(graph: Graph, ops: Sequence[Op]) -> tuple[dict[str, int], int]:
    offsets, end = {}, 0
    for op in ops:
        for name in op_weights(op):
            if name not in offsets:
                offsets[name], end = end, -(-(end + graph.weights[name].nbytes) // _ALIGNMENT) * _ALIGNMENT
    return offsets, end


def _bytes(graph: Graph, op: Op) -> int:
    return sum(graph.weights[name].nbytes for name in op_weights(op))
