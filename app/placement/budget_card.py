"""The card of the budget: slider and typed value, predicted speeds, and beside it RAM and context with their cost."""

from __future__ import annotations

import math

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QBoxLayout,
    QDoubleSpinBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.placement.budget_slider import BudgetSlider
from app.placement.figures import Figure
from app.placement.page_words import pace_words
from app.placement.placement_controller import Answer
from app.placement.words import gib, not_known, percent, speed
from app.theme.theme import Theme
from app.translation import engine_text, sentences, tr
from engine.messages import GenerationStats

GiB, MiB = 1 << 30, 1 << 20
SETTLE = 500  # milliseconds without a further key before a typed value is applied


class BudgetCard(QFrame):
    changed = Signal(object)  # budget in bytes (too large for an int of Qt), while it is being chosen
    settled = Signal(object)  # and when it has been
    context_changed = Signal(int)
    ram_changed = Signal(object)  # bytes, or None: all but the reserve
    ram_settled = Signal(object)
    reload_requested = Signal(int)  # the running model with another context

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self._card_bytes = 0
        self._ram_most = 0  # what the machine has, less its reserve
        self.slider = BudgetSlider(theme, self)
        self.field = QDoubleSpinBox(self)
        self.field.setSuffix(" GiB")
        self.field.setDecimals(2)
        self.field.setSingleStep(0.25)
        self.field.setFixedWidth(122)
        self.field.setAccessibleName(tr("GPU memory Tessera may use, in GiB"))
        self.presets: dict[str, QPushButton] = {}
        self.decode = Figure(tr("Decode"), self)
        self.prefill = Figure(tr("Prefill"), self)
        self.hits = Figure(tr("Hit rate"), self)
        self.context = QSpinBox(self)
        self.context.setRange(512, 16_777_216)
        self.context.setSingleStep(1024)
        self.context.setGroupSeparatorShown(True)
        self.context.setKeyboardTracking(False)
        self.context.setFixedWidth(122)
        self.context.setAccessibleName(tr("Context length in tokens"))
        self.context_cost = QLabel(self)
        self.context_cost.setObjectName("settingHelp")
        self.reload = QPushButton(tr("Load again with it"), self)
        self.reload.setObjectName("link")
        self.ram = QDoubleSpinBox(self)
        self.ram.setSuffix(" GiB")
        self.ram.setDecimals(1)
        self.ram.setKeyboardTracking(False)
        self.ram.setFixedWidth(122)
        self.ram.setAccessibleName(tr("RAM Tessera may use, in GiB"))
        self.ram_cost = QLabel(self)
        self.ram_cost.setObjectName("settingHelp")
        self.next_words = QLabel(self)
        self.next_words.setObjectName("settingHelp")
        self.next_words.setWordWrap(True)
        self._rest = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._narrow = False
        self.no_gpu = QLabel(
            tr("There is no GPU that Tessera can use: all is in RAM. Choose a card above to see what it would do."),
            self,
        )
        self.no_gpu.setObjectName("settingHelp")
        self.no_gpu.setWordWrap(True)
        for field in (self.field, self.context, self.ram):
            field.lineEdit().setTextMargins(6, 0, 0, 0)
        self._settle = QTimer(self)
        self._settle.setSingleShot(True)
        self._settle.setInterval(SETTLE)
        self._ram_settle = QTimer(self)
        self._ram_settle.setSingleShot(True)
        self._ram_settle.setInterval(SETTLE)
        self._lay_out()
        self._connect()

    def _lay_out(self) -> None:
        title = QLabel(tr("GPU memory Tessera may use"), self)
        title.setObjectName("cardTitle")
        head = QHBoxLayout()
        head.setSpacing(6)
        head.addWidget(title)
        head.addStretch(1)
        for key, words in (
            ("minimum", tr("Minimum")),
            ("recommended", tr("Recommended")),
            ("largest_safe", tr("Largest safe")),
        ):
            button = QPushButton(words, self)
            button.setObjectName("link")
            head.addWidget(button)
            self.presets[key] = button
        head.addSpacing(6)
        head.addWidget(self.field)
        figures = QHBoxLayout()
        figures.setSpacing(28)
        for figure in (self.decode, self.prefill, self.hits):
            figures.addWidget(figure, 1, Qt.AlignmentFlag.AlignTop)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 16, 20, 16)
        layout.setSpacing(8)
        layout.addLayout(head)
        layout.addWidget(self.slider)
        layout.addWidget(self.no_gpu)
        layout.addWidget(self.next_words)
        layout.addSpacing(6)
        layout.addLayout(figures)
        line = QFrame(self)
        line.setObjectName("line")
        line.setFixedHeight(1)
        layout.addSpacing(6)
        layout.addWidget(line)
        layout.addSpacing(4)
        rest = self._rest
        rest.setSpacing(10)
        rest.addLayout(self._row(tr("Context"), self.context, self.context_cost), 1)
        rest.addWidget(self.reload)
        rest.addLayout(self._row(tr("RAM"), self.ram, self.ram_cost), 1)
        layout.addLayout(rest)

    def _row(self, words: str, *widgets: QWidget) -> QHBoxLayout:
        label = QLabel(words, self)
        label.setObjectName("settingTitle")
        row = QHBoxLayout()
        row.setSpacing(10)
        for widget in (label, *widgets):
            row.addWidget(widget, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addStretch(1)
        return row

    def _connect(self) -> None:
        self.slider.valueChanged.connect(self._slid)
        self.slider.settled.connect(lambda value: self.settled.emit(value * MiB))
        self.field.valueChanged.connect(self._typed)
        self.field.editingFinished.connect(self._typing_ended)
        self._settle.timeout.connect(self._typing_ended)
        self.context.valueChanged.connect(self.context_changed)
        self.ram.valueChanged.connect(self._ram_typed)
        self._ram_settle.timeout.connect(lambda: self.ram_settled.emit(self._chosen_ram))
        self.reload.clicked.connect(lambda: self.reload_requested.emit(self.context.value()))

    # --- what is shown ----------------------------------------------------------------------------------------

    def show_outlook(self, answer: Answer, loaded_context: int) -> None:
        """Another model, machine, context or RAM limit."""
        marks = answer.outlook.marks
        self._card_bytes = marks.card
        self.slider.show_marks(marks, answer.outlook.curve)
        for key, button in self.presets.items():
            with_budget = getattr(marks, key)
            button.disconnect(self)
            button.clicked.connect(lambda _=False, budget=with_budget: self.choose(budget))
            button.setVisible(marks.card > 0 and not self._narrow)
        has_gpu = marks.card > 0
        self.field.setVisible(has_gpu)
        self.slider.setVisible(has_gpu)
        self.no_gpu.setVisible(not has_gpu)
        self.field.blockSignals(True)
        self.field.setRange(0, marks.largest_safe / GiB)
        self.field.blockSignals(False)
        self._show_context(answer, loaded_context)
        self._show_ram(answer)

    def _show_context(self, answer: Answer, loaded: int) -> None:
        shape, work = answer.outlook.shape, answer.outlook.work
        self.context.blockSignals(True)
        self.context.setMaximum(max(shape.context_length, loaded, 512))
        self.context.setValue(work.context)
        self.context.blockSignals(False)
        self.context_cost.setText(tr("costs {size}", size=gib(shape.state_bytes(work.context, work.value_bytes))))
        self.reload.setVisible(work.context != loaded)

    def _show_ram(self, answer: Answer) -> None:
        if self.ram.hasFocus() and self._ram_settle.isActive():
            return
        self._ram_most = answer.outlook.ram_most
        self.ram.blockSignals(True)
        self.ram.setRange(0.1, max(0.1, self._ram_most / GiB))
        self.ram.setValue(answer.outlook.ram_limit / GiB)
        self.ram.blockSignals(False)

    def set_narrow(self, narrow: bool) -> None:
        """Where there is little room, the slider's marks do for the presets, and rows stand below each other."""
        if narrow == self._narrow:
            return
        self._narrow = narrow
        direction = QBoxLayout.Direction.TopToBottom if narrow else QBoxLayout.Direction.LeftToRight
        self._rest.setDirection(direction)
        for button in self.presets.values():
            button.setVisible(not narrow and self._card_bytes > 0)

    def show_preview(self, answer: Answer) -> None:
        preview = answer.preview
        if not self.slider.isSliderDown():
            self.slider.show_budget(preview.budget)
        if not self.field.hasFocus():
            self._set_field(preview.budget)
        plan = preview.plan
        self.next_words.setText(engine_text(preview.problem) if plan is None else _advice(answer))
        self.next_words.setVisible(bool(self.next_words.text()))
        depth = tr("predicted at {depth} tokens", depth=f"{answer.outlook.work.depth:,}")
        if plan is None:
            for figure in (self.decode, self.prefill, self.hits):
                figure.show_number("–")
            return
        self.slider.show_speed(preview.budget, plan.predicted.decode)
        self.ram_cost.setText(tr("the plan takes {size}", size=gib(plan.ram.total)))
        self.decode.show_number(speed(plan.predicted.decode), tr("tok/s"), depth)
        self.prefill.show_number(speed(plan.predicted.prefill), tr("tok/s"), tr("predicted"))
        rate = plan.predicted.hit_rate
        note = tr("of expert uses found on the GPU") if rate is not None else tr("a model without experts")
        self.hits.show_number(percent(rate) if rate is not None else not_known(), "", note)

    def show_measured(self, stats: GenerationStats) -> None:
        """What the last answer really ran at, beside what is predicted."""
        depth = f"{stats.depth:,}"
        if stats.decode_speed:
            words = tr("predicted; measured {speed} at {depth} tokens", speed=speed(stats.decode_speed), depth=depth)
            self.decode.show_note(words)
        if stats.prefill_speed:
            self.prefill.show_note(tr("predicted; measured {speed}", speed=speed(stats.prefill_speed)))

    def choose(self, budget: int) -> None:
        """As if the slider had been dragged there."""
        self.slider.setValue(budget // MiB)
        self.settled.emit(self.slider.value() * MiB)

    def choose_ram(self, budget: int) -> None:
        """As if it had been typed, rounded up to what the field can say."""
        self.ram.setValue(math.ceil(budget / GiB * 10) / 10)
        self._ram_settle.start()

    # --- what is entered --------------------------------------------------------------------------------------

    def _slid(self, value: int) -> None:
        self._set_field(value * MiB)
        self.changed.emit(value * MiB)

    def _set_field(self, budget: int) -> None:
        self.field.blockSignals(True)
        self.field.setValue(budget / GiB)
        self.field.blockSignals(False)

    def _typed(self, size: float) -> None:
        budget = round(size * 1024) * MiB
        self.slider.show_budget(budget)
        self.changed.emit(budget)
        self._settle.start()

    def _typing_ended(self) -> None:
        if self._settle.isActive() or self.sender() is self._settle:
            self._settle.stop()
            self.settled.emit(round(self.field.value() * 1024) * MiB)

    @property
    def _chosen_ram(self) -> int | None:
        """The most that there is stands for no budget."""
        return None if self.ram.value() >= self.ram.maximum() else round(self.ram.value() * 1024) * MiB

    def _ram_typed(self) -> None:
        self.ram_changed.emit(self._chosen_ram)
        self._ram_settle.start()


def _advice(answer: Answer) -> str:
    plan = answer.preview.plan
    if plan is None or not plan.notes or answer.outlook.hardware.gpu is None:
        return ""
    return sentences(pace_words(answer), engine_text(plan.notes[-1]))
