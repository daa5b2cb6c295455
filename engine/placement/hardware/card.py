"""A card's profile from what its driver says of it: the catalogue's entry of that name, else its clocks and widths."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.placement.hardware import catalogue
from engine.placement.hardware.catalogue import CatalogueGPU
from engine.placement.hardware.profile import HardwareProfile

_GIB = 1 << 30
# Dense FP16 tensor operations per processor and clock with FP32 accumulation, as the white papers have them; GeForce
# cards do half as many.
_TENSOR_OPS = {75: 1024, 80: 2048, 86: 1024, 87: 2048, 89: 1024, 90: 4096, 100: 8192, 103: 8192, 120: 1024}
_LEAST_MEMORY = (96, 16.0)  # bits, Gbit/s per pin: of cards since Turing, where a driver does not tell


@dataclass(frozen=True, slots=True)
class CardFacts:
    """Clocks in Hz, bytes, and widths in bits; 0 where the driver does not tell."""

    name: str
    capability: int  # 10 * major + minor
    memory_bytes: int
    processors: int
    clock: float
    memory_clock: float
    memory_bits: int
    drives_display: bool
    index: int = 0  # the driver's number of it


def catalogue_entry(facts: CardFacts) -> CatalogueGPU:
    """The entry named like the card, of several the one with the closest memory; or one made of its facts."""
    named = [entry for entry in catalogue.gpus() if catalogue.same_family(entry.name, facts.name)]
    if named:
        return min(named, key=lambda entry: abs(entry.memory_gib * _GIB - facts.memory_bytes))
    bits, gbit = facts.memory_bits, 2 * facts.memory_clock / 1e9  # two transfers per clock
    if not bits or not gbit:
        bits, gbit = _LEAST_MEMORY
    known = [capability for capability in _TENSOR_OPS if capability <= facts.capability]
    operations = _TENSOR_OPS[max(known, default=75)]
    if "geforce" in facts.name.lower():
        operations //= 2  # with FP32 accumulation
    return CatalogueGPU(
        facts.name,
        facts.memory_bytes / _GIB,
        facts.processors,
        facts.clock / 1e9,
        operations,
        bits,
        gbit,
        pcie=4 if facts.capability >= 80 else 3,
        lanes=16,
        source="what its driver says of it",
    )


def with_datasheet(own: HardwareProfile, facts: CardFacts) -> HardwareProfile:
    """The machine with this card, by its datasheet."""
    entry = catalogue_entry(facts)
    gpu = replace(catalogue.gpu_profile(entry), name=facts.name, memory_bytes=facts.memory_bytes)
    return replace(
        own,
        gpu=gpu,
        link=catalogue.link_profile(entry),
        drives_display=facts.drives_display,
        source="mixed",
        notes=(f"The speed of {facts.name} is not measured: it is from {entry.source}.",),
        card_measured=None,
    )
