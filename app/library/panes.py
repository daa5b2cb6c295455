"""Two panes side by side; one above the other where the window is too narrow for that."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSplitter, QWidget

NARROW = 640


class Panes(QSplitter):
    def __init__(self, first: QWidget, second: QWidget, sizes: tuple[int, int], parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setObjectName("splitter")
        self.setHandleWidth(1)
        self.setChildrenCollapsible(False)
        for pane in (first, second):
            pane.setMinimumWidth(260)
            self.addWidget(pane)
        self.setSizes(list(sizes))
        self.setStretchFactor(0, 1)
        self.setStretchFactor(1, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        wanted = Qt.Orientation.Vertical if self.width() < NARROW else Qt.Orientation.Horizontal
        if wanted != self.orientation():
            self.setOrientation(wanted)
        super().resizeEvent(event)
