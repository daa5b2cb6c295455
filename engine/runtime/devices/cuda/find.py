"""Is there a card that Tessera can use, and the compiler for its kernels? If not, why not, in a sentence.

Of several it is the one with the most memory: a model runs on one card, and memory is what it lacks."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from engine.hub.folders import gpu_support_folder
from engine.placement.hardware.card import CardFacts
from kernels.cuda import nvrtc
from kernels.cuda.driver import Driver, driver
from kernels.cuda.kernel_set import LaunchError

# CU_DEVICE_ATTRIBUTE_: CLOCK_RATE and MEMORY_CLOCK_RATE in kHz, MULTIPROCESSOR_COUNT, GLOBAL_MEMORY_BUS_WIDTH,
# KERNEL_EXEC_TIMEOUT (there where the card drives a display), VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED.
_CLOCK, _PROCESSORS, _HAS_TIMEOUT, _MEMORY_CLOCK, _MEMORY_BITS, _VIRTUAL_MEMORY = 13, 16, 17, 36, 37, 102
_GET_NVRTC = "Install GPU support under Settings, Help."
_OLDEST = 75  # Turing: what the kernels are compiled for at least


@dataclass(frozen=True, slots=True)
class FoundCard:
    """`driver` is None where there is none that can be used, and `reason` says why, `remedy` what helps."""

    driver: Driver | None = None
    name: str = ""
    capability: int = 0  # 10 * major + minor
    reason: str = ""
    remedy: str = ""
    facts: CardFacts | None = None

    @property
    def is_usable(self) -> bool:
        return self.driver is not None


def find_card(library: Path | None = None) -> FoundCard:
    """Takes some 100 ms the first time on a computer with a card: the driver starts. `library`: see `Driver`."""
    return _found(library)


@functools.cache
def _found(library: Path | None) -> FoundCard:
    try:
        known = driver() if library is None else Driver(library)
        cards = [_judged(known, index) for index in range(known.device_count())]
    except LaunchError:
        return FoundCard(reason="There is no NVIDIA driver.", remedy="With an NVIDIA GPU, install it from nvidia.com.")
    if not cards:
        return FoundCard(reason="The NVIDIA driver reports no GPU.")
    return max(cards, key=lambda card: card.facts.memory_bytes if card.facts is not None else -1)


def _judged(known: Driver, index: int) -> FoundCard:
    name, capability = known.name(index), known.capability(index)
    has_virtual_memory = bool(known.attribute(_VIRTUAL_MEMORY, index))
    card = FoundCard(None, name, capability)
    if capability < _OLDEST:
        return _refused(card, f"{name} is older than what the CUDA kernels are written for (Turing, 2018).")
    if not has_virtual_memory:
        return _refused(card, f"The driver of {name} cannot map memory in pieces.", "Install a newer NVIDIA driver.")
    nvrtc.search_first(gpu_support_folder())
    if nvrtc.find() is None:
        return _refused(card, f"{name} is here, but not NVRTC, which compiles its kernels.", _GET_NVRTC)
    try:
        nvrtc.target(capability)
        compiler, version = nvrtc.version()[0], known.version()
    except nvrtc.NvrtcError as error:
        return _refused(card, f"{name} is here, but its kernels cannot be compiled: {error}.", _GET_NVRTC)
    if version // 1000 < compiler:
        found = f"{name} has a driver for CUDA {version // 1000}.{version % 1000 // 10}, older than NVRTC {compiler}."
        return _refused(card, found, "Install a newer NVIDIA driver, or nvidia-cuda-nvrtc-cu12.")
    return FoundCard(known, name, capability, facts=_facts(known, index, name, capability))


def _facts(known: Driver, index: int, name: str, capability: int) -> CardFacts:
    return CardFacts(
        name,
        capability,
        memory_bytes=known.total_memory(index),
        processors=known.attribute(_PROCESSORS, index),
        clock=1e3 * known.attribute(_CLOCK, index),
        memory_clock=1e3 * known.attribute(_MEMORY_CLOCK, index),
        memory_bits=known.attribute(_MEMORY_BITS, index),
        drives_display=bool(known.attribute(_HAS_TIMEOUT, index)),
        index=index,
    )


def _refused(card: FoundCard, reason: str, remedy: str = "") -> FoundCard:
    return FoundCard(None, card.name, card.capability, reason, remedy)
