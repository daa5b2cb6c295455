"""Residencies as an engine would tell them: of a published shape under a plan, with experts used as texts use them."""

from __future__ import annotations

import numpy as np

from engine.placement.budget import Budget
from engine.placement.costs import Workload
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.items import Device
from engine.placement.planner import Planner
from engine.placement.shape import ModelShape
from engine.telemetry.residency import BankResidency, ItemResidency, ResidencySnapshot


def residency_of(shape: ModelShape, hardware: HardwareProfile, budget: int, seed: int = 0) -> ResidencySnapshot:
    """In each bank the most used experts are resident."""
    random = np.random.default_rng(seed)
    plan = Planner(shape, hardware, Workload()).plan(Budget(budget))
    items = tuple(
        ItemResidency(
            p.item.key, p.item.kind.value, p.item.layer, p.device is Device.GPU, p.item.bytes, p.state_bytes, p.reason
        )
        for p in plan.items
    )
    banks = []
    for placed in plan.experts:
        bank = placed.bank
        heat = random.lognormal(0, 1.6, bank.count)
        residents = tuple(sorted(np.argsort(-heat)[: placed.slots].tolist()))
        banks.append(
            BankResidency(
                bank.key,
                bank.layer,
                bank.count,
                bank.used,
                placed.slots,
                bank.expert_bytes,
                residents,
                tuple(heat.tolist()),
                placed.reason,
            )
        )
    return ResidencySnapshot(
        device="emulated (fast kernels)",
        budget_bytes=budget,
        used_bytes=plan.gpu.total,
        items=items,
        banks=tuple(banks),
        hit_rate=plan.predicted.hit_rate,
        predicted_decode=plan.predicted.decode,
    )
