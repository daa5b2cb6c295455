"""TelemetrySnapshot: what the machine is doing at one moment. None stands for what the system does not tell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GPUReading:
    """One card. Bytes, shares 0..1, bytes per second seen from the card: `received` came from RAM.

    `ours`: memory that the driver charges to this process and its children.
    """

    name: str
    total: int | None
    used: int | None
    ours: int | None
    load: float | None
    received: float | None
    sent: float | None
    is_unified: bool = False  # it has no memory of its own: what it uses is RAM
    is_slice: bool = False  # a MIG instance or a card split into them: utilisation is not told per slice


@dataclass(frozen=True, slots=True)
class TelemetrySnapshot:
    """`time`: time.monotonic(). RAM of this process and its children: `held` is ours alone and stays, `mapped` is
    page cache of files in use (a model's weights), which the system takes back when it needs to."""

    time: float
    ram_total: int
    ram_used: int  # by everything, page cache not counted
    held: int
    mapped: int
    cpu_load: float  # 0..1 of all cores, by everything
    own_cpu: float  # 0..1 of all cores, by this process and its children
    disk_read: float | None  # bytes per second, by this process
    gpus: tuple[GPUReading, ...] = ()
    gpu_problem: str = ""  # why there are none

    @property
    def others(self) -> int:
        """RAM of other programs."""
        return max(0, self.ram_used - self.held)

    @property
    def gpu(self) -> GPUReading | None:
        """The card with the most memory: one model runs on one card."""
        return max(self.gpus, key=lambda gpu: gpu.total or 0, default=None)
