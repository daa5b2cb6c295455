"""Sentences of the memory page about what it shows. Free of widgets."""

from __future__ import annotations

from app.placement.placement_controller import Answer
from app.translation import engine_text, sentences, tr
from engine.placement.hardware.load import QUIET
from engine.placement.heat import RecordedHeat
from engine.placement.plan import PlacementPlan

_AS_PLANNED = 1.15  # times as long, or as fast


def subtitle(name: str, answer: Answer) -> str:
    """The model, the machine, and where its rates come from."""
    gpu, cpu = answer.outlook.hardware.gpu, answer.outlook.hardware.cpu
    where = tr("{gpu} with {cpu}", gpu=engine_text(gpu.name), cpu=cpu.name) if gpu is not None else cpu.name
    source = tr("rates from datasheets")
    if answer.machine.measured:
        busy = answer.outlook.hardware.others_load > QUIET
        source = tr("rates measured here while other programs were busy") if busy else tr("rates measured here")
        if answer.machine.simulated:
            source = tr("processor measured here, card from its datasheet")
    return f"{name}  ·  {where}  ·  {source}"


def plan_hint(plan: PlacementPlan, recorded: RecordedHeat | None) -> str:
    """What the map of a plan stands for, where that is not plain."""
    if recorded is not None:
        tokens = f"{recorded.tokens:,.0f}"
        return tr("Planned with the use of the experts in the last answers, about {tokens} tokens.", tokens=tokens)
    if any(0 < experts.slots < experts.bank.count and not experts.resident for experts in plan.experts):
        return tr("A layer's first cells stand for its slots on the GPU: whichever experts were used last fill them.")
    return ""


def pace_words(answer: Answer) -> str:
    """Why what runs was planned anew: a side that is not as fast as its rates say."""
    if not answer.wish.is_live:
        return ""
    words = []
    for lane, factor in answer.wish.pace:
        times = f"{factor:,.0f}" if factor >= 10 else f"{factor:.1f}" if factor >= 1 else f"{factor:.2f}"
        values = {"times": times, "device": tr("the GPU") if lane == "GPU" else tr("the processor")}
        if factor > _AS_PLANNED:
            words.append(tr("Measured slower than planned: {device} takes {times} times as long.", **values))
            if lane == "GPU":
                words.append(tr("What gains nothing from it then moved to RAM."))
        elif factor < 1 / _AS_PLANNED:
            words.append(tr("Measured faster than planned: {device} takes {times} times as long.", **values))
    return sentences(*words)
