"""This computer in plain words: what its memory, processor and graphics card mean for what can run. Free of Qt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app.assets import FOLDER
from app.translation import tr
from engine.hub.catalogue import read_catalogue
from engine.hub.recommend import CACHE_SHARE, GB, SYSTEM_BYTES, Memories, Recommendation, recommend

GiB = 1 << 30


@dataclass(frozen=True, slots=True)
class Fact:
    title: str
    words: str
    good: bool = True  # False: works, with a limit that is worth knowing


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What the first page says. `measured`: the speeds rest on rates measured here, not on datasheets."""

    facts: tuple[Fact, ...]
    recommendations: tuple[Recommendation, ...]
    measured: bool


def look(data: Path) -> FirstLook:
    """Ask the system; some 100 ms, not for the main thread. `data`: the application's data folder."""
    import psutil

    from engine.placement.costs import weights_rate
    from engine.placement.hardware import store
    from engine.runtime.threads import default_threads
    from engine.telemetry.doctor import cpu_tier
    from engine.telemetry.gpus import read_gpus

    profile, measured = store.own_profile(store.hardware_folder(data), default_threads())
    gpus = read_gpus().gpus
    ram = psutil.virtual_memory().total
    gpu = profile.gpu
    memories = Memories(
        ram,
        weights_rate(profile.cpu),
        gpu.memory_bytes if gpu is not None else 0,
        gpu.bandwidth if gpu is not None else 0,
    )
    card = (gpus[0].name, gpus[0].memory_total or 0) if gpus else None
    facts = (
        memory_fact(ram),
        processor_fact(store.cpu_name(), psutil.cpu_count(logical=False) or 1, cpu_tier()),
        gpu_fact(card, usable=gpu is not None),
    )
    return FirstLook(facts, tuple(recommend(read_catalogue(FOLDER / "catalogue.json"), memories)), measured)


def memory_fact(ram: int) -> Fact:
    largest = max(0.0, (ram - SYSTEM_BYTES) / CACHE_SHARE / GB)
    words = tr("{memory} GiB of memory: model files up to about {largest} GB can run.", memory=f"{ram / GiB:.0f}",
               largest=f"{largest:.0f}")  # fmt: skip
    return Fact(tr("Memory"), words, good=largest >= 4)


def processor_fact(name: str, cores: int, tier: str) -> Fact:
    if tier == "scalar":
        words = tr("{name}, {cores} cores. It lacks AVX2, so answers will be slow.", name=name, cores=cores)
    else:
        words = tr("{name}, {cores} cores. It has what fast answers need.", name=name, cores=cores)
    return Fact(tr("Processor"), words, good=tier != "scalar")


def gpu_fact(card: tuple[str, int] | None, *, usable: bool) -> Fact:
    """`card`: name and bytes of memory."""
    title = tr("Graphics card")
    if card is None:
        return Fact(title, tr("No NVIDIA card was found. Models run on the processor, which is fine for small ones."))
    name, memory = card
    size = f"{memory / GiB:.0f}"
    if usable:
        words = tr("{name} with {size} GiB: models run on it, and larger ones on it and the processor together.",
                   name=name, size=size)  # fmt: skip
        return Fact(title, words)
    words = tr("{name} with {size} GiB could help, but GPU support is not installed yet (Settings, Help).",
               name=name, size=size)  # fmt: skip
    return Fact(title, words, good=False)
