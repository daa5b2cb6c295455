"""`python -m tests.bench.page_holds [--scale N] [--profile WORDS]`: how long what is done on the memory page holds the
main thread.

For a dense model, one of 48 × 128 experts and one of 61 × 384: per action the longest single hold (a call from outside
the event loop, or one turn of it with every event that had come) in milliseconds of processor time, and the median
over repetitions of what the action took on that thread in all. The window stands still for no longer than a hold.
`--profile`: of actions with these words, where their holds' time went.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.context import AppContext
from app.crash import CrashHandler
from app.environment import DataFolder
from app.none_guard import hold_singletons
from app.placement import machines
from app.placement.placement_page import PlacementPage
from engine.messages import (
    ErrorInfo,
    Event,
    MigrationProgress,
    ModelLoaded,
    ModelUnloaded,
    PlacementChanged,
    PlacementRolledBack,
    ResidencyTold,
    StepSpan,
    TimelineTold,
)
from engine.placement.hardware.catalogue import machine
from engine.placement.hardware.profile import HardwareProfile
from engine.telemetry.residency import RamUse, ResidencySnapshot
from engine.telemetry.snapshot import TelemetrySnapshot
from tests.support.residency import residency_of
from tests.support.scripted_engine import ScriptedEngine, model_info
from tests.support.shapes import published_shape

GiB = 1 << 30
SHAPES = {
    "dense": "llama-3.1-70b-q4_k_m",
    "48 × 128": "qwen3-30b-a3b-q4_k_m",
    "61 × 384": "kimi-k2-q4_k_m",
}
REPEAT = 5
LIMIT = 16e-3  # seconds


class Bench:
    """One window with a scripted engine, whose models run on a card or are shown on one."""

    def __init__(self, application: QApplication, profiled: str, scratch: Path) -> None:
        self.application, self.profiled, self.scratch = application, profiled, scratch
        folder = DataFolder(scratch / "data")
        self.engine: ScriptedEngine | None = None

        def factory(on_event: Callable[[Event], None]) -> ScriptedEngine:
            self.engine = ScriptedEngine(on_event)
            return self.engine

        self.context = AppContext(application, folder, CrashHandler(folder.logs), factory)
        self.placement = self.context.placement
        self.placement.read_shape = lambda _path: self.shape
        self.placement.read_machine = lambda: (self.hardware, True)
        # There need be no card here.
        machines.with_device = lambda own, choice: own  # type: ignore[attr-defined]
        self.holds: list[float] = []
        self.profile: cProfile.Profile | None = None
        self.over: list[str] = []
        self.context.window.resize(1120, 900)
        self.context.window.show()
        self.wait(lambda: self.engine is not None)
        self.wait(lambda: self.context.telemetry.snapshot is not None)
        self.context.telemetry.close()
        self.settle(1.0)

    # --- measuring --------------------------------------------------------------------------------------------

    def hold(self, call: Callable[[], object]) -> None:
        """Runs it, and notes how long it held the thread."""
        if self.profile is not None:
            self.profile.enable()
        began = time.thread_time()
        call()
        self.holds.append(time.thread_time() - began)
        if self.profile is not None:
            self.profile.disable()

    def turn(self) -> None:
        self.hold(self.application.processEvents)
        # What deleteLater() leaves is taken away between turns of the real loop.
        self.hold(lambda: self.application.sendPostedEvents(None, QEvent.Type.DeferredDelete))

    def wait(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not condition():
            self.turn()
            time.sleep(0.001)
            assert time.monotonic() < end, "the page shows nothing"

    def settle(self, seconds: float = 0.12) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.turn()
            time.sleep(0.001)

    def measure(self, words: str, *acts: Callable[[], object], until: Callable[[], bool] = lambda: True) -> None:
        """Each of `acts` until `until` holds and the window has come to rest."""
        self.profile = cProfile.Profile() if self.profiled and self.profiled in words else None
        longest, sums = [], []
        for act in acts:
            self.holds = []
            self.hold(act)
            self.wait(until)
            self.settle()
            longest.append(max(self.holds))
            sums.append(sum(self.holds))
        is_over = max(longest) > LIMIT
        print(
            f"{self.name:>8}  {words:<44} longest {max(longest) * 1e3:6.1f} ms{' !' if is_over else '  '}  "
            f"median of longest {statistics.median(longest) * 1e3:5.1f} ms, "
            f"in all {statistics.median(sums) * 1e3:5.1f} ms",
            flush=True,
        )
        if is_over:
            self.over.append(f"{self.name}: {words}")
        if self.profile is not None:
            pstats.Stats(self.profile).sort_stats("cumulative").print_stats(40)
            self.profile = None

    # --- states -----------------------------------------------------------------------------------------------

    name = path = ""
    shape = published_shape(SHAPES["dense"])
    hardware: HardwareProfile = machine("Threadripper 7970X", "RTX 5090", 1024 * GiB)

    @property
    def page(self) -> PlacementPage:
        return self.context.window.page("memory")  # type: ignore[return-value]

    def load(self, device: str) -> None:
        assert self.engine is not None
        self.path = f"/models/{self.shape.name}{device}.gguf"
        self.engine.emit(ModelLoaded(replace(model_info(self.path, self.shape.name), device=device), 1.0))
        if device:
            self.told = self.first
            self.tell()

    def tell(self, **changes: object) -> None:
        assert self.engine is not None
        self.told = replace(self.told, **changes)  # type: ignore[arg-type]
        self.engine.emit(ResidencyTold(self.told, RamUse(8 * GiB, 6 * GiB, GiB)))

    first: ResidencySnapshot  # with which a model begins
    told: ResidencySnapshot

    def is_planned(self) -> bool:
        answer = self.placement.answer
        return answer is not None and answer.wish == self.placement.wish and answer.wish.path == self.path

    def drags(self) -> list[Callable[[], None]]:
        slider = self.page.budget.slider
        return [partial(slider.setValue, (4096 + 913 * move) % slider.maximum()) for move in range(20)]

    def run(self, name: str) -> None:
        self.name, self.shape = name, published_shape(SHAPES[name])
        self.first = replace(residency_of(self.shape, self.hardware, 12 * GiB), device="NVIDIA GeForce RTX 5090")
        self.context.settings.set("shown_machine", "RTX 5090")
        window = self.context.window
        if not window.pages.is_made("memory"):
            self.measure("opening the page without a model", lambda: window.show_page("memory"))
        self.measure("changing the model, simulated", lambda: self.load(""), until=self.is_planned)
        self.measure("dragging, simulated", *self.drags(), until=self.is_planned)
        cards = ("RTX 4090", "RTX 3060", "RTX 5090")
        self.measure("another card", *[partial(self.placement.set_machine, c) for c in cards], until=self.is_planned)
        self.context.settings.set("shown_machine", "")
        self.measure("changing the model, live", lambda: self.load("cuda"), until=self.is_planned)
        self.measure("dragging, live with a ghost", *self.drags(), until=self.is_planned)
        self.measure("its residency told", *[partial(self.tell, hit_rate=n / 9) for n in range(REPEAT)])
        self.measure("a probe's reading", *[self.look] * REPEAT)
        self.change_budgets()
        self.views()
        self.window_changes()
        self.export()

    def look(self) -> None:
        now = time.monotonic()
        held = int(2 * GiB + now * 1e6 % GiB)
        self.context.telemetry.take(TelemetrySnapshot(now, 64 * GiB, 20 * GiB, held, 8 * GiB, 0.5, 0.4, 0.0))

    def change_budgets(self) -> None:
        assert self.engine is not None
        emit, half = self.engine.emit, self.told.budget_bytes // 2
        self.measure(
            "a migration's step",
            *[partial(emit, MigrationProgress(half, n * GiB, 9 * GiB, 214)) for n in range(REPEAT)],
        )
        changed = residency_of(self.shape, self.hardware, half, seed=1)
        self.measure("a budget applied", lambda: emit(PlacementChanged(changed, 1.0)), until=self.is_planned)
        error = ErrorInfo(
            "DeviceOutOfMemoryError", "The device is full.", "The budget before is in force.", "Try a lower one."
        )
        self.measure(
            "rolled back", lambda: emit(PlacementRolledBack(12 * GiB, error, self.told)), until=self.is_planned
        )
        self.measure("trying less", self.page.strip.button.click, until=self.is_planned)
        self.measure(
            "another context",
            *[partial(self.page.budget.context.setValue, n) for n in (8192, 4096)],
            until=self.is_planned,
        )

    def views(self) -> None:
        page, view = self.page, self.page.map.view
        cells = list(view._cells.tensors.values())[:8] if view._cells is not None else []
        points = [view.cell_box(cell.row, cell.column).center().toPoint() for cell in cells]
        self.measure("pointing at cells", *[partial(QTest.mouseMove, view.viewport(), p) for p in points])
        right = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_Right, Qt.KeyboardModifier.NoModifier)
        self.measure("arrow keys", *[lambda: QApplication.sendEvent(view, right)] * REPEAT)
        self.measure("zooming", *[partial(view.zoom_by, step) for step in (1, 1, 1, 1, 1, -1, -1, -1, -1, -1)])
        item = cells[1] if len(cells) > 1 else None
        assert item is not None
        pins = (True, False, None)
        self.measure(
            "pinning", *[partial(self.placement.set_pin, item.item, -1, to) for to in pins], until=self.is_planned
        )
        at = view.viewport().mapToGlobal(QPoint(60, 60))
        self.measure("a cell's menu", lambda: page.map._open_menu(item, at))
        popup = QApplication.activePopupWidget()
        if popup is not None:
            self.measure("closing it", popup.close)
        self.measure("the cards' menu", page.machine.showPopup)
        self.measure("closing it", page.machine.hidePopup)
        self.measure("the timeline unfolded", page.timeline.unfold.click)
        spans = tuple(StepSpan("CPU" if n % 2 else "GPU", f"task {n}", n * 1e-5, n * 1e-5 + 9e-6) for n in range(900))
        assert self.engine is not None
        emit = self.engine.emit
        self.measure("a timeline told", *[lambda: emit(TimelineTold(spans, spans))] * REPEAT)
        self.measure(
            "the timeline's other kind", page.timeline.kinds["prefill"].click, page.timeline.kinds["decode"].click
        )
        self.measure("the timeline folded", page.timeline.unfold.click)
        self.measure("the table opened", page.map.as_table.click)
        self.measure("dragging beside the table", *self.drags(), until=self.is_planned)
        table = page.map.table
        self.measure("the table's end", table.scrollToBottom, table.scrollToTop)
        self.measure(
            "a model changed beside the table", lambda: self.load(""), lambda: self.load("cuda"), until=self.is_planned
        )
        self.measure("the table closed", page.map.as_table.click)
        self.measure("the table again", page.map.as_table.click, page.map.as_table.click)

    def window_changes(self) -> None:
        window = self.context.window
        self.measure(
            "the chat shown, and the page again", *[partial(window.show_page, p) for p in ("chat", "memory")] * 2
        )
        sizes = [(1000, 800), (1300, 900), (640, 700), (1120, 900)]
        self.measure("the window resized", *[partial(window.resize, *s) for s in sizes])
        themes = ("dark", "light")
        self.measure("another theme", *[partial(self.context.settings.set, "theme", t) for t in themes])
        assert self.engine is not None
        emit = self.engine.emit
        self.measure("the model unloaded", lambda: emit(ModelUnloaded("")))
        self.measure("and loaded again", lambda: self.load("cuda"), until=self.is_planned)

    def export(self) -> None:
        folder, button = self.scratch, self.page.export
        written: list[int] = []

        def count() -> None:
            written.append(1)

        button.written.connect(count)
        for what, kind in (
            ("table", "csv"),
            ("page", "png"),
            ("timeline", "csv"),
            ("timeline", "json"),
            ("timeline", "png"),
        ):
            before = len(written)
            self.measure(
                f"exporting the {what}, {kind}",
                partial(button.export_to, folder / f"{what}.{kind}", what),
                until=lambda: len(written) > before,  # noqa: B023 - called within the turn of the loop
            )
        button.written.disconnect(count)


def main() -> None:
    parser = argparse.ArgumentParser(description="How long the memory page holds the main thread.")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--profile", default="", metavar="WORDS")
    parser.add_argument("--shape", choices=SHAPES, help="of one shape alone")
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    os.environ["QT_SCALE_FACTOR"] = options.scale
    hold_singletons()
    scratch = Path(tempfile.mkdtemp(prefix="tessera-bench-"))
    try:
        bench = Bench(QApplication([]), options.profile, scratch)
        for name in [options.shape] if options.shape else SHAPES:
            bench.run(name)
        print(f"over {LIMIT * 1e3:.0f} ms: {'; '.join(bench.over) or 'nothing'}")
        bench.context.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
