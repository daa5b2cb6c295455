"""Placement: where a graph's parts run; and the graph it makes of a model: experts in two halves that are joined.

Of a layer whose experts are partly on the device, the operation over all experts becomes

    misses = experts(x, ids, mix)          on the CPU, those without a slot
    ids    = slots of ids                  on the device; experts without a slot count as absent
    hits   = experts(x, ids, mix)          on the device, over the slots
    out    = hits + misses

so that both halves run at the same time; where all experts are on the device, nothing is missed and nothing is joined.
Everything else is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar

from engine.models.graph import Add, Experts, Graph, Op
from engine.models.spec import TensorShape
from engine.placement.items import Device as Side
from engine.placement.plan import PlacementPlan

HITS, MISSES = ".hits", ".misses"
_SLOTS = "#slots"


@dataclass(frozen=True, slots=True)
class Placement:
    """`on_device` names items ("blk.3.attn"); `slots` gives, per bank ("blk.3.experts"), its slots on the device."""

    on_device: frozenset[str] = frozenset()
    slots: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def of(cls, plan: PlacementPlan) -> Placement:
        return cls(
            frozenset(placed.item.key for placed in plan.items if placed.device is Side.GPU),
            MappingProxyType({experts.bank.key: experts.slots for experts in plan.experts if experts.slots}),
        )

    @property
    def uses_device(self) -> bool:
        return bool(self.on_device or any(self.slots.values()))

    def is_on_device(self, item: str) -> bool:
        """Of an operation's item, the halves of a bank included."""
        if item.endswith(HITS):
            return True
        return item in self.on_device or bool(self.slots.get(item))

    def common(self, other: Placement) -> Placement:
        """What is on the device in both."""
        shared = {bank: min(count, other.slots.get(bank, 0)) for bank, count in self.slots.items()}
        return Placement(self.on_device & other.on_device, MappingProxyType({b: n for b, n in shared.items() if n}))


@dataclass(frozen=True, slots=True)
class SlotLookup(Op):
    """Replaces expert numbers by the numbers of their slots, or -1 where they have none. Works in place."""

    READS: ClassVar[tuple[str, ...]] = ("ids",)
    WRITES: ClassVar[tuple[str, ...]] = ("ids",)

    ids: str
    bank: str


def slots_name(tensor: str) -> str:
    """The weight over a bank's slots that stands beside the stacked tensor of all experts."""
    return tensor + _SLOTS


def split_experts(graph: Graph, placement: Placement) -> Graph:
    """`graph` with each partly resident bank in two halves; see above. Operations keep their order."""
    ops: list[Op] = []
    values, weights = dict(graph.values), dict(graph.weights)
    for op in graph.ops:
        slots = placement.slots.get(op.item, 0) if isinstance(op, Experts) else 0
        if not isinstance(op, Experts) or not slots:
            ops.append(op)
            continue
        ops += _halves(op, slots, graph.weights[op.gate].count)
        values |= dict.fromkeys((op.out + HITS, op.out + MISSES), graph.values[op.out])
        for name in (op.gate, op.up, op.down):
            weights[slots_name(name)] = _of_slots(graph.weights[name], slots)
    return replace(graph, ops=tuple(ops), values=values, weights=weights)


def _halves(op: Experts, slots: int, count: int) -> tuple[Op, ...]:
    resident = replace(
        op,
        item=op.item + HITS,
        gate=slots_name(op.gate),
        up=slots_name(op.up),
        down=slots_name(op.down),
        out=op.out if slots == count else op.out + HITS,
    )
    lookup = SlotLookup(resident.item, op.ids, op.item)
    if slots == count:
        return lookup, resident
    rest = replace(op, item=op.item + MISSES, out=op.out + MISSES)
    join = Add(resident.item, resident.out, rest.out, op.out)
    return rest, lookup, resident, join


def _of_slots(tensor: TensorShape, slots: int) -> TensorShape:
    name, each = slots_name(tensor.name), tensor.nbytes // tensor.count
    return replace(tensor, name=name, count=slots, nbytes=each * slots)
