"""What a memory is filled with, by purpose, in the order of the bars. Free of Qt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from engine.placement.plan import MemoryUse, PlacementPlan
from engine.telemetry.residency import RamUse
from engine.telemetry.snapshot import TelemetrySnapshot


class Purpose(Enum):
    WEIGHTS = "weights"
    EXPERTS = "experts"
    STATE = "KV cache"
    SCRATCH = "scratch"
    APP = "app and scratch"
    CACHE = "page cache of the model"
    FREE = "free in budget"
    OTHER = "other programs"


@dataclass(frozen=True, slots=True)
class Part:
    purpose: Purpose
    bytes: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One memory: its size, what the plan fills it with, and what is measured (empty where it cannot be)."""

    total: int
    planned: tuple[Part, ...] = ()
    now: tuple[Part, ...] = ()


def planned_parts(use: MemoryUse, *, budget: int = 0, taken: int = 0) -> tuple[Part, ...]:
    """`budget`: of which the rest is free; `taken`: what other programs hold."""
    parts = [
        Part(Purpose.WEIGHTS, use.weights),
        Part(Purpose.EXPERTS, use.experts),
        Part(Purpose.STATE, use.state),
        Part(Purpose.SCRATCH, use.overhead),
        Part(Purpose.FREE, max(0, budget - use.total)),
        Part(Purpose.OTHER, taken),
    ]
    return tuple(part for part in parts if part.bytes >= (16 << 20 if part.purpose is Purpose.FREE else 1))


def gpu_bar(plan: PlacementPlan, card: int, taken: int, now: tuple[Part, ...] = ()) -> Bar:
    return Bar(card, planned_parts(plan.gpu, budget=plan.gpu_budget, taken=taken), now)


def ram_bar(plan: PlacementPlan, ram: int, taken: int, now: tuple[Part, ...] = (), *, budget: int = 0) -> Bar:
    """`budget`: of RAM, where one was set."""
    return Bar(ram, planned_parts(plan.ram, budget=budget, taken=taken), now)


def held_parts(snapshot: TelemetrySnapshot, ram: RamUse | None = None) -> tuple[Part, ...]:
    """RAM that is ours: what stays, and page cache of the model's file, which the system may take back. `ram`: what the
    engine says of it."""
    state = min(ram.used_state, snapshot.held) if ram is not None else 0
    limit = (ram.limit or 0) if ram is not None else 0
    parts = (
        Part(Purpose.STATE, state),
        Part(Purpose.APP, snapshot.held - state),
        Part(Purpose.CACHE, snapshot.mapped),
        Part(Purpose.FREE, max(0, limit - snapshot.held - snapshot.mapped)),
        Part(Purpose.OTHER, snapshot.others),
    )
    return tuple(part for part in parts if part.bytes)
