"""The measured profile of this machine, kept on disk and named by all that would change it."""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

import psutil

from engine.gguf.quant_types import known_type
from engine.hub.folders import cache_folder
from engine.placement.hardware import catalogue, probe
from engine.placement.hardware.card import with_datasheet
from engine.placement.hardware.load import OthersLoad
from engine.placement.hardware.profile import (
    ANY_TYPE,
    ELEMENT_KINDS,
    DeviceProfile,
    HardwareProfile,
    KernelRates,
    Link,
    Points,
)
from engine.runtime.devices.cuda.find import FoundCard, find_card
from engine.telemetry.gpus import GPU, GPUReport, read_gpus
from kernels import _cpu
from kernels.cuda import source

# Raised when the probe measures something else or differently.
PROBE_VERSION = 15
CPU_SHARE = 0.6  # of the progress, where a card is measured, too


@cache
def kernels_digest() -> str:
    """Of the compiled kernels: another build may be faster, or know more types."""
    return hashlib.sha256(Path(_cpu.__file__).read_bytes()).hexdigest()


def fingerprint(cpu: str, threads: int, tier: str, gpus: GPUReport) -> str:
    """Changes with the CPU, threads, kernels' build and tier, GPU and driver, and with what the probe measures."""
    cards = [f"{gpu.name} {gpu.memory_total}" for gpu in gpus.gpus]
    kernels = [kernels_digest(), *([source.digest_of_all()] if cards else [])]
    parts = [cpu, str(threads), tier, *kernels, *cards, gpus.driver, platform.system(), str(PROBE_VERSION)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


def this_machine(
    folder: Path,
    threads: int,
    tier: str = "auto",
    *,
    measure_again: bool = False,
    progress: probe.Progress = probe.silent,
    gpus: GPUReport | None = None,
    types: Iterable[str] = (),
) -> HardwareProfile:
    """The profile of this machine: from `folder` where it was measured before, else measured now and kept there.
    `types`, of a model's tensors, that it has no rates for are measured now as well."""
    report = read_gpus() if gpus is None else gpus
    card = find_card() if report.gpus else FoundCard()
    cpu_share = CPU_SHARE if card.is_usable else 1.0
    profile = None if measure_again else known_machine(folder, threads, tier, gpus=report)
    if profile is not None and (profile.card_measured is not None or not card.is_usable):
        learnt = _learnt(profile, types, tier)
        if learnt is not profile:
            _keep(learnt, _path(folder, threads, tier, report))
        return learnt
    if profile is None:
        others = OthersLoad()
        seconds = probe.PROBE_SECONDS - (probe.CARD_SECONDS if card.is_usable else 0.0)
        cpu = probe.measure_cpu(
            cpu_name(), psutil.virtual_memory().total, threads, tier, _within(progress, 0.0, cpu_share), seconds
        )
        own = HardwareProfile(cpu, platform=_platform(), source="measured", others_load=others.share())
        profile = with_gpu(own, report)
        profile = replace(profile, disk_bandwidth=probe.disk_read_bandwidth(folder) if folder.is_dir() else 0.0)
    if card.facts is not None:
        profile = _with_measured(profile, card, report, _within(progress, cpu_share, 1.0))
    profile = _learnt(profile, types, tier)
    _keep(profile, _path(folder, threads, tier, report))
    return profile


def _with_measured(
    profile: HardwareProfile, card: FoundCard, report: GPUReport, progress: probe.Progress
) -> HardwareProfile:
    """With the card that models run on."""
    from engine.placement.hardware.gpu_probe import with_measured_card

    assert card.facts is not None
    machine = with_datasheet(profile, card.facts)
    idle = [gpu.name for gpu in report.gpus]
    if card.facts.name in idle:
        idle.remove(card.facts.name)
    machine = replace(machine, notes=_idle_notes(card.facts.name, idle))
    return with_measured_card(machine, card, cache_folder() / "cubins", progress)


def _within(progress: probe.Progress, begin: float, end: float) -> probe.Progress:
    """Progress of a part of what goes on."""
    return lambda fraction, stage: progress(begin + (end - begin) * fraction, stage)


def _idle_notes(used: str, idle: Sequence[str]) -> tuple[str, ...]:
    others = ", ".join(idle)
    return (f"{used} is used; {others} stays idle, because one model runs on one GPU.",) if idle else ()


def known_machine(
    folder: Path, threads: int, tier: str = "auto", *, gpus: GPUReport | None = None
) -> HardwareProfile | None:
    """The profile of this machine if it was measured before, with the memory it has now; takes milliseconds."""
    kept = load(_path(folder, threads, tier, read_gpus() if gpus is None else gpus))
    return None if kept is None else kept.with_ram(psutil.virtual_memory().total)


def learn_types(folder: Path, threads: int, names: Iterable[str], tier: str = "auto") -> bool:
    """Measures the types of a model's tensors that the profile of this machine has no rates for, and keeps them: about
    half a second. False where there is no profile, or nothing to measure."""
    report = read_gpus()
    known = known_machine(folder, threads, tier, gpus=report)
    if known is None:
        return False
    learnt = _learnt(known, names, tier)
    if learnt is not known:
        _keep(learnt, _path(folder, threads, tier, report))
    return learnt is not known


def _learnt(profile: HardwareProfile, names: Iterable[str], tier: str) -> HardwareProfile:
    missing = set(names) - set(profile.cpu.kernels.points)
    types = [kind for kind in map(known_type, _cpu.QUANT_TYPES) if kind is not None and kind.name in missing]
    return replace(profile, cpu=probe.with_types(profile.cpu, types, tier)) if types else profile


def _keep(profile: HardwareProfile, path: Path) -> None:
    with suppress(OSError):  # where nothing can be kept, it is measured each time
        save(profile, path)


def hardware_folder(data: Path) -> Path:
    """Where profiles are kept in the owner's data folder."""
    return data / "hardware"


def _path(folder: Path, threads: int, tier: str, report: GPUReport) -> Path:
    chosen = _cpu.best_tier() if tier in ("auto", "") else tier
    return folder / f"{fingerprint(cpu_name(), threads, chosen, report)}.json"


def with_gpu(profile: HardwareProfile, report: GPUReport) -> HardwareProfile:
    """Adds the largest GPU, by its datasheet."""
    cards = sorted((gpu for gpu in report.gpus if gpu.memory_total), key=lambda g: -(g.memory_total or 0))
    if not cards:
        return profile
    notes = [*_idle_notes(cards[0].name, [gpu.name for gpu in cards[1:]])]
    known = _catalogue_entry(cards[0])
    if known is None:
        return replace(profile, notes=(*notes, f"{cards[0].name} is not in the catalogue: it is left out."))
    gpu = replace(catalogue.gpu_profile(known), memory_bytes=cards[0].memory_total or 0, name=cards[0].name)
    notes.append(f"The speed of {gpu.name} is taken from its datasheet, not measured.")
    return replace(
        profile,
        gpu=gpu,
        link=catalogue.link_profile(known),
        drives_display=True,
        source="mixed",
        notes=tuple(notes),
    )


def _catalogue_entry(gpu: GPU) -> catalogue.CatalogueGPU | None:
    """The entry named like the card; of several the one whose memory is closest."""
    named = [entry for entry in catalogue.gpus() if catalogue.same_family(entry.name, gpu.name)]
    if not named:
        return None
    total = gpu.memory_total or 0
    return min(named, key=lambda entry: abs(entry.memory_gib * (1 << 30) - total))


def similar_cpu() -> catalogue.CatalogueCPU:
    """This processor under its own name, cores and tier, with clock and memory of the catalogue's most similar entry.

    That is the one whose name stands in this processor's, unless a guest has been given fewer cores; else, of the
    desktop processors of the same ISA tier, the one whose number of cores is closest.
    """
    name, tier, cores = cpu_name(), _cpu.best_tier(), psutil.cpu_count(logical=False) or 4
    named = [entry for entry in catalogue.cpus() if entry.name.lower() in name.lower() and entry.cores <= cores]
    if named:
        return replace(named[0], name=name, isa=tier if catalogue.knows_isa(tier) else named[0].isa)
    desktop = [entry for entry in catalogue.cpus() if entry.bandwidth_gb < 100]
    alike = [entry for entry in desktop if entry.isa == tier] or [entry for entry in desktop if entry.isa == "avx2"]
    entry = min(alike, key=lambda entry: (abs(entry.cores - cores), entry.bandwidth_gb))
    return replace(entry, name=name, cores=cores, isa=tier if catalogue.knows_isa(tier) else entry.isa)


def own_profile(folder: Path, threads: int) -> tuple[HardwareProfile, bool]:
    """This machine as measured before, and True; or the most similar processor's datasheet, and False."""
    known = known_machine(folder, threads)
    if known is not None:
        return known, True
    return catalogue.machine(similar_cpu(), None, psutil.virtual_memory().total), False


def cpu_name() -> str:
    """The processor's own name for itself."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _platform() -> Literal["linux", "windows", "macos"]:
    names = {"Windows": "windows", "Darwin": "macos"}
    return cast(Literal["linux", "windows", "macos"], names.get(platform.system(), "linux"))


# --- as JSON ----------------------------------------------------------------------------------------------------


def save(profile: HardwareProfile, path: Path) -> None:
    """Written whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(asdict(profile), indent=1), "utf-8")
    scratch.replace(path)


def load(path: Path) -> HardwareProfile | None:
    """None where there is no profile, or none that this version can read."""
    try:
        return _profile(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None


def _profile(data: Mapping[str, Any]) -> HardwareProfile:
    fields = dict(data)
    fields["cpu"] = _device(data["cpu"])
    fields["gpu"] = _device(data["gpu"]) if data["gpu"] else None
    fields["link"] = Link(**data["link"]) if data["link"] else None
    fields["notes"] = tuple(data["notes"])
    measured = data.get("card_measured")  # a profile of before has none
    fields["card_measured"] = None if measured is None else tuple(measured)
    return HardwareProfile(**fields)


def _device(data: Mapping[str, Any]) -> DeviceProfile:
    points, stalls = _curves(data["kernels"]["points"]), _curves(data["stalls"])
    bandwidths = {int(threads): float(rate) for threads, rate in data["bandwidth_by_threads"].items()}
    read = {"kernels": KernelRates(points), "stalls": stalls, "bandwidth_by_threads": bandwidths}
    read["pace"] = _points(data["pace"])
    if ANY_TYPE not in points or not data["element_rates"].keys() >= set(ELEMENT_KINDS):
        raise ValueError("a profile without what every model's price is made of")
    read["row_stalls"] = {name: float(stall) for name, stall in data["row_stalls"].items()}
    numbers = [data[field.name] for field in fields(DeviceProfile) if field.type in ("int", "float")]
    if not all(isinstance(each, int | float) and 0 <= each < math.inf for each in numbers) or not (
        data["bandwidth"] and data["threads"]
    ):
        raise ValueError("a profile with numbers that nothing can be priced by")
    return DeviceProfile(**{**data, **read})


def _curves(data: Mapping[str, Any]) -> dict[str, Points]:
    return {name: _points(rows) for name, rows in data.items()}


def _points(rows: Iterable[tuple[int, float]]) -> Points:
    return tuple((int(tokens), float(value)) for tokens, value in rows)
