"""What stands in place of an empty conversation."""

from __future__ import annotations

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from app.empty_state import EmptyState
from app.model_controller import ModelController
from app.theme.theme import Theme
from app.translation import tr

ROOM_FOR_BUTTON, ROOM_FOR_ALL, ROOM_FOR_WORDS = 260, 190, 110  # pixels


class EmptyPage(EmptyState):
    def __init__(self, theme: Theme, models: ModelController, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent)
        self._models = models
        self.setMinimumHeight(1)  # what stands below, problems above all, goes first in a low window
        models.changed.connect(self._show_state)
        models.models_found.connect(self._show_state)
        self._show_state()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit(event.size().height())

    def _fit(self, height: int) -> None:
        self.button.setVisible(bool(self.button.text()) and height >= ROOM_FOR_BUTTON)
        self.mark.setVisible(height >= ROOM_FOR_ALL)
        for words in (self.title, self.text):
            words.setVisible(height >= ROOM_FOR_WORDS)

    def _show_state(self) -> None:
        models = self._models
        if models.info is not None or models.loading_path is not None:
            self.show_words(tr("What is on your mind?"), tr("Everything stays on this computer."))
        elif models.models:
            self.show_words(
                tr("Choose a model to begin"), tr("The button at the top lists the models on this computer.")
            )
        else:
            where = tr(
                "Find one in the library, open a GGUF file with the button at the top, or put one into {folder}.",
                folder=models.models_folder,
            )
            self.show_words(tr("No model yet"), where, tr("Discover models"))
        self._fit(self.height())
