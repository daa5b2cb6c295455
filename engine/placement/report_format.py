"""A plan's report as text for people and as JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from engine.gguf.errors import printable
from engine.placement.costs import Workload
from engine.placement.explain import gib
from engine.placement.hardware.load import QUIET
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.items import Device
from engine.placement.plan import MemoryUse, Placed, PlacedExperts, PlacementPlan, Speeds
from engine.placement.rivals import Rival
from engine.placement.shape import ModelShape
from engine.placement.simulator import Simulation
from engine.placement.state import F16_BYTES


@dataclass(frozen=True, slots=True)
class PlanReport:
    shape: ModelShape
    hardware: HardwareProfile
    work: Workload
    plan: PlacementPlan
    simulation: Simulation
    rivals: tuple[Rival, ...]
    curve: tuple[tuple[int, float], ...]  # budget in bytes, decode tokens/s
    what_if: bool  # for a machine that is not this one


# --- text -------------------------------------------------------------------------------------------------------


def as_text(report: PlanReport) -> str:
    plan, hardware, speeds = report.plan, report.hardware, report.simulation.speeds
    with_gpu = hardware.gpu is not None
    lines = [
        f"{report.shape.name}: {gib(report.shape.weight_bytes)} of weights, context {report.work.context}"
        + (", kept in 8 bits" if report.work.value_bytes < F16_BYTES else ""),
        f"on {hardware.label}, {gib(hardware.cpu.memory_bytes)} of RAM ({_rates(report)})",
        *_engine_lines(report.shape),
        "",
        *_memory_lines(plan, with_gpu),
        "",
        *_placement_lines(plan),
        "",
        f"{f'tok/s at depth {report.work.depth}':54} {'decode':>8} {'prefill':>8}"
        + (f" {'GPU':>9}" if with_gpu else ""),
        _speed_line(_system(report.shape), speeds, plan.gpu.total if with_gpu else None),
    ]
    lines += [
        _speed_line(f"{r.strategy}, {r.setting} (simulated)", r.speeds, r.gpu_bytes if with_gpu else None)
        for r in report.rivals
    ]
    below = _curve_lines(report)
    if plan.uses_gpu:
        busy = ", ".join(f"{lane} {100 * share:.0f} %" for lane, share in report.simulation.utilisation().items())
        below += [f"busy in decode: {busy}"]
    below += plan.notes
    return "\n".join(map(printable, [*lines, "", *below] if below else lines))


def _rates(report: PlanReport) -> str:
    """Where the speeds come from, and what disturbed the measuring."""
    if report.hardware.source == "datasheet":
        return "simulated, from datasheets"
    kind = "simulated, partly from datasheets" if report.hardware.source == "mixed" else "measured rates"
    if report.what_if and report.hardware.source == "measured":
        kind = f"simulated, {kind}"
    share = report.hardware.others_load
    if share <= QUIET:
        return kind
    return f"{kind}; other programs took {100 * share:.0f} % of the processor while it was measured"


def _system(shape: ModelShape) -> str:
    return "Tessera" if shape.is_native else "Tessera, compatibility engine (simulated)"


def _engine_lines(shape: ModelShape) -> list[str]:
    if shape.is_native:
        return []
    return [
        f"The architecture “{shape.architecture}” is not one that Tessera builds itself: it runs on the",
        "compatibility engine (llama.cpp), on the processor alone, whatever the budget. Its speeds are simulated.",
    ]


def _memory_lines(plan: PlacementPlan, with_gpu: bool) -> list[str]:
    lines = [f"{'':4} {'weights':>10} {'experts':>10} {'KV, state':>10} {'overhead':>10} {'total':>10}"]
    for name, use in ((("GPU", plan.gpu),) if with_gpu else ()) + (("RAM", plan.ram),):
        sizes = (use.weights, use.experts, use.state, use.overhead, use.total)
        lines.append(f"{name:4} " + " ".join(f"{gib(size):>10}" for size in sizes))
    return lines


def _placement_lines(plan: PlacementPlan) -> list[str]:
    """One line per kind of item, place and reason, with the layers it holds for."""
    groups: dict[tuple[str, str], list[int]] = {}
    for placed in plan.items:
        groups.setdefault((placed.item.kind.value, placed.reason), []).append(placed.item.layer)
    for experts in plan.experts:
        groups.setdefault(("experts", experts.reason), []).append(experts.bank.layer)
    return [f"{kind:26} {_ranges(layers):22} {reason}" for (kind, reason), layers in groups.items()]


def _ranges(layers: Iterable[int]) -> str:
    """ "0–3, 7" of [0, 1, 2, 3, 7]; empty outside the layers; counted where there are many pieces."""
    numbers = sorted(n for n in layers if n >= 0)
    pieces: list[list[int]] = []
    for n in numbers:
        if pieces and pieces[-1][1] == n - 1:
            pieces[-1][1] = n
        else:
            pieces.append([n, n])
    if len(pieces) > 3:
        return f"{len(numbers)} layers"
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in pieces)


def _speed_line(name: str, speeds: Speeds, gpu_bytes: int | None) -> str:
    """`gpu_bytes`: None for a machine without a GPU, which has no such column."""
    line = f"{name:54} {speeds.decode:8.1f} {speeds.prefill:8.0f}"
    return line if gpu_bytes is None else f"{line} {gib(gpu_bytes):>9}"


def _curve_lines(report: PlanReport) -> list[str]:
    if not report.curve:
        return []
    best = max(speed for _, speed in report.curve)
    lines = ["budget → decode tok/s"]
    for budget, speed in report.curve:
        lines.append(f"{gib(budget):>9} {speed:7.1f} {'█' * round(30 * speed / best)}")
    return lines


# --- JSON -------------------------------------------------------------------------------------------------------


def as_json(report: PlanReport) -> dict[str, Any]:
    """`predicted` is for this machine unless another is named."""
    plan, speeds = report.plan, report.simulation.speeds
    devices = Counter(placed.device for placed in plan.items)
    return {
        "model": report.shape.name,
        "machine": report.hardware.label,
        "source": report.hardware.source,
        "simulated": report.what_if or plan.uses_gpu or not report.shape.is_native,
        "engine": "native" if report.shape.is_native else "compatibility",
        "context": report.work.context,
        "depth": report.work.depth,
        "budget": plan.gpu_budget,
        "predicted": {"prefill": speeds.prefill, "decode": speeds.decode},
        "hit_rate": speeds.hit_rate,
        "memory": {"gpu": _memory(plan.gpu), "ram": _memory(plan.ram)},
        "items": {"gpu": devices[Device.GPU], "cpu": devices[Device.CPU]},
        "placement": [_placed(placed) for placed in plan.items],
        "experts": [_experts(experts) for experts in plan.experts],
        "rivals": [_rival(rival) for rival in report.rivals],
        "curve": [{"budget": budget, "decode": speed} for budget, speed in report.curve],
        "utilisation": report.simulation.utilisation(),
        "notes": list(plan.notes),
    }


def _memory(use: MemoryUse) -> dict[str, int]:
    return asdict(use) | {"total": use.total}


def _placed(placed: Placed) -> dict[str, Any]:
    return {
        "item": placed.item.name,
        "device": placed.device.value,
        "bytes": placed.item.bytes,
        "state": placed.state_bytes,
        "reason": placed.reason,
    }


def _experts(placed: PlacedExperts) -> dict[str, Any]:
    return {
        "layer": placed.bank.layer,
        "slots": placed.slots,
        "experts": placed.bank.count,
        "bytes": placed.bank.expert_bytes,
        "reason": placed.reason,
    }


def _rival(rival: Rival) -> dict[str, Any]:
    return {
        "strategy": rival.strategy,
        "setting": rival.setting,
        "prefill": rival.speeds.prefill,
        "decode": rival.speeds.decode,
        "gpu_bytes": rival.gpu_bytes,
    }
