"""Placement: where a graph's parts run; and the graph it makes of a model: experts in two halves that are joined.

Of a layer whose experts are partly on the device, the operation over all experts becomes

    misses = experts(x, ids, mix)          on the CPU, those without a slot
    ids    = slots of ids                  on the device; experts without a slot count as absent
    hits   = experts(x, ids, mix)          on the device, over the slots
    out    = hits + misses

so that both halves run at the same time, and what else does not need their sum, such as a shared expert, runs beside
them; where all experts are on the device, nothing is missed and nothing is joined.
Everything else is left as it is. For prompts, where many tokens share an expert, some experts without a slot come over
the link in tiles and are computed on the device, beside the CPU's half:

    ids    = places of ids in the tile     for each tile
    streamed = experts(x, ids, mix)        over the tile
    hits   = hits + streamed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from engine.models.graph import Add, Experts, Graph, Op
from engine.models.spec import TensorShape
from engine.placement.items import Device as Side
from engine.placement.plan import PlacementPlan

HITS, MISSES, STREAMED = ".hits", ".misses", ".streamed"
BUFFERS = 2  # tiles in device memory: one is filled while the other is used
_SLOTS, _TILE = "#slots", "#tile"
_TILE_BYTES = 32 << 20  # at most; and at most a quarter of a bank


@dataclass(frozen=True, slots=True)
class Placement:
    """`on_device` names items ("blk.3.attn"); `slots` gives, per bank ("blk.3.experts"), its slots on the device, and
    `streamed` how many of the experts without a slot come over the link for each part of a prompt. Items in RAM that
    are `prefetched` come over the link, too, for each part of a prompt, or for each step of few tokens, through buffers
    for `prefetch_depth` of them. Those that are `lent` a buffer lie in it during steps of few tokens, and are copied
    back where it was used otherwise."""

    on_device: frozenset[str] = frozenset()
    slots: Mapping[str, int] = field(default_factory=dict)
    streamed: Mapping[str, int] = field(default_factory=dict)
    prefetched_for_prompts: frozenset[str] = frozenset()
    prefetched_for_few: frozenset[str] = frozenset()
    prefetch_depth: int = 1
    lent: frozenset[str] = frozenset()

    @classmethod
    def of(cls, plan: PlacementPlan, streamed: Mapping[str, int] | None = None) -> Placement:
        return cls(
            frozenset(placed.item.key for placed in plan.items if placed.device is Side.GPU),
            {experts.bank.key: experts.slots for experts in plan.experts if experts.slots},
            streamed or {},
            prefetch_depth=plan.prefetch_depth,
        )

    @property
    def uses_device(self) -> bool:
        return bool(self.on_device or any(self.slots.values()) or self.prefetched or self.lent)

    @property
    def prefetched(self) -> frozenset[str]:
        return self.prefetched_for_prompts | self.prefetched_for_few

    def with_items(self, items: frozenset[str]) -> Placement:
        """As it is for a step that has these on the device as well."""
        return replace(self, on_device=self.on_device | items)

    def is_on_device(self, item: str) -> bool:
        """Of an operation's item, the halves of a bank included."""
        if item.endswith((HITS, STREAMED)):
            return True
        return item in self.on_device or bool(self.slots.get(item))

    def common(self, other: Placement) -> Placement:
        """What is on the device in both."""
        shared = {bank: min(count, other.slots.get(bank, 0)) for bank, count in self.slots.items()}
        if self == other:
            return self
        return Placement(self.on_device & other.on_device, {b: n for b, n in shared.items() if n})


@dataclass(frozen=True, slots=True)
class SlotLookup(Op):
    """Replaces expert numbers by the numbers of their slots, or -1 where they have none. Works in place."""

    READS: ClassVar[tuple[str, ...]] = ("ids",)
    WRITES: ClassVar[tuple[str, ...]] = ("ids",)

    ids: str
    bank: str


@dataclass(frozen=True, slots=True)
class TileLookup(Op):
    """Replaces expert numbers by their places in the bank's tile number `tile`, which lies in `buffer`, or by -1.
    Works in place."""

    READS: ClassVar[tuple[str, ...]] = ("ids",)
    WRITES: ClassVar[tuple[str, ...]] = ("ids",)

    ids: str
    bank: str
    tile: int
    buffer: int


def tile_experts(graph: Graph, op: Experts) -> int:
    """How many of a bank's experts a tile holds."""
    bank = sum(graph.weights[name].nbytes for name in op.tensors)
    count = graph.weights[op.gate].count
    return max(1, min(_TILE_BYTES, bank // 4) * count // bank)


def tile_name(tensor: str, buffer: int) -> str:
    """The weight over a tile in a buffer."""
    return f"{tensor}{_TILE}{buffer}"


def buffer_of(weight: str) -> int | None:
    """Which buffer a weight lies in; None for others."""
    return int(weight[-1]) if _TILE in weight else None


def without_streaming(graph: Graph) -> Graph:
    """The graph for steps of few tokens: nothing comes over the link for them."""
    return replace(graph, ops=tuple(op for op in graph.ops if not op.item.endswith(STREAMED)))


def slots_name(tensor: str) -> str:
    """The weight over a bank's slots that stands beside the stacked tensor of all experts."""
    return tensor + _SLOTS


def split_experts(graph: Graph, placement: Placement) -> Graph:
    """`graph` with each partly resident bank in two halves; see above. Operations keep their order."""
    ops: list[Op] = []
    joins: dict[str, list[Op]] = {}  # by what they write; put off until it is read
    values, weights = dict(graph.values), dict(graph.weights)
    turn = 0  # buffers take turns, through all banks
    for op in graph.ops:
        for value in op.reads:
            ops += joins.pop(value, [])
        slots = placement.slots.get(op.item, 0) if isinstance(op, Experts) else 0
        if not isinstance(op, Experts) or not slots:
            ops.append(op)
            continue
        size = tile_experts(graph, op)
        tiles = -(-placement.streamed.get(op.item, 0) // size)
        buffers = [(turn + tile) % BUFFERS for tile in range(tiles)]
        turn += tiles
        halves, joins[op.out] = _halves(op, slots, graph.weights[op.gate].count, buffers)
        ops += halves
        values |= dict.fromkeys((op.out + HITS, op.out + MISSES, op.out + STREAMED), graph.values[op.out])
        for name in op.tensors:
            weights[slots_name(name)] = _some_of(graph.weights[name], slots_name(name), slots)
            for buffer in set(buffers):
                weights[tile_name(name, buffer)] = _some_of(graph.weights[name], tile_name(name, buffer), size)
    return replace(graph, ops=tuple(ops), values=values, weights=weights)


def _halves(op: Experts, slots: int, count: int, buffers: list[int]) -> tuple[list[Op], list[Op]]:
    """The halves; and where there are two, what comes over the link and what joins them."""
    resident = replace(op.renamed(slots_name), item=op.item + HITS, out=op.out if slots == count else op.out + HITS)
    lookup = SlotLookup(resident.item, op.ids, op.item)
    if slots == count:
        return [lookup, resident], []
    rest = replace(op, item=op.item + MISSES, out=op.out + MISSES)
    join = Add(resident.item, resident.out, rest.out, op.out)
    streamed = [part for tile, buffer in enumerate(buffers) for part in _tile(op, tile, buffer)]
    return [rest, lookup, resident], [*streamed, join]


def _tile(op: Experts, tile: int, buffer: int) -> tuple[Op, ...]:
    over_tile = op.renamed(lambda name: tile_name(name, buffer))
    part = replace(over_tile, item=op.item + STREAMED, out=op.out + STREAMED)
    lookup = TileLookup(part.item, op.ids, op.item, tile, buffer)
    return lookup, part, Add(part.item, op.out + HITS, part.out, op.out + HITS)


def _some_of(tensor: TensorShape, name: str, count: int) -> TensorShape:
    """A stack of `count` of a tensor's matrices."""
    return replace(tensor, name=name, count=count, nbytes=tensor.nbytes // tensor.count * count)
