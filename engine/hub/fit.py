"""Would this model run here? A pure function of the header's sizes and the machine's memory.

No speed is ever guessed: a predicted one comes from a planner that has measured this machine, or there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import psutil

from engine.hub.errors import size_text
from engine.hub.facts import ModelFacts
from engine.placement.state import F16_BYTES
from engine.telemetry.gpus import read_gpus

CONTEXT = 8192  # tokens that the estimate makes room for, or the model's own length if that is less
SYSTEM_BYTES = 2 << 30  # what the system and other programs keep of the RAM
GPU_HEADROOM = 768 << 20  # the display, the driver's context and scratch
SCRATCH = 256 << 20


class FitKind(Enum):
    GPU = "gpu"
    SPLIT = "split"
    RAM = "ram"
    SHORT = "short"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Machine:
    """Memory totals in bytes; `vram` is the largest GPU's, 0 without one."""

    ram: int
    vram: int = 0


@dataclass(frozen=True, slots=True)
class Fit:
    """`label` fits a pill, `reason` is the sentence behind it. `speed` in tokens/s, None if nobody predicted it.

    `from_header` is False as long as only the file's size is known.
    """

    kind: FitKind
    label: str
    reason: str
    needed: int
    speed: float | None = None
    from_header: bool = True

    @property
    def runs(self) -> bool:
        return self.kind not in (FitKind.SHORT, FitKind.UNSUPPORTED)


# (facts, file bytes, context length) → decode speed in tokens/s, or None when it cannot say.
Predictor = Callable[[ModelFacts, int, int], float | None]


def this_machine() -> Machine:
    """Asks the system and the NVIDIA driver; a few milliseconds."""
    gpus = read_gpus().gpus
    return Machine(psutil.virtual_memory().total, max((gpu.memory_total or 0 for gpu in gpus), default=0))


def estimate_fit(
    file_bytes: int,
    facts: ModelFacts | None,
    machine: Machine,
    predict: Predictor | None = None,
    *,
    kv_type: str = "f16",
) -> Fit:
    """Fit of a model whose files have `file_bytes` in all, its keys and values kept as `kv_type` (LoadOptions').

    Before the header was read (`facts` None) the cache's size is not known, and the reason says so.
    """
    if facts is not None and facts.unsupported:
        return Fit(FitKind.UNSUPPORTED, f"Unsupported: {facts.unsupported}", _unsupported(facts), file_bytes)
    if facts is not None and facts.kind not in ("model", "part"):
        return Fit(FitKind.UNSUPPORTED, "Not a model", f"This file is a {facts.kind}, no model.", file_bytes)
    context = min(CONTEXT, facts.context_length or CONTEXT) if facts else 0
    cache = facts.cache_bytes(context, kv_type) if facts else 0
    needed = file_bytes + cache + SCRATCH
    ram, vram = max(0, machine.ram - SYSTEM_BYTES), max(0, machine.vram - GPU_HEADROOM)
    kind, label, where = _place(needed, ram, vram)
    parts, has = f"{size_text(file_bytes)} of weights; the cache comes on top.", f"{size_text(machine.ram)} of RAM"
    if facts:
        parts = contents_words(file_bytes, cache, context, in_8_bits=facts.value_bytes(kv_type) < F16_BYTES)
    if vram:
        has = f"{size_text(machine.ram)} of RAM and {size_text(machine.vram)} on the GPU"
    speed = predict(facts, file_bytes, context) if predict and facts and kind is not FitKind.SHORT else None
    if speed is not None:
        label = f"{label}: ~{speed:.0f} tok/s predicted"
    reason = " ".join([parts, where, f"This machine has {has}."])
    return Fit(kind, label, reason, needed, speed, facts is not None)


def contents_words(weights: int, cache: int, tokens: int, *, in_8_bits: bool) -> str:
    """What there must be room for, sizes in bytes."""
    if in_8_bits:
        return f"{size_text(weights)} of weights and {size_text(cache)} of cache in 8 bits for {tokens} tokens."
    return f"{size_text(weights)} of weights and {size_text(cache)} of cache for {tokens} tokens."


def _place(needed: int, ram: int, vram: int) -> tuple[FitKind, str, str]:
    if vram and needed <= vram:
        return FitKind.GPU, "Runs on the GPU", "All of it fits the GPU."
    if needed <= ram + vram:
        if vram:
            return FitKind.SPLIT, "GPU + RAM", "It is split between GPU and RAM."
        return FitKind.RAM, "Runs in RAM", "It runs on the processor."
    short = needed - ram - vram
    missing = f"{max(1, -(-short // (1 << 30)))} GiB"
    return FitKind.SHORT, f"Needs {missing} more RAM", f"{missing} are missing beside what the system needs."


def _unsupported(facts: ModelFacts) -> str:
    return f"The file holds {facts.unsupported}, which neither our engine nor llama.cpp can run. Choose another file."
