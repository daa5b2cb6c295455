"""Which models of the curated list suit a machine: one quick, one balanced, one as able as the memory allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from engine.hub.catalogue import CatalogueModel

GB = 10**9
SYSTEM_BYTES = 2 * GB  # what the system and other programs keep of the RAM
CACHE_SHARE = 1.15  # weights, and a cache and scratch beside them
GPU_SHARE = 0.85  # of a card's memory, after its headroom
QUICK, FLUENT = 20.0, 8.0  # tokens/s: faster than one reads, and as fast as one reads (some 6 words a second)


class Role(Enum):
    QUICK = "quick"
    BALANCED = "balanced"
    ABLE = "able"


@dataclass(frozen=True, slots=True)
class Memories:
    """Bytes, and bytes/s that weights are read with; no GPU: zeros."""

    ram_bytes: float
    ram_bandwidth: float
    gpu_bytes: float = 0.0
    gpu_bandwidth: float = 0.0


@dataclass(frozen=True, slots=True)
class Recommendation:
    """`speed`: decode, predicted, in tokens/s."""

    model: CatalogueModel
    role: Role
    speed: float


def predicted_decode(model: CatalogueModel, memories: Memories) -> float:
    """Tokens/s if reading the weights were all the work: what a token reads, over the memory that it lies in.

    Decoding one sequence is bound by memory; the header's exact sizes refine this once the model's page is open.
    """
    total = model.gigabytes * GB
    on_gpu = min(1.0, memories.gpu_bytes * GPU_SHARE / (total * CACHE_SHARE)) if memories.gpu_bandwidth else 0.0
    read = total * (model.active_billions or model.billions) / model.billions
    seconds = read * (1 - on_gpu) / memories.ram_bandwidth
    if on_gpu:
        seconds += read * on_gpu / memories.gpu_bandwidth
    return 1 / seconds


def recommend(models: Sequence[CatalogueModel], memories: Memories) -> list[Recommendation]:
    """At most three different models that fit, the smallest first; the largest one of each speed counts as its best.

    Example: 16 GB of RAM read at 40 GB/s, no GPU: a 1.7B quick (38 tok/s), an 8B balanced (8), a 20B mixture able.
    """
    room = memories.ram_bytes - SYSTEM_BYTES + memories.gpu_bytes * GPU_SHARE
    fitting = sorted((one for one in models if one.gigabytes * GB * CACHE_SHARE <= room), key=lambda one: one.billions)
    speeds = {one.title: predicted_decode(one, memories) for one in fitting}
    chosen: list[CatalogueModel] = []
    for least in (2.0, FLUENT, QUICK):
        left = [one for one in fitting if one not in chosen]
        candidates = [one for one in left if speeds[one.title] >= least] or left[:1]
        chosen += candidates[-1:]
    chosen.sort(key=lambda one: one.billions)
    roles = (Role.QUICK, Role.BALANCED, Role.ABLE)[3 - len(chosen) :]
    return [Recommendation(one, role, speeds[one.title]) for one, role in zip(chosen, roles, strict=True)]
