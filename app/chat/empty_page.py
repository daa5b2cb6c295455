"""What stands in place of an empty conversation."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.model_controller import ModelController
from app.theme.theme import Theme
from app.translation import tr

ROOM_FOR_ALL, ROOM_FOR_WORDS = 190, 110  # pixels


class EmptyPage(QWidget):
    def __init__(self, theme: Theme, models: ModelController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._models = models
        self._theme = theme
        self.mark = QLabel(self)
        self.mark.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.title = QLabel(self)
        self.title.setObjectName("emptyTitle")
        self.title.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.title.setWordWrap(True)
        self.text = QLabel(self)
        self.text.setObjectName("emptyText")
        self.text.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.text.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(40, 0, 40, 0)
        layout.addStretch(5)
        layout.addWidget(self.mark)
        layout.addSpacing(14)
        layout.addWidget(self.title)
        layout.addSpacing(4)
        layout.addWidget(self.text)
        layout.addStretch(6)
        self.setMinimumHeight(1)  # what stands below, problems above all, goes first in a low window
        models.changed.connect(self._show_state)
        models.models_found.connect(self._show_state)
        theme.changed.connect(self._show_state)
        self._show_state()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        height = event.size().height()
        self.mark.setVisible(height >= ROOM_FOR_ALL)
        for words in (self.title, self.text):
            words.setVisible(height >= ROOM_FOR_WORDS)

    def _show_state(self) -> None:
        models = self._models
        icon = self._theme.icon("tessera", "accent")
        self.mark.setPixmap(icon.pixmap(QSize(56, 56), self.devicePixelRatioF()))
        if models.info is not None or models.loading_path is not None:
            self.title.setText(tr("What is on your mind?"))
            self.text.setText(tr("Everything stays on this computer."))
        elif models.models:
            self.title.setText(tr("Choose a model to begin"))
            self.text.setText(tr("The button at the top lists the models on this computer."))
        else:
            self.title.setText(tr("No model yet"))
            self.text.setText(
                tr(
                    "Open a GGUF file with the button at the top, or put one into {folder}.",
                    folder=models.models_folder,
                )
            )
