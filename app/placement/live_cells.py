"""The executor's residency as arrays of the map's cells. Free of Qt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from app.placement.map_cells import DISK, RAM, MapCells, Places
from app.placement.map_colors import LEVELS, Levels, use_levels
from app.placement.memory_parts import Part, Purpose
from engine.placement.items import Device
from engine.placement.pins import Pins
from engine.placement.plan import PlacementPlan
from engine.telemetry.residency import BankResidency, RamUse, ResidencySnapshot

Heat = npt.NDArray[np.float32]
_EVERY_TOKEN = LEVELS // 2  # the level of tensors that every token uses, while anything is used


def live_places(cells: MapCells, residency: ResidencySnapshot) -> Places:
    """Where everything is."""
    on_device = {item.name for item in residency.items if item.on_device}
    return cells.of_residency(on_device, {bank.name: bank.residents for bank in residency.banks})


def with_disk(cells: MapCells, places: Places, ram: RamUse | None) -> Places:
    """What is to be in RAM, and whose pages the system has taken back, is on the disk."""
    if ram is None or not ram.on_disk:
        return places
    places[cells.mask_of(ram.on_disk) & (places == RAM)] = DISK
    return places


def wished_places(cells: MapCells, residency: ResidencySnapshot, plan: PlacementPlan, pins: Pins) -> Places:
    """Where everything would be under a plan: experts keep their slots, the most used ones get new ones, and what is
    pinned is where its owner wants it."""
    slots = {experts.bank.key: experts.slots for experts in plan.experts}
    residents = {bank.name: _kept(bank, slots.get(bank.name, 0), pins) for bank in residency.banks}
    return cells.of_residency({p.item.key for p in plan.items if p.device is Device.GPU}, residents)


def _kept(bank: BankResidency, slots: int, pins: Pins) -> Sequence[int]:
    wanted, unwanted = (pins.experts(bank.name, on_gpu=there) for there in (True, False))
    heat = np.asarray(bank.heat, np.float64)
    there = np.zeros(bank.count)
    there[list(bank.residents)] = 1
    order = np.lexsort((-heat, -there)) if len(heat) == bank.count else np.argsort(-there, kind="stable")
    if slots < len(bank.residents) and len(heat) == bank.count:
        order = np.array(sorted(bank.residents, key=lambda expert: -heat[expert]), np.int64)
    free = [expert for expert in order.tolist() if expert not in wanted and expert not in unwanted]
    return [*sorted(wanted), *free][:slots]


def live_heat(cells: MapCells, residency: ResidencySnapshot) -> Heat:
    """Recent uses of each expert, 0 for tensors."""
    heat = np.zeros((cells.rows, cells.columns), np.float32)
    start = cells.tensor_columns
    for bank in residency.banks:
        heat[bank.layer + 1, start : start + len(bank.heat)] = bank.heat
    return heat


def recorded_heat(cells: MapCells, counts: Mapping[str, Sequence[float]]) -> Heat:
    """The same from what was recorded, by bank."""
    heat = np.zeros((cells.rows, cells.columns), np.float32)
    for layer, bank in cells.banks.items():
        uses = counts.get(bank.key, ())
        heat[layer + 1, cells.tensor_columns : cells.tensor_columns + len(uses)] = uses
    return heat


def live_levels(cells: MapCells, heat: Heat, before: Heat | None) -> Levels:
    """Depth of colour; an expert whose count rose since the last look was used just now and stands out."""
    used_now = None if before is None or before.shape != heat.shape else heat > before
    levels = use_levels(heat, used_now)
    if heat.any():
        levels[:, : cells.tensor_columns] = _EVERY_TOKEN
    return levels


def device_parts(residency: ResidencySnapshot) -> tuple[Part, ...]:
    """What is really on the device, by purpose."""
    there = [item for item in residency.items if item.on_device]
    weights, state = sum(item.weight_bytes for item in there), sum(item.state_bytes for item in there)
    experts = sum(bank.slots * bank.expert_bytes for bank in residency.banks)
    parts = (
        Part(Purpose.WEIGHTS, weights),
        Part(Purpose.EXPERTS, experts),
        Part(Purpose.STATE, state),
        Part(Purpose.SCRATCH, max(0, residency.used_bytes - weights - state - experts)),
        Part(Purpose.FREE, max(0, residency.budget_bytes - residency.used_bytes)),
    )
    return tuple(part for part in parts if part.bytes)
