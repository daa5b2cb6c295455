"""The sentences of a plan: why each item is where it is, what the next GiB would buy, and what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.placement.budget import Budget, GiB, headroom_bytes, recommended_budget
from engine.placement.costs import Workload
from engine.placement.items import ExpertBank, ItemKind, PlacementItem
from engine.placement.plan import ModelDoesNotFitError, PlacementPlan
from engine.placement.shape import ModelShape
from engine.placement.step_times import Choice

if TYPE_CHECKING:
    from engine.placement.planner import Planner

_ON_GPU = {
    ItemKind.ATTENTION: "used by every token, with its KV cache beside it",
    ItemKind.FEED_FORWARD: "used by every token; the GPU reads it faster",
    ItemKind.SHARED: "used by every token, so it comes before any single expert",
    ItemKind.OUTPUT: "used by every token; the GPU reads it faster",
}
LENT = (
    "in RAM, and on the GPU while an answer is written, unless others gain more from its room there: for prompts, they "
    "pass through it"
)
_MIN_CONTEXT = 512
_NOTICEABLE = 1.005  # times as fast


def item_reason(item: PlacementItem, on_gpu: bool, gpu_in_use: bool, pin: bool | None = None) -> str:
    if pin is not None:
        return "on the GPU: pinned by you" if on_gpu else "in RAM: pinned by you"
    if item.kind is ItemKind.EMBEDDING:
        return "in RAM: a token reads a single row of it"
    if on_gpu:
        return f"on the GPU: {_ON_GPU[item.kind]}"
    if not gpu_in_use:
        return "in RAM: no GPU memory is in use"
    return "in RAM: the budget is spent on parts that gain more per byte, or a switch would cost more than it saves"


def expert_reason(bank: ExpertBank, slots: int, hit_rates: npt.NDArray[np.float64]) -> str:
    if not slots:
        return f"all {bank.count} experts in RAM: no slots"
    if slots == bank.count:
        return f"all {bank.count} experts on the GPU"
    return f"{slots} of {bank.count} experts in slots, holding those used last: {100 * hit_rates[slots]:.0f} % of uses"


def notes(planner: Planner, choice: Choice, limit: int, budget: Budget) -> tuple[str, ...]:
    hardware = planner.hardware
    found = list(hardware.notes)
    if hardware.gpu is None:
        return tuple(found)
    if budget.gpu_bytes > limit:
        found.append(
            f"The budget of {gib(budget.gpu_bytes)} is more than {hardware.gpu.name} can give: {gib(limit)} are "
            f"used, and {gib(headroom_bytes(hardware))} stay free."
        )
    if not choice.uses_gpu and limit:
        found.append(
            f"The GPU stays unused: {gib(planner.overhead)} go to its context and scratch before the first weight."
        )
    if choice.lent:
        size = gib(planner.items[min(choice.lent)].bytes)
        found.append(
            f"Feed-forward blocks in RAM come over the link for a prompt where that is faster: {len(choice.lent)} × "
            f"{size} are lent to those under way by blocks that are on the GPU while an answer is written, unless "
            "others come faster so then, too."
        )
    elif choice.uses_gpu and choice.prefetch_depth:
        found.append(
            f"Feed-forward blocks in RAM come over the link for a step where that is faster: {choice.prefetch_depth} × "
            f"{gib(planner.buffer_bytes)} are kept for those under way."
        )
    found.append(next_gib(planner, choice, limit))
    return tuple(found)


def next_gib(planner: Planner, choice: Choice, limit: int) -> str:
    """What one GiB more would buy."""
    if choice.uses_gpu and all(choice.on_gpu[1:]) and choice.slots == tuple(b.count for b in planner.banks):
        return "Everything that gains from the GPU is on it; more memory would buy nothing."
    safe = recommended_budget(planner.hardware).gpu_bytes
    now = 1 / planner.times.seconds(choice, decode=True)
    more = 1 / planner.times.seconds(planner.choose(limit + GiB), decode=True)
    if more < now * _NOTICEABLE:
        return "One GiB more would buy nothing."
    if limit < safe < limit + GiB:
        here = 1 / planner.times.seconds(planner.choose(safe), decode=True)
        if here * _NOTICEABLE > more:  # no larger card is needed for it
            return f"{gib(safe - limit)} more would give {here:.1f} instead of {now:.1f} tok/s."
    card = "on a larger card " if limit + GiB > safe else ""
    return f"One GiB more {card}would give {more:.1f} instead of {now:.1f} tok/s."


def check_ram(plan: PlacementPlan, shape: ModelShape, work: Workload, limit: int) -> None:
    """Refuses a plan whose RAM part does not fit, and says what would."""
    short = plan.ram.total - limit
    if short <= 0:
        return
    remedies = []
    context = _context_that_fits(plan, shape, work, limit)
    if context:
        remedies.append(f"a context of {context} tokens")
    if plan.ram.weights + plan.ram.experts > short:
        share = 1 - short / (plan.weight_bytes or 1)
        if share > 0.2:
            remedies.append(f"a quantisation of at most {100 * share:.0f} % of this file's size")
    raise does_not_fit(shape.name, plan.ram.total, limit, remedies)


def does_not_fit(name: str, needed: int, limit: int, remedies: Sequence[str]) -> ModelDoesNotFitError:
    """`needed` bytes of RAM where `limit` may be used; `remedies` would fit."""
    what, short = " or ".join(remedies), needed - limit
    return ModelDoesNotFitError(
        f"{name} needs {gib(needed)} of RAM, and {gib(limit)} may be used: {gib(short)} are missing.",
        shortfall=short,
        remedy=f"This would fit: {what}." if what else "Choose a smaller model.",
    )


def _context_that_fits(plan: PlacementPlan, shape: ModelShape, work: Workload, limit: int) -> int:
    """The longest context, in steps of 512, with which the RAM part fits; 0 where none does."""
    states = [placed.item.state for placed in plan.items if placed.state_bytes and placed.device.value == "cpu"]
    rest = plan.ram.total - plan.ram.state
    low, high = 0, work.context // _MIN_CONTEXT
    while low < high:
        middle = (low + high + 1) // 2
        needed = sum(s.bytes(middle * _MIN_CONTEXT, work.value_bytes) for s in states if s)
        if rest + needed <= limit:
            low = middle
        else:
            high = middle - 1
    return low * _MIN_CONTEXT if low * _MIN_CONTEXT < work.context else 0


def gib(count: int) -> str:
    """A size for people: "6.2 GiB", below one GiB "310 MiB", nothing "0 GiB"."""
    if not count:
        return "0 GiB"
    return f"{count / GiB:.1f} GiB" if count >= GiB else f"{max(1, count >> 20)} MiB"
