"""The running model's placement: what the engine says is on the device, and changes of the budget on their way."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.engine_client import Arrival, EngineClient
from app.settings.values import Settings
from engine.messages import (
    AskResidency,
    AskTimeline,
    Event,
    MigrationProgress,
    ModelLoaded,
    ModelUnloaded,
    PlacementChanged,
    PlacementRolledBack,
    RamBudgetTold,
    ResidencyTold,
    SetBudget,
    SetPins,
    SetRamBudget,
    TimelineTold,
)
from engine.placement.pins import Pin
from engine.telemetry.residency import RamUse, ResidencySnapshot

MiB = 1 << 20


class LivePlacement(QObject):
    """`residency` is None while no model runs on a device beside the processor, `ram` while none of our engine runs."""

    changed = Signal()  # residency
    progressed = Signal()  # progress
    rolled_back = Signal(object)  # PlacementRolledBack
    ram_told = Signal(object)  # RamBudgetTold
    timeline_told = Signal(object)  # TimelineTold

    def __init__(self, client: EngineClient, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.residency: ResidencySnapshot | None = None
        self.ram: RamUse | None = None
        self.progress: MigrationProgress | None = None
        self.seconds: float | None = None  # that the last change took
        self._client = client
        self._settings = settings
        self._has_device = self._is_native = False
        self._asked = False
        self._asked_timeline = False

    @property
    def overhead(self) -> int:
        """Bytes on the device that are neither weights nor caches."""
        return 0 if self.residency is None else max(0, self.residency.used_bytes - placed_bytes(self.residency))

    @property
    def is_emulated(self) -> bool:
        return self.residency is not None and self.residency.device.startswith("emulated")

    def set_budget(self, budget: int) -> None:
        """Bytes. Applied between two tokens; a wish during a migration waits for its end."""
        if self._has_device:
            self.progress = MigrationProgress(budget, 0, 0)
            self._client.send(SetBudget(budget))
            self.progressed.emit()

    def set_ram(self, budget: int | None) -> None:
        """Bytes of RAM; None: what the machine has."""
        if self._is_native:
            self._client.send(SetRamBudget(budget))

    def set_pins(self, pins: frozenset[Pin]) -> None:
        if self._has_device:
            self._client.send(SetPins(pins))

    def cancel(self) -> None:
        """Back to the budget that was in force."""
        if self.residency is not None and self.progress is not None:
            self.set_budget(self.residency.budget_bytes)

    def ask(self) -> None:
        """For a fresh residency; one question at a time."""
        if self._is_native and not self._asked:
            self._asked = True
            self._client.send(AskResidency())

    def ask_timeline(self) -> None:
        """For what ran when in a step; one question at a time."""
        if self._has_device and not self._asked_timeline:
            self._asked_timeline = True
            self._client.send(AskTimeline())

    def handle_all(self, arrivals: list[Arrival]) -> None:
        for _, event in arrivals:
            self._handle(event)

    def _handle(self, event: Event) -> None:
        match event:
            case ModelLoaded(info=info):
                self._has_device, self._is_native = bool(info.device), info.engine == "native"
                self.progress, self.ram, self._asked, self._asked_timeline = None, None, False, False
                self._show(None)
                self.ask()
            case ModelUnloaded():
                self._has_device = self._is_native = False
                self.progress = self.ram = None
                self._show(None)
            case ResidencyTold(residency=residency, ram=ram):
                self._asked, self.ram = False, ram
                self._show(residency if self._has_device else None)
            case RamBudgetTold(wanted=wanted, ram=ram, error=error):
                self.ram = ram
                if error is None:
                    self._settings.set("ram_budget", 0 if wanted is None else wanted // MiB)
                self.ram_told.emit(event)
            case TimelineTold():
                self._asked_timeline = False
                self.timeline_told.emit(event)
            case MigrationProgress():
                self.progress = event
                self.progressed.emit()
            case PlacementChanged(residency=residency, seconds=seconds):
                self.progress, self.seconds = None, seconds
                self._settings.set("gpu_budget", residency.budget_bytes // MiB)
                self._show(residency)
                self.progressed.emit()
            case PlacementRolledBack(residency=residency):
                self.progress = None
                self._show(residency)
                self.progressed.emit()
                self.rolled_back.emit(event)

    def _show(self, residency: ResidencySnapshot | None) -> None:
        if residency is not self.residency:
            self.residency = residency
            self.changed.emit()


def placed_bytes(residency: ResidencySnapshot) -> int:
    """Weights, caches and slots on the device."""
    items = sum(item.weight_bytes + item.state_bytes for item in residency.items if item.on_device)
    return items + sum(bank.slots * bank.expert_bytes for bank in residency.banks)
