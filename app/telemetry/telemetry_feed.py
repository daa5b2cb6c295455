"""Brings the probe's snapshots to the main thread, and keeps the last minute of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.background import MainThread
from app.engine_client import Arrival
from app.telemetry.history import ByteRate, History, TokenRate
from engine.messages import (
    GenerationFinished,
    GenerationStats,
    ModelLoaded,
    ModelUnloaded,
    PlacementChanged,
    PlacementRolledBack,
    ResidencyTold,
    TokenEvent,
)
from engine.telemetry.residency import ResidencySnapshot
from engine.telemetry.snapshot import TelemetrySnapshot

if TYPE_CHECKING:
    from engine.telemetry.probe import Probe


class TelemetryFeed(QObject):
    """`snapshot` and `history` are good until the next `updated`, four times a second."""

    updated = Signal()

    def __init__(self, main_thread: MainThread, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.snapshot: TelemetrySnapshot | None = None
        self.residency: ResidencySnapshot | None = None
        self.history = History()
        self.last_answer: GenerationStats | None = None  # of the model that runs
        self._tokens = TokenRate()
        self._to_device, self._to_host = ByteRate(), ByteRate()
        self._main_thread = main_thread
        self._probe: Probe | None = None

    def start(self) -> None:
        """Once the window is there: the probe's imports would keep it waiting."""
        from engine.telemetry.probe import Probe

        self._probe = Probe(lambda snapshot: self._main_thread.post(lambda: self.take(snapshot)))
        self._probe.start()

    def close(self) -> None:
        if self._probe is not None:
            self._probe.close()

    @property
    def device_bytes(self) -> int | None:
        """Used on a device that no driver tells of."""
        known = self.residency is not None and self.residency.device.startswith("emulated")
        return self.residency.used_bytes if self.residency is not None and known else None

    @property
    def speed(self) -> float | None:
        """Tokens per second now; None while nothing is generated."""
        return self._tokens.at(self.snapshot.time) if self.snapshot is not None else None

    @property
    def last_speed(self) -> float | None:
        """Decode tokens per second of the last answer."""
        return self.last_answer.decode_speed if self.last_answer is not None else None

    def take(self, snapshot: TelemetrySnapshot) -> None:
        self.snapshot = snapshot
        hits = self.residency.hit_rate if self.residency is not None else None
        traffic = self._to_device.at(snapshot.time), self._to_host.at(snapshot.time)
        self.history.add(snapshot, self.speed, hits, self.device_bytes, traffic)
        self.updated.emit()

    def handle_all(self, arrivals: list[Arrival]) -> None:
        for time, event in arrivals:
            match event:
                case TokenEvent(tokens=tokens):
                    self._tokens.add(time, tokens)
                case GenerationFinished(stats=stats) if stats is not None and stats.decode_speed:
                    self.last_answer = stats
                case ModelLoaded() | ModelUnloaded():
                    self.last_answer = self.residency = None
                case PlacementChanged(residency=residency) | PlacementRolledBack(residency=residency):
                    self._take_residency(time, residency)
                case ResidencyTold(residency=residency):
                    self._take_residency(time, residency)

    def _take_residency(self, time: float, residency: ResidencySnapshot | None) -> None:
        self.residency = residency
        if residency is not None:
            self._to_device.add(time, residency.bytes_to_device)
            self._to_host.add(time, residency.bytes_to_host)
