"""`python -m tests.bench.memory_page`: dragging the memory page's slider over a large model, and what the page costs.

Prints milliseconds of the main thread per move, and from the move to its preview on screen; then the main thread's
share of a core, and its longest turns, while 100 tokens a second are written with the chat and with the page open.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.context import AppContext
from app.crash import CrashHandler
from app.environment import DataFolder
from app.none_guard import hold_singletons
from app.placement.placement_page import PlacementPage
from engine.messages import FinishReason, GenerationFinished, ModelLoaded, ResidencyTold, TokenEvent
from engine.placement.hardware.catalogue import machine
from engine.runtime.devices.open import emulated_machine
from engine.telemetry.snapshot import TelemetrySnapshot
from tests.support.residency import residency_of
from tests.support.scripted_engine import ScriptedEngine, model_info
from tests.support.shapes import published_shape

GiB = 1 << 30
MOVES = 40
SECONDS, TOKENS_PER_SECOND = 8, 100
LARGE, SMALL = "kimi-k2-q4_k_m", "qwen3-30b-a3b-q4_k_m"  # the larger one finds no room beside an emulated device


class Bench:
    def __init__(self, application: QApplication) -> None:
        self.application = application
        folder = DataFolder(Path(tempfile.mkdtemp()))
        self.engine: ScriptedEngine | None = None

        def factory(on_event):
            self.engine = ScriptedEngine(on_event)
            return self.engine

        self.context = AppContext(application, folder, CrashHandler(folder.logs), factory)
        self.shape = published_shape(LARGE)
        self.placement = self.context.placement
        self.placement.read_shape = lambda _path: self.shape
        self.placement.read_machine = lambda: (machine("Threadripper 7970X", None, 1024 * GiB), True)
        self.context.window.resize(1120, 900)
        self.context.window.show()
        self.wait(lambda: self.engine is not None)

    def wait(self, condition) -> None:
        end = time.monotonic() + 60
        while not condition():
            self.application.processEvents()
            time.sleep(0.0005)
            assert time.monotonic() < end, "the page shows nothing"

    def load(self, device: str) -> PlacementPage:
        assert self.engine is not None
        self.shape = published_shape(SMALL if device else LARGE)
        path = f"/models/{self.shape.name}.gguf"
        self.engine.emit(ModelLoaded(replace(model_info(path), device=device), 1.0))
        self.context.settings.set("shown_machine", "" if device else "RTX 5090")
        self.context.window.show_page("memory")
        if device:
            self.engine.emit(ResidencyTold(residency_of(self.shape, emulated_machine(), 6 * GiB)))
        self.wait(lambda: self.placement.answer is not None and self.placement.answer.wish.device == device)
        return self.context.window.page("memory")

    def drag(self, page: PlacementPage) -> tuple[list[float], list[float]]:
        """Seconds of the main thread, and of the clock, per move."""
        work, waits = [], []
        for move in range(MOVES):
            budget = (4096 + 500 * move) % page.budget.slider.maximum() << 20
            began, clock = time.thread_time(), time.perf_counter()
            page.budget.slider.setValue(budget >> 20)
            self.wait(lambda budget=budget: self.placement.answer.preview.budget == budget)
            page.map.view.viewport().repaint()
            work.append(time.thread_time() - began)
            waits.append(time.perf_counter() - clock)
        return work, waits

    def write(self, page: str) -> tuple[float, list[float]]:
        """An answer of 100 tokens a second beside that page, with a probe that looks four times a second: the share of
        a core that the main thread takes, and seconds of each turn of its loop."""
        assert self.engine is not None
        self.context.window.show_page("chat")
        self.engine.answer = None
        self.context.session.send("Go on, please.")
        asked = len(self.engine.requests())
        self.wait(lambda: len(self.engine.requests()) >= asked)
        request = self.engine.requests()[-1]
        self.engine.begin(request)
        self.context.window.show_page(page)
        told = residency_of(self.shape, emulated_machine(), 6 * GiB)
        began, used, sent, looked = time.perf_counter(), time.thread_time(), 0, 0
        turns: list[float] = []
        while (now := time.perf_counter() - began) < SECONDS:
            while sent < now * TOKENS_PER_SECOND:
                self.engine.emit(TokenEvent(request.request_id, f"word{sent} "))
                sent += 1
            if looked < now * 4:
                looked += 1
                self.engine.emit(ResidencyTold(told))
                self.context.telemetry.take(snapshot_at(now))
            start = time.thread_time()
            self.application.processEvents()
            turns.append(time.thread_time() - start)
            time.sleep(0.002)
        share = (time.thread_time() - used) / (time.perf_counter() - began)
        self.engine.emit(GenerationFinished(request.request_id, FinishReason.STOP, None))
        self.wait(lambda: not self.context.session.is_any_busy)
        return share, turns


def snapshot_at(seconds: float) -> TelemetrySnapshot:
    held = int(2 * GiB + seconds * 1e6)
    return TelemetrySnapshot(time.monotonic(), 64 * GiB, 20 * GiB, held, 8 * GiB, 0.5, 0.4, 0.0)


def main() -> None:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    hold_singletons()
    bench = Bench(QApplication([]))
    for device in ("", "emulated"):
        work, waits = bench.drag(bench.load(device))
        words = "48 × 128, live with a ghost" if device else "61 × 384, simulated"
        for name, times in (("main thread", work), ("until seen", waits)):
            middle, most = statistics.median(times) * 1e3, sorted(times)[int(0.95 * len(times))] * 1e3
            print(f"{words}, {name}: median {middle:.1f} ms, 95 % within {most:.1f} ms")
    page = bench.context.window.page("memory")
    began = time.thread_time()
    page.map.as_table.click()
    print(f"opening the table: {(time.thread_time() - began) * 1e3:.1f} ms")
    page.map.as_table.click()
    bench.context.telemetry.close()
    for name in ("chat", "memory"):
        share, turns = bench.write(name)
        worst = sorted(turns)[int(0.99 * (len(turns) - 1))] * 1e3
        words = f"writing {TOKENS_PER_SECOND} tokens/s, {name} open"
        print(f"{words}: {share:.1%} of a core, 99 % of turns within {worst:.1f} ms")
    bench.context.close()


if __name__ == "__main__":
    main()
