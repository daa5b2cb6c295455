"""A change of the budget on its way, or why it was taken back; with buttons for what can be done."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.placement.words import gib
from app.translation import engine_text, sentences, tr
from engine.messages import MigrationProgress, PlacementRolledBack, RamBudgetTold

GiB, MiB = 1 << 30, 1 << 20


class MigrationStrip(QFrame):
    cancelled = Signal()
    budget_chosen = Signal(object)  # bytes
    ram_chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("notice")
        self._lower = self._more_ram = self._failed = 0  # budgets that the buttons offer
        self.words = QLabel(self)
        self.words.setWordWrap(True)
        self.rest = QLabel(self)
        self.rest.setObjectName("problemRest")
        self.rest.setWordWrap(True)
        self.bar = QProgressBar(self)
        self.bar.setObjectName("progress")
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(6)
        self.bar.setRange(0, 1000)
        self.button = QPushButton(self)
        self.button.setObjectName("secondary")
        self.button.clicked.connect(self._pressed)
        self.again = QPushButton(tr("Try again"), self)  # what failed: who took the memory may be gone
        self.again.setObjectName("secondary")
        self.again.clicked.connect(self._try_again)
        self.again.hide()
        column = QVBoxLayout()
        column.setSpacing(6)
        column.addWidget(self.words)
        column.addWidget(self.rest)
        column.addWidget(self.bar)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 10, 14, 10)
        row.setSpacing(14)
        row.addLayout(column, 1)
        row.addWidget(self.again)
        row.addWidget(self.button)
        self.hide()

    def show_progress(self, progress: MigrationProgress | None) -> None:
        """None: it has ended. An explanation of a rollback stays until the next change."""
        if progress is None:
            if self.bar.isVisibleTo(self):
                self.hide()
            return
        self._mood(serious=False)
        total, done = progress.total_bytes, progress.done_bytes
        size = gib(progress.gpu_bytes)
        moving = tr("Moving {done} of {total} for a budget of {size} …", done=gib(done), total=gib(total), size=size)
        if count := progress.experts:
            words = tr("Moving {count} experts, {done} of {total}, for a budget of {size} …")
            moving = words.format(count=f"{count:,}", done=gib(done), total=gib(total), size=size)
        self.words.setText(moving if total else tr("Changing the budget to {size} between two tokens …", size=size))
        self.bar.setValue(round(1000 * done / total) if total else 0)
        self.bar.setAccessibleName(self.words.text())
        self.button.setText(tr("Cancel"))
        self.button.show()
        self._lower = self._more_ram = 0
        self.again.hide()
        self.rest.hide()
        self.bar.show()
        self.show()

    def show_rolled_back(self, event: PlacementRolledBack) -> None:
        self._mood(serious=True)
        self._more_ram = 0
        step = GiB if event.gpu_bytes >= 2 * GiB else max(MiB, event.gpu_bytes // 8 // MiB * MiB)
        self._lower, self._failed = max(0, event.gpu_bytes - step), event.gpu_bytes
        self.words.setText(engine_text(event.error.cause))
        before = tr("The budget before, {size}, is in force again.", size=gib(event.residency.budget_bytes))
        parts = (engine_text(event.error.done), before, engine_text(event.error.remedy))
        self.rest.setText(sentences(*parts))
        self.rest.show()
        self.bar.hide()
        self.button.setVisible(event.error.kind != "PinError")  # less memory would not help
        self.again.setVisible(event.error.kind not in ("PinError", "ModelDoesNotFitError"))  # nor the same
        self.button.setText(tr("Try {size} lower", size=gib(event.gpu_bytes - self._lower).replace(".0", "")))
        self.show()

    def show_ram(self, told: RamBudgetTold) -> None:
        """A RAM budget that was refused, with the one that would do."""
        if told.error is None or told.ram is None:
            if self._more_ram:
                self.hide()
                self._more_ram = 0
            return
        self._mood(serious=True)
        self._lower, self._more_ram = 0, -(-told.ram.total // MiB) * MiB
        self.words.setText(engine_text(told.error.cause))
        self.rest.setText(sentences(tr("Nothing was changed."), engine_text(told.error.remedy)))
        self.rest.show()
        self.again.hide()
        self.bar.hide()
        self.button.setVisible(told.wanted is not None and told.ram.total > told.wanted)
        self.button.setText(tr("Allow {size}", size=gib(self._more_ram)))
        self.show()

    def _mood(self, *, serious: bool) -> None:
        if self.property("serious") != serious:
            self.setProperty("serious", serious)
            self.style().unpolish(self)
            self.style().polish(self)

    def _try_again(self) -> None:
        self.hide()
        self.budget_chosen.emit(self._failed)

    def _pressed(self) -> None:
        if self._more_ram:
            self.hide()
            self.ram_chosen.emit(self._more_ram)
        elif self._lower:
            self.hide()
            self.budget_chosen.emit(self._lower)
        else:
            self.cancelled.emit()
