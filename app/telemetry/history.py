"""The last minute of readings, by trace. Free of Qt."""

from __future__ import annotations

from collections import deque
from enum import Enum

from engine.telemetry.snapshot import TelemetrySnapshot

SECONDS = 60
PER_SECOND = 4


class Trace(Enum):
    VRAM = "GPU memory"
    RAM = "RAM"
    GPU = "GPU"
    CPU = "Processor"
    RECEIVED = "PCIe to GPU"
    SENT = "PCIe to RAM"
    DISK = "Disk reads"
    HITS = "Hit rate"
    SPEED = "Tokens"


class TokenRate:
    """Tokens per second over the last second of arrivals; None while nothing is generated."""

    def __init__(self, window: float = 1.0) -> None:
        self._window = window
        self._arrivals: deque[tuple[float, int]] = deque()
        self._count = 0  # tokens of these

    def add(self, time: float, tokens: int) -> None:
        self._arrivals.append((time, tokens))
        self._count += tokens

    def at(self, now: float) -> float | None:
        while self._arrivals and self._arrivals[0][0] < now - self._window:
            self._count -= self._arrivals.popleft()[1]
        return self._count / self._window if self._count else None


class ByteRate:
    """Bytes per second from totals that come now and then; None until there are two, and when none comes any more."""

    def __init__(self, window: float = 2.5) -> None:
        self._window = window
        self._totals: deque[tuple[float, int]] = deque()

    def add(self, time: float, total: int) -> None:
        if self._totals and total < self._totals[-1][1]:  # another model
            self._totals.clear()
        self._totals.append((time, total))

    def at(self, now: float) -> float | None:
        while self._totals and self._totals[0][0] < now - self._window:
            self._totals.popleft()
        if len(self._totals) < 2:
            return None
        (first, low), (last, high) = self._totals[0], self._totals[-1]
        return (high - low) / (last - first) if last > first else None


class History:
    """Values of every trace, oldest first; None where there was no reading."""

    def __init__(self) -> None:
        self.values: dict[Trace, deque[float | None]] = {trace: deque(maxlen=SECONDS * PER_SECOND) for trace in Trace}

    def add(
        self,
        snapshot: TelemetrySnapshot,
        speed: float | None,
        hit_rate: float | None,
        device_bytes: int | None = None,
        traffic: tuple[float | None, float | None] = (None, None),
    ) -> None:
        """`device_bytes`: used on a device of our own that no driver knows of (the emulated one). `traffic`: bytes per
        second to the device and back, as our own executor counts them; they go before what the driver says."""
        gpu = snapshot.gpu
        vram = device_bytes if device_bytes is not None else (gpu.used if gpu is not None else None)
        new = {
            Trace.VRAM: vram,
            Trace.RAM: snapshot.held + snapshot.mapped,
            Trace.GPU: gpu.load if gpu is not None else None,
            Trace.CPU: snapshot.cpu_load,
            Trace.RECEIVED: _first(traffic[0], gpu.received if gpu is not None else None),
            Trace.SENT: _first(traffic[1], gpu.sent if gpu is not None else None),
            Trace.DISK: snapshot.disk_read,
            Trace.HITS: hit_rate,
            Trace.SPEED: speed,
        }
        for trace, value in new.items():
            self.values[trace].append(value)

    def latest(self, trace: Trace) -> float | None:
        values = self.values[trace]
        return values[-1] if values else None


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
