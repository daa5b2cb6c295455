"""The budget slider, small, for the chat's side panel: the same controller, the same effect."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.placement.budget_slider import BudgetSlider
from app.placement.placement_controller import PlacementController
from app.placement.words import gib, speed_words
from app.theme.theme import Theme
from app.translation import tr

MiB = 1 << 20


class SmallBudget(QFrame):
    """Hidden where there is no GPU to speak of, real or shown."""

    details_requested = Signal()

    def __init__(self, theme: Theme, controller: PlacementController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self.title = QLabel(tr("GPU memory"), self)
        self.title.setObjectName("settingTitle")
        self.details = QPushButton(tr("Details"), self)
        self.details.setObjectName("link")
        self.details.clicked.connect(self.details_requested)
        self.slider = BudgetSlider(theme, self, small=True)
        self.words = QLabel(self)
        self.words.setObjectName("settingHelp")
        head = QHBoxLayout()
        head.addWidget(self.title)
        head.addStretch(1)
        head.addWidget(self.details)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 6, 14, 8)
        layout.setSpacing(2)
        layout.addLayout(head)
        layout.addWidget(self.slider)
        layout.addWidget(self.words)
        self.slider.valueChanged.connect(lambda value: controller.set_budget(value * MiB))
        self.slider.settled.connect(lambda value: controller.apply(value * MiB))
        controller.outlook_changed.connect(self._show_outlook)
        controller.previewed.connect(self._show_preview)
        controller.live.changed.connect(self._show_preview)
        controller.model_missing.connect(lambda _reason: self._show_outlook())
        self._show_outlook()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._controller.start()

    def _show_outlook(self) -> None:
        answer = self._controller.answer
        has_gpu = answer is not None and answer.outlook.marks.card > 0
        for part in (self.title, self.details, self.slider, self.words):
            part.setVisible(has_gpu)
        if answer is not None and has_gpu:
            self.slider.show_marks(answer.outlook.marks, answer.outlook.curve)
            self._show_preview()

    def _show_preview(self) -> None:
        answer = self._controller.answer
        if answer is None or answer.preview.plan is None:
            return
        if not self.slider.isSliderDown():
            self.slider.show_budget(answer.preview.budget)
        predicted = answer.preview.plan.predicted.decode
        self.slider.show_speed(answer.preview.budget, predicted)
        live = self._controller.live.residency
        if live is not None and answer.wish.is_live:
            self.slider.show_committed(live.budget_bytes)
        words = tr("{size}, {speed} predicted", size=gib(answer.preview.budget), speed=speed_words(predicted))
        self.words.setText(tr("simulated: {words}", words=words) if answer.machine.simulated else words)
