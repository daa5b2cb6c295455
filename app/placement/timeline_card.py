"""The card of the timeline: folded away until somebody is curious, then simulated off the main thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QButtonGroup, QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.background import Background
from app.placement.placement_controller import Answer
from app.placement.timeline_view import TimelineView
from app.theme.theme import Theme
from app.translation import tr
from engine.messages import StepSpan, TimelineTold
from engine.placement.simulator import Lane, Simulation, Task, Timeline, simulate
from engine.placement.step_times import StepTimes


class TimelineCard(QFrame):
    def __init__(self, theme: Theme, background: Background, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self._background = background
        self._answer: Answer | None = None
        self._simulated: Answer | None = None
        self._running = False
        self._then: Callable[[], None] | None = None
        self.simulation: Simulation | None = None
        self.seen: dict[str, Timeline] = {}  # what really ran, by kind
        self._label = ""  # of what really runs
        title = QLabel(tr("One step on the clock"), self)
        title.setObjectName("cardTitle")
        self.note = QLabel(tr("simulated"), self)
        self.note.setObjectName("pill")
        self.note.setProperty("mood", "fair")
        self.kinds = {
            key: QPushButton(words, self) for key, words in (("decode", tr("Token")), ("prefill", tr("Prompt")))
        }
        self.unfold = QPushButton(tr("Show"), self)
        self.facts = QLabel(self)
        self.facts.setObjectName("settingHelp")
        self.facts.setWordWrap(True)
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(title)
        head.addWidget(self.note, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addStretch(1)
        foot = QHBoxLayout()
        foot.addWidget(self.facts, 1)
        group = QButtonGroup(self)
        for button in self.kinds.values():
            button.setObjectName("tab")
            button.setCheckable(True)
            button.clicked.connect(self._draw)
            group.addButton(button)
            foot.addWidget(button)
        self.kinds["decode"].setChecked(True)
        self.unfold.setObjectName("tab")
        self.unfold.setCheckable(True)
        self.unfold.toggled.connect(self._unfolded)
        head.addWidget(self.unfold)
        self.view = TimelineView(theme, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 12, 20, 12)
        layout.setSpacing(10)
        layout.addLayout(head)
        layout.addWidget(self.view)
        layout.addLayout(foot)
        self._unfolded(False)

    @property
    def kind(self) -> str:
        return "decode" if self.kinds["decode"].isChecked() else "prefill"

    @property
    def is_seen(self) -> bool:
        """What is shown has really run."""
        return self.kind in self.seen

    @property
    def timeline(self) -> Timeline | None:
        if (seen := self.seen.get(self.kind)) is not None:
            return seen
        if self.simulation is None:
            return None
        return self.simulation.decode if self.kind == "decode" else self.simulation.prefill

    def show_seen(self, told: TimelineTold | None, label: str = "") -> None:
        """What the executor's steps were; None or empty: the plan's are shown. `label`: what kind of device it is."""
        spans = {"decode": told.decode, "prefill": told.prefill} if told is not None else {}
        self.seen = {kind: _timeline(found) for kind, found in spans.items() if found}
        self._label = label
        self._draw()

    def show_answer(self, answer: Answer) -> None:
        self._answer = answer
        self._simulate()

    def then(self, run: Callable[[], None]) -> None:
        """Unfold, and call `run` when there is a timeline."""
        self._then = run
        self.unfold.setChecked(True)

    def _unfolded(self, shown: bool) -> None:
        for part in (self.view, self.facts, self.note, *self.kinds.values()):
            part.setVisible(shown)
        self.unfold.setText(tr("Hide") if shown else tr("Show"))
        self._simulate()

    def _simulate(self) -> None:
        answer = self._answer
        wanted = self.unfold.isChecked() and answer is not None and answer.preview.plan is not None
        if not wanted or answer is None or self._running or answer is self._simulated:
            return
        self._running = True
        self._background.run_in_background(lambda: _simulation(answer), lambda result: self._done(answer, result))

    def _done(self, answer: Answer, simulation: Simulation) -> None:
        self._running, self._simulated, self.simulation = False, answer, simulation
        self._draw()
        then, self._then = self._then, None
        if then is not None:
            then()
        self._simulate()  # the slider may have moved on

    def _draw(self) -> None:
        timeline = self.timeline
        if timeline is None:
            return
        self.note.setText(self._label if self.is_seen else tr("simulated"))
        self.view.show_timeline(timeline)
        self.facts.setText(self.view.accessibleName())


def _timeline(spans: Sequence[StepSpan]) -> Timeline:
    start = min(span.begin for span in spans)
    return Timeline([Task(Lane(span.lane), span.name, span.begin - start, span.end - start) for span in spans])


def _simulation(answer: Answer) -> Simulation:
    plan, outlook = answer.preview.plan, answer.outlook
    assert plan is not None
    return simulate(plan, StepTimes(outlook.shape, outlook.hardware, outlook.work), tokens=1)
