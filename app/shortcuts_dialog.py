"""The list of keys, on F1."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QGridLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.translation import tr
from app.window_commands import WindowCommand, writing_keys


class ShortcutsDialog(QDialog):
    def __init__(self, commands: list[WindowCommand], parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Keyboard shortcuts"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.resize(460, 520)
        body = QWidget(self)
        body.setObjectName("pageBody")
        grid = QGridLayout(body)
        grid.setContentsMargins(4, 4, 4, 4)
        grid.setHorizontalSpacing(24)
        grid.setVerticalSpacing(10)
        grid.setColumnStretch(0, 1)
        rows = [(command.keys_text(), command.title) for command in commands if command.keys]
        for number, (keys, words) in enumerate([*rows, *writing_keys()]):
            grid.addWidget(QLabel(words, body), number, 0)
            label = QLabel(keys, body)
            label.setObjectName("keys")
            grid.addWidget(label, number, 1, Qt.AlignmentFlag.AlignRight)
        grid.setRowStretch(grid.rowCount(), 1)
        scroll = QScrollArea(self)
        scroll.setAccessibleName(self.windowTitle())
        scroll.setObjectName("page")
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setWidget(body)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 18, 20, 16)
        layout.addWidget(scroll)
        layout.addWidget(buttons)
