"""Would this model run here, and how fast? The pill of the library, from the header alone, through the planner."""

from __future__ import annotations

from engine.hub.fit import Fit, FitKind, contents_words
from engine.placement.budget import Budget, GiB, recommended_budget
from engine.placement.costs import Workload
from engine.placement.explain import gib
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.items import Device
from engine.placement.plan import ModelDoesNotFitError, PlacementPlan
from engine.placement.planner import Planner
from engine.placement.shape import ModelShape
from engine.placement.state import F16_BYTES

CONTEXT = 8192


def fit(
    shape: ModelShape,
    hardware: HardwareProfile,
    context: int | None = None,
    budget: Budget | None = None,
    freed_by_unloading: int = 0,
    kv_type: str = "f16",
) -> Fit:
    """The verdict for a context (default: CONTEXT, or what the model was trained for, if less).

    `budget`: what may be used now. `freed_by_unloading`: GPU bytes that the model that runs now would give back; they
    are offered, not counted. `kv_type`: of keys and values, LoadOptions'.
    """
    tokens = context or min(CONTEXT, shape.context_length)
    depth = min(tokens, 2048)
    work = Workload(context=tokens, prompt=depth, depth=depth, value_bytes=shape.value_bytes(kv_type))
    allowed = budget or recommended_budget(hardware)
    planner = Planner(shape, hardware, work)
    try:
        plan = planner.plan(allowed)
    except ModelDoesNotFitError as error:
        missing = -(-error.shortfall // GiB)
        needed = shape.weight_bytes + shape.state_bytes(tokens, work.value_bytes)
        return Fit(FitKind.SHORT, f"Needs {missing} GiB more RAM", f"{error.cause} {error.remedy}", needed)
    return _verdict(plan, planner, freed_by_unloading, allowed)


def _verdict(plan: PlacementPlan, planner: Planner, freed: int, allowed: Budget) -> Fit:
    speed = plan.predicted.decode
    kind, label = _kind(plan), "Runs on the GPU"
    if kind is not FitKind.GPU:
        label = f"{'GPU + RAM' if kind is FitKind.SPLIT else 'Runs in RAM'}: ~{speed:.0f} tok/s predicted"
    state = plan.gpu.state + plan.ram.state
    in_8_bits = planner.work.value_bytes < F16_BYTES
    parts = [contents_words(planner.shape.weight_bytes, state, planner.work.context, in_8_bits=in_8_bits)]
    if plan.uses_gpu:
        parts.append(f"{gib(plan.gpu.total)} on the GPU, {gib(plan.ram.total)} in RAM.")
    source = "measured here" if planner.hardware.source == "measured" else "partly from datasheets"
    parts.append(f"About {speed:.1f} tok/s are predicted from rates {source}.")
    if freed and kind is not FitKind.GPU:
        more = planner.plan(Budget(allowed.gpu_bytes + freed, allowed.ram_bytes)).predicted.decode
        parts.append(f"Unloading the model that runs now would make that {more:.1f}.")
    return Fit(kind, label, " ".join(parts), plan.gpu.total + plan.ram.total, speed)


def _kind(plan: PlacementPlan) -> FitKind:
    if not plan.uses_gpu:
        return FitKind.RAM
    everything = all(p.device is Device.GPU for p in plan.items[1:])
    if everything and all(e.slots == e.bank.count for e in plan.experts):
        return FitKind.GPU
    return FitKind.SPLIT
