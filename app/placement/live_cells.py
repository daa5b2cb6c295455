"""The executor's residency as arrays of the map's cells. Free of Qt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from app.placement.map_cells import DISK, GPU, RAM, MapCells, Places
from app.placement.map_colors import LEVELS, Levels, use_levels
from app.placement.memory_parts import Part, Purpose
from engine.placement.items import Device
from engine.placement.pins import Pins
from engine.placement.plan import PlacementPlan
from engine.telemetry.residency import RamUse, ResidencySnapshot

Heat = npt.NDArray[np.float32]
_EVERY_TOKEN = LEVELS // 2  # the level of tensors that every token uses, while anything is used


class LiveCells:
    """One residency on the map. Made once per residency: what a preview needs of it is sorted by then."""

    def __init__(self, cells: MapCells, residency: ResidencySnapshot) -> None:
        self.cells, self.residency = cells, residency
        self.heat = np.zeros((cells.rows, cells.columns), np.float32)  # recent uses of each expert, 0 for tensors
        start = cells.tensor_columns
        for bank in residency.banks:
            self.heat[bank.layer + 1, start : start + len(bank.heat)] = bank.heat

    @cached_property
    def places(self) -> Places:
        """Where everything is."""
        on_device = {item.name for item in self.residency.items if item.on_device}
        return self.cells.of_residency(on_device, {bank.name: bank.residents for bank in self.residency.banks})

    def wished(self, plan: PlacementPlan, pins: Pins) -> Places:
        """Where everything would be under a plan: experts keep their slots, the most used ones get new ones, and what
        is pinned is where its owner wants it."""
        slots = {experts.bank.key: experts.slots for experts in plan.experts}
        room = np.zeros((self.cells.rows, 1), np.int64)
        pinned = {}
        for bank in self.residency.banks:
            count = slots.get(bank.name, 0)
            wanted, unwanted = (pins.experts(bank.name, on_gpu=there) for there in (True, False)) if pins else ((), ())
            if wanted or unwanted:
                order = np.argsort(self._ranks[bank.layer + 1])[: bank.count].tolist()
                free = [expert for expert in order if expert not in wanted and expert not in unwanted]
                pinned[bank.name] = [*sorted(wanted), *free][:count]
            else:
                room[bank.layer + 1] = count
        places = self.cells.of_residency({p.item.key for p in plan.items if p.device is Device.GPU}, pinned)
        places[:, self.cells.tensor_columns :][self._ranks < room] = GPU
        return places

    @cached_property
    def _ranks(self) -> npt.NDArray[np.int64]:
        """[rows, experts]: before how many others of its layer an expert gives up its slot, or gets none: those that
        are there go first, then those used most."""
        start = self.cells.tensor_columns
        keys = self.heat[:, start:].astype(np.float64)
        ahead = float(keys.max(initial=0.0)) + 1
        for bank in self.residency.banks:
            keys[bank.layer + 1, list(bank.residents)] += ahead
            keys[bank.layer + 1, bank.count :] = -1
        order = np.argsort(-keys, axis=1, kind="stable")
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.arange(order.shape[1])[None, :], axis=1)
        return ranks


def with_disk(cells: MapCells, places: Places, ram: RamUse | None) -> Places:
    """What is to be in RAM, and whose pages the system has taken back, is on the disk."""
    if ram is None or not ram.on_disk:
        return places
    return np.where(cells.mask_of(ram.on_disk) & (places == RAM), np.uint8(DISK), places)


def recorded_heat(cells: MapCells, counts: Mapping[str, Sequence[float]]) -> Heat:
    """Recent uses of each expert as they were recorded, by bank; 0 for tensors."""
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
