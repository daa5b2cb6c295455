"""Segments of a placed graph: as few runs of operations per device as the placement allows, and what goes between."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.models.graph import Graph
from engine.runtime.placement import MISSES, Placement, SlotLookup, TileLookup


@dataclass(frozen=True, slots=True)
class Segment:
    """graph.ops[begin:end], on the device or on the CPU."""

    on_device: bool
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Crossing:
    """Values that segment `producer` leaves for segment `consumer` on the other side. `consumer` None: the caller."""

    values: tuple[str, ...]
    producer: int
    consumer: int | None


@dataclass(frozen=True, slots=True)
class Segments:
    segments: tuple[Segment, ...]
    crossings: tuple[Crossing, ...]


def place(graph: Graph, placement: Placement, cuts: Collection[int] = ()) -> Segments:
    """A segment ends where the side changes, before an operation that has to wait for the other side, before either
    half of a bank, so that they begin together, and before the operations `cuts`."""
    segments: list[Segment] = []
    crossings: list[Crossing] = []
    writer: dict[str, int] = {}  # value → segment that wrote it last
    valid: dict[str, set[bool]] = {}  # value → sides on which it is up to date
    for index, op in enumerate(graph.ops):
        side = placement.is_on_device(op.item)
        missing = tuple(dict.fromkeys(value for value in op.reads if value in writer and side not in valid[value]))
        waits_for = max((c.producer for c in crossings if c.consumer == len(segments) - 1), default=-1)
        begins = isinstance(op, SlotLookup | TileLookup) or op.item.endswith(MISSES) or index in cuts
        can_go_on = not begins and all(writer[value] <= waits_for for value in missing)
        if segments and segments[-1].on_device == side and can_go_on:
            segments[-1] = Segment(side, segments[-1].begin, index + 1)
        else:
            segments.append(Segment(side, index, index + 1))
        here = len(segments) - 1
        for producer in dict.fromkeys(writer[value] for value in missing):
            values = tuple(value for value in missing if writer[value] == producer)
            crossings.append(Crossing(values, producer, here))
        for value in missing:
            valid[value].add(side)
        for value in op.writes:
            writer[value], valid[value] = here, {side}
    if segments[-1].on_device:
        crossings.append(Crossing((graph.logits,), len(segments) - 1, None))
    return Segments(tuple(segments), _merged(crossings))


def _merged(crossings: list[Crossing]) -> tuple[Crossing, ...]:
    """What goes between the same two segments goes in one copy."""
    values: dict[tuple[int, int | None], tuple[str, ...]] = {}
    for crossing in crossings:
        key = crossing.producer, crossing.consumer
        values[key] = (*values.get(key, ()), *crossing.values)
    return tuple(Crossing(names, producer, consumer) for (producer, consumer), names in values.items())
