"""The memory page: assembles the budget, the bars, the map and the traces; the controller decides."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QVBoxLayout,
    QWidget,
)

from app.empty_state import EmptyState
from app.library.notice import Notice
from app.model_controller import ModelController
from app.placement.bars_card import BarsCard
from app.placement.budget_card import BudgetCard
from app.placement.export_button import ExportButton
from app.placement.map_card import MapCard
from app.placement.map_cells import MapCells
from app.placement.measure_line import MeasureLine
from app.placement.migration_strip import MigrationStrip
from app.placement.page_words import subtitle
from app.placement.placement_controller import THIS_MACHINE, PlacementController, planning
from app.placement.shown_places import ShownPlaces
from app.placement.spill_watch import PROBLEM as SPILL
from app.placement.timeline_card import TimelineCard
from app.problem_stack import ProblemStack
from app.problems import Problems
from app.staged_page import StagedPage
from app.telemetry.telemetry_feed import TelemetryFeed
from app.telemetry.traces_card import TracesCard
from app.theme.theme import Theme
from app.translation import tr
from engine.messages import PlacementRolledBack, TimelineTold
from engine.placement.hardware import catalogue
from engine.telemetry.residency import ResidencySnapshot

PAGE_WIDTH = 1040
NARROW = 700  # pixels of the page
BARS_AFTER = 8  # milliseconds
W = TypeVar("W", bound=QWidget)
CARDS = ("budget", "bars", "map", "timeline", "traces")


class PlacementPage(StagedPage):
    """Its cards are made when there is a plan to show: `budget`, `bars`, `map`, `timeline`, `traces`, and `export`."""

    library_requested = Signal()

    def __init__(
        self,
        theme: Theme,
        controller: PlacementController,
        models: ModelController,
        telemetry: TelemetryFeed,
        problems: Problems,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Memory"))
        self._theme, self._controller, self._models = theme, controller, models
        self._telemetry = telemetry
        self._live = controller.live
        self._cells: MapCells | None = None
        self._places = ShownPlaces()
        body = self.body
        self.title = QLabel(tr("Memory"), body)
        self.title.setObjectName("pageTitle")
        self.subtitle = MeasureLine(controller.own_machine, body)
        self.simulated = QLabel(tr("simulated"), body)
        self.simulated.setObjectName("pill")
        self.simulated.setProperty("mood", "fair")
        self.machine_label = QLabel(tr("Show it on"), body)
        self.machine = QComboBox(body)
        self.machine.setAccessibleName(tr("Show this model on"))
        self.machine.setMinimumWidth(110)  # its words are cut before the page grows too wide
        self.notice = Notice(body)
        self.empty = EmptyState(theme, body, icon="memory")
        self.spill = ProblemStack(problems, theme, body, only=SPILL)
        self.strip = MigrationStrip(body)
        self._rooms = {name: QHBoxLayout() for name in (*CARDS, "export")}
        self._bars_due = QTimer(self)  # of a preview: in another frame than the map
        self._bars_due.setSingleShot(True)
        self._bars_due.setInterval(BARS_AFTER)
        self._bars_due.timeout.connect(self._show_now)
        self._lay_out()
        self._connect()
        controller.start()
        if controller.answer is not None:
            self._show_outlook()
        else:  # the first plan of a large model takes a moment
            self._show_missing(planning() if controller.wish is not None else "")

    def _lay_out(self) -> None:
        body = self.body
        body.setMaximumWidth(PAGE_WIDTH)
        head = QHBoxLayout()
        head.setSpacing(10)
        head.addWidget(self.title)
        head.addWidget(self.simulated, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addStretch(1)
        head.addWidget(self.machine_label, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addWidget(self.machine, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addLayout(self._rooms["export"])
        layout = QVBoxLayout(body)
        layout.setContentsMargins(28, 26, 28, 28)
        layout.setSpacing(14)
        layout.addLayout(head)
        layout.addWidget(self.subtitle)
        layout.addWidget(self.notice)
        layout.addWidget(self.spill)
        layout.addWidget(self.strip)
        for name in CARDS:
            layout.addLayout(self._rooms[name])
        layout.addWidget(self.empty, 1)
        layout.addStretch(0)

    def _connect(self) -> None:
        controller = self._controller
        controller.outlook_changed.connect(self._show_outlook)
        controller.previewed.connect(self._show_preview)
        controller.model_missing.connect(self._show_missing)
        self.empty.pressed.connect(self.library_requested)
        self.machine.activated.connect(lambda: controller.set_machine(self.machine.currentData()))
        self._live.changed.connect(self._show_live)
        self._live.progressed.connect(lambda: self.strip.show_progress(self._live.progress))
        self._live.rolled_back.connect(self._show_rolled_back)
        self._live.timeline_told.connect(self._show_timeline)
        self._live.ram_told.connect(self.strip.show_ram)
        self.strip.cancelled.connect(self._live.cancel)
        self.strip.budget_chosen.connect(lambda budget: self.budget.choose(budget))
        self.strip.ram_chosen.connect(lambda budget: self.budget.choose_ram(budget))
        self._telemetry.updated.connect(self._show_now)

    # --- its cards --------------------------------------------------------------------------------------------

    @cached_property
    def budget(self) -> BudgetCard:
        card, controller = self._put("budget", BudgetCard(self._theme, self.body)), self._controller
        card.set_narrow(self.viewport().width() < NARROW)
        card.changed.connect(controller.set_budget)
        card.settled.connect(controller.apply)
        card.context_changed.connect(controller.set_context)
        card.ram_changed.connect(controller.set_ram)
        card.ram_settled.connect(controller.apply_ram)
        card.reload_requested.connect(controller.load_with_context)
        return card

    @cached_property
    def bars(self) -> BarsCard:
        return self._put("bars", BarsCard(self._theme, self.body))

    @cached_property
    def map(self) -> MapCard:
        card = self._put("map", MapCard(self._theme, self.body))
        card.pin_requested.connect(self._controller.set_pin)
        return card

    @cached_property
    def timeline(self) -> TimelineCard:
        return self._put("timeline", TimelineCard(self._theme, self._controller.background, self.body))

    @cached_property
    def traces(self) -> TracesCard:
        return self._put("traces", TracesCard(self._theme, self._telemetry, self.body))

    @cached_property
    def export(self) -> ExportButton:
        button = ExportButton(self.body, self.map, self.timeline, self._name, self._controller.background, self.body)
        button.failed.connect(self.notice.show_error)
        button.written.connect(self.notice.hide)
        return self._put("export", button)

    def _put(self, name: str, part: W) -> W:
        part.hide()
        self._rooms[name].addWidget(part)
        return part

    @property
    def _cards(self) -> list[QWidget]:
        """Those that have been made."""
        return [getattr(self, name) for name in CARDS if name in self.__dict__]

    def parts(self) -> list[QWidget]:
        if self._cells is None:
            return []
        bars, card, traces = self.bars, self.map, self.traces.views.values()
        return [self.budget.slider, bars.gpu, bars.ram, card.view.viewport(), card.legend, self.timeline.view, *traces]

    def fit(self, width: int) -> None:
        narrow = width < NARROW
        if "budget" in self.__dict__:
            self.budget.set_narrow(narrow)
        side = 14 if narrow else 28
        self.body.layout().setContentsMargins(side, 26, side, 28)
        self.machine_label.setVisible(not narrow and self.machine.isVisibleTo(self))

    # --- what is shown ----------------------------------------------------------------------------------------

    def _show_missing(self, reason: str) -> None:
        self.end_turns()
        for card in self._cards:
            card.hide()
        for part in (self.simulated, self.subtitle, self.machine, self.machine_label):
            part.hide()
        if "export" in self.__dict__:
            self.export.hide()
        self.notice.setVisible(bool(reason))
        self.empty.setVisible(not reason)
        if reason:
            self.notice.show_words(reason)
            return
        words = tr(
            "Load a model, and this page shows where each of its tensors and experts lies and what memory would buy."
        )
        self.empty.show_words(tr("No model is loaded"), words, tr("Open the library"))

    def _show_outlook(self) -> None:
        if all(name in self.__dict__ and getattr(self, name).isVisibleTo(self.body) for name in CARDS):
            for _ in self._fill():
                pass
        else:
            self.take_turns(self._reveal())

    def _reveal(self) -> Iterator[None]:
        """Making a card, and styling and laying it out for the first time, take most of a frame each."""
        if not self.machine.count():
            self.machine.addItem(tr("This machine"), THIS_MACHINE)
            for gpu in catalogue.gpus():
                self.machine.addItem(gpu.name, gpu.name)
            yield
        for name in (*CARDS, "export"):
            if name not in self.__dict__:
                getattr(self, name)
                yield
        yield from self._fill()
        for card in self._cards:
            if not card.isVisibleTo(self.body):
                card.show()
                yield
        self._show_plan()  # whatever came meanwhile

    def _fill(self) -> Iterator[None]:
        """Everything of an outlook, in parts."""
        answer = self._controller.answer
        if answer is None:
            return
        info = self._models.info
        outlook, machine = answer.outlook, answer.machine
        self.notice.hide()
        self.empty.hide()
        for part in (self.machine, self.export, self.subtitle):
            part.show()
        self.machine_label.setVisible(self.viewport().width() >= NARROW)
        self.machine.setCurrentIndex(max(0, self.machine.findData(answer.wish.machine)))
        self.simulated.setText(tr("emulated") if machine.emulated else tr("simulated"))
        self.simulated.setVisible(machine.simulated or machine.emulated)
        self.subtitle.show_words(subtitle(self._name(), answer), is_measured=machine.measured)
        yield
        self.budget.show_outlook(answer, info.context_length if info is not None else outlook.work.context)
        yield
        if self._cells is not answer.cells:
            self._cells = answer.cells
            self.map.show_cells(self._cells)
        yield
        self._show_plan()
        yield

    def _name(self) -> str:
        """Of the model."""
        if self._models.info is not None:
            return self._models.info.name
        return Path(self._controller.answer.wish.path).stem if self._controller.answer is not None else "tessera"

    def _show_preview(self) -> None:
        if not self.is_under_way:  # then the plan is shown at its end
            self._show_plan()

    def _show_plan(self) -> None:
        answer = self._controller.answer
        if answer is None or self._cells is not answer.cells:
            return
        self.budget.show_preview(answer)
        self._show_measured()
        self.map.show_pins(answer.wish.pins)
        plan = answer.preview.plan
        if plan is None:
            return
        self.map.show_reasons(plan)
        if (residency := self._shown_residency) is not None:
            self.budget.slider.show_committed(residency.budget_bytes)
        self._show_places()
        self._bars_due.start()
        if residency is None or residency.budget_bytes != answer.preview.budget:
            self.timeline.show_seen(None)
        self.timeline.show_answer(answer)

    @property
    def _shown_residency(self) -> ResidencySnapshot | None:
        """The executor's own account, where what is shown is what runs."""
        answer = self._controller.answer
        return self._live.residency if answer is not None and answer.wish.is_live else None

    def _show_places(self) -> None:
        answer = self._controller.answer
        if answer is None or self._cells is not answer.cells or answer.preview.plan is None:
            return
        ram = None if answer.machine.simulated else self._live.ram
        self._places.show(self.map, answer, answer.preview.plan, self._shown_residency, ram)

    def _show_measured(self) -> None:
        """Only beside the placement that was measured."""
        answer, stats = self._controller.answer, self._telemetry.last_answer
        if answer is None or stats is None or answer.machine.simulated:
            return
        residency = self._shown_residency
        if residency is None or residency.budget_bytes == answer.preview.budget:
            self.budget.show_measured(stats)

    def _show_live(self) -> None:
        residency = self._shown_residency
        if residency is None or self._cells is None:
            return
        self.budget.slider.show_committed(residency.budget_bytes)
        self._show_places()
        self._show_now()

    def _show_timeline(self, told: TimelineTold) -> None:
        """What really ran, beside the placement that really is."""
        answer, residency = self._controller.answer, self._shown_residency
        if self._cells is None:
            return
        if answer is None or residency is None or answer.preview.budget != residency.budget_bytes:
            self.timeline.show_seen(None)
            return
        self.timeline.show_seen(told, tr("emulated") if answer.machine.emulated else tr("measured"))

    def _show_rolled_back(self, event: PlacementRolledBack) -> None:
        self.strip.show_rolled_back(event)
        self._controller.set_budget(event.residency.budget_bytes)

    def _show_now(self) -> None:
        """Bars: estimate beside actual. With every sample, and every account of the executor, while the page shows."""
        answer = self._controller.answer
        if answer is None or answer.preview.plan is None or self._cells is not answer.cells or not self.isVisible():
            return
        self._live.ask()
        if self.timeline.unfold.isChecked():
            self._live.ask_timeline()
        self._show_measured()
        ram, residency = self._live.ram, self._shown_residency
        if residency is None and ram is not None and ram.on_disk != self._places.on_disk:
            self._show_places()
        snapshot = self._telemetry.snapshot
        gpu = snapshot.gpu if snapshot is not None else None
        if self._live.is_emulated:  # its memory is nobody else's, whatever card is here too
            self._controller.set_taken(0)
        elif gpu is not None and gpu.used is not None:
            ours = gpu.ours
            if ours is None:  # WDDM does not tell; we know what we hold
                ours = residency.used_bytes if residency is not None else 0
            self._controller.set_taken(max(0, gpu.used - ours))
        self.bars.show_memory(answer, answer.preview.plan, residency, ram, snapshot)
