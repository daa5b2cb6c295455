"""Pins: what the owner wants on the GPU, or kept in RAM, whatever a plan would say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.errors import EngineError


class PinError(EngineError):
    """Pins contradict each other, or find no room."""


@dataclass(frozen=True, slots=True, order=True)
class Pin:
    """`key`: of an item or of a bank of experts. `expert` -1: the item."""

    key: str
    expert: int = -1
    on_gpu: bool = True


@dataclass(frozen=True, slots=True)
class Pins:
    """At most one pin for anything."""

    all: frozenset[Pin] = field(default=frozenset())

    @classmethod
    def of(cls, pins: Iterable[Pin]) -> Pins:
        """PinError where something is pinned to both."""
        chosen = frozenset(pins)
        if len({(pin.key, pin.expert) for pin in chosen}) < len(chosen):
            raise PinError("Something is pinned to the GPU and to RAM at once.", done="Nothing was changed.")
        return cls(chosen)

    def with_pin(self, key: str, expert: int, on_gpu: bool | None) -> Pins:
        """None: without a pin there."""
        others = frozenset(pin for pin in self.all if (pin.key, pin.expert) != (key, expert))
        return Pins(others if on_gpu is None else others | {Pin(key, expert, on_gpu)})

    def item(self, key: str) -> bool | None:
        """Whether an item is pinned to the GPU, to RAM, or not at all."""
        return next((pin.on_gpu for pin in self.all if pin.key == key and pin.expert < 0), None)

    def experts(self, bank: str, *, on_gpu: bool) -> frozenset[int]:
        return frozenset(pin.expert for pin in self.all if pin.key == bank and pin.expert >= 0 and pin.on_gpu is on_gpu)

    def __bool__(self) -> bool:
        return bool(self.all)
