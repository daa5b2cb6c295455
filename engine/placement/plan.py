"""PlacementPlan: which device holds what, what that costs, and why."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from engine.errors import OutOfMemoryError
from engine.placement.items import Device, ExpertBank, PlacementItem


class Mode(enum.Enum):
    DECODE = "decode"  # the most decode tokens/s
    PREFILL = "prefill"  # the most prefill tokens/s
    LEAST_MEMORY = "least-memory"  # the least GPU memory that keeps most of the decode speed


@dataclass(frozen=True, slots=True)
class Speeds:
    """Tokens per second, with the depth decode was predicted at, and the share of expert uses found on the GPU."""

    prefill: float
    decode: float
    depth: int
    hit_rate: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Bytes by purpose on one device. `total` is what counts against the budget."""

    weights: int = 0
    experts: int = 0
    state: int = 0
    overhead: int = 0

    @property
    def total(self) -> int:
        return self.weights + self.experts + self.state + self.overhead


@dataclass(frozen=True, slots=True)
class Placed:
    item: PlacementItem
    device: Device
    state_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class PlacedExperts:
    """`slots` of the bank's experts live on the GPU: `resident` names them where heat is known, and recent use
    decides at run time otherwise."""

    bank: ExpertBank
    slots: int
    resident: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """Covers every byte of the model. Two plans are equal when they place alike."""

    items: tuple[Placed, ...]
    experts: tuple[PlacedExperts, ...]
    gpu: MemoryUse
    ram: MemoryUse
    gpu_budget: int
    predicted: Speeds
    prefetch_depth: int = 0  # items in RAM for which `gpu` has buffers, so that they come over the link for a step
    lent: frozenset[str] = frozenset()  # keys of those that lie in these while an answer is written, and prompts do not
    notes: tuple[str, ...] = ()

    @property
    def uses_gpu(self) -> bool:
        return self.gpu.total > 0

    def device_of(self, item: PlacementItem) -> Device:
        return self.devices[item.name]

    @property
    def devices(self) -> Mapping[str, Device]:
        return {placed.item.name: placed.device for placed in self.items}

    @property
    def slots(self) -> tuple[int, ...]:
        return tuple(experts.slots for experts in self.experts)

    @property
    def weight_bytes(self) -> int:
        """All weights placed, over both devices: equals the model's."""
        return self.gpu.weights + self.gpu.experts + self.ram.weights + self.ram.experts


class ModelDoesNotFitError(OutOfMemoryError):
    """The model needs more RAM than there is. `shortfall` is in bytes; the remedy names what would fit."""

    def __init__(self, cause: str, *, shortfall: int, remedy: str) -> None:
        self.shortfall = shortfall
        super().__init__(cause, done="Nothing was loaded.", remedy=remedy)
