"""The card of the two memories, each as a pair of bars."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app.placement.live_cells import device_parts
from app.placement.memory_bar import MemoryBar
from app.placement.memory_parts import gpu_bar, held_parts, ram_bar
from app.placement.placement_controller import Answer
from app.theme.theme import Theme
from app.translation import tr
from engine.placement.plan import PlacementPlan
from engine.telemetry.residency import RamUse, ResidencySnapshot
from engine.telemetry.snapshot import TelemetrySnapshot


class BarsCard(QFrame):
    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.gpu = MemoryBar(theme, tr("GPU memory"), "gpu", self)
        self.ram = MemoryBar(theme, tr("RAM"), "ram", self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 16, 20, 12)
        layout.setSpacing(12)
        layout.addWidget(self.gpu)
        layout.addWidget(self.ram)

    def show_memory(
        self,
        answer: Answer,
        plan: PlacementPlan,
        residency: ResidencySnapshot | None,
        ram: RamUse | None,
        snapshot: TelemetrySnapshot | None,
    ) -> None:
        """Estimate beside actual. `plan` is that of the answer; what is told of now is None where it is not known, or
        of another machine."""
        gpu, cpu = answer.outlook.hardware.gpu, answer.outlook.hardware.cpu
        self.gpu.setVisible(gpu is not None)
        if gpu is not None:
            now = device_parts(residency) if residency is not None else ()
            self.gpu.show_bar(gpu_bar(plan, gpu.memory_bytes, answer.wish.taken, now))
        here = snapshot if snapshot is not None and not answer.machine.simulated else None
        others, held = (here.others, held_parts(here, ram)) if here else (0, ())
        self.ram.show_bar(ram_bar(plan, cpu.memory_bytes, others, held, budget=answer.wish.ram or 0))
