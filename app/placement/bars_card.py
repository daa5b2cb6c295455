"""The card of the two memories, each as a pair of bars."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app.placement.memory_bar import MemoryBar
from app.theme.theme import Theme
from app.translation import tr


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
