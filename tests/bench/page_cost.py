"""`python -m tests.bench.page_cost [--rounds N] [--tokens N]`: what the window costs an answer of SmolLM2.

For cores - 1 threads and for all of them: decode speed with the memory page open and with it closed (the library in
its place, which does not change), in turns, and their ratio. Beside it the processor time of everything but the engine,
as a share of one core, and the probe thread's. Then the same with the answer written into the chat.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import shutil
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from app.context import AppContext
from app.crash import CrashHandler
from app.environment import DataFolder
from app.none_guard import hold_singletons
from engine.hub.starter import ensure_starter_model
from engine.messages import Generate, GenerationFinished, GenerationRequest, SamplingParams

PROMPT = "Once upon a time there was a mason who laid small coloured stones, and"


MOST_WAIT = 120  # seconds


@dataclass(frozen=True, slots=True)
class Turn:
    """Tokens per second, and shares of one core."""

    speed: float
    interface: float
    probe: float


class Bench:
    def __init__(self, application: QApplication, threads: int, tokens: int) -> None:
        self.application, self.tokens = application, tokens
        folder = DataFolder(Path(tempfile.mkdtemp(prefix="tessera-bench-")))
        self.folder = folder
        self.context = AppContext(application, folder, CrashHandler(folder.logs))
        for name, value in {"threads": threads, "context_length": 4096, "device": "cpu"}.items():
            self.context.settings.set(name, value)
        self.context.settings.set("automatic_titles", False)
        self.context.settings.set("last_model", str(ensure_starter_model()))
        self.speeds: dict[str, float] = {}
        self.context.client.drained.connect(self._take)
        self.context.window.resize(1120, 900)
        self.context.window.show()
        self.wait(lambda: self.context.models.info is not None)

    def _take(self, arrivals) -> None:
        for _, event in arrivals:
            if isinstance(event, GenerationFinished) and event.stats is not None:
                self.speeds[event.request_id] = event.stats.decode_speed

    def wait(self, condition) -> None:
        """The window's own loop, asleep where there is nothing to do; looks now and then whether that holds. What
        does not within two minutes never will: then it says what the window shows, and where each thread stands."""
        loop, look, end = QEventLoop(), QTimer(), time.monotonic() + MOST_WAIT
        look.timeout.connect(lambda: loop.quit() if condition() or time.monotonic() > end else None)
        look.start(50)
        loop.exec()
        if not condition():
            faulthandler.dump_traceback(all_threads=True)
            shown = [problem.cause for problem in self.context.problems.open.values()]
            raise TimeoutError(f"nothing for {MOST_WAIT} s; loading {self.context.models.loading_path}; shown: {shown}")

    def turn(self, page: str, key: str) -> Turn:
        """One answer of `tokens` tokens beside that page; in the chat it is written there."""
        context = self.context
        context.window.show_page(page)
        settled = time.monotonic() + 0.5
        self.wait(lambda: time.monotonic() > settled)
        probe = context.telemetry._probe
        assert probe is not None
        used, began, looked = interface_seconds(), time.perf_counter(), probe.cpu_seconds
        if page == "chat":
            count = len(self.speeds)
            context.session.set_parameters({"temperature": 0.0, "max_tokens": self.tokens})
            context.session.send(PROMPT)
            self.wait(lambda: len(self.speeds) > count)
            key = list(self.speeds)[-1]
        else:
            sampling = SamplingParams(temperature=0.0)
            request = GenerationRequest(key, (), sampling, max_tokens=self.tokens, raw_prompt=PROMPT)
            context.client.send(Generate(request))
            self.wait(lambda: key in self.speeds)
        seconds = time.perf_counter() - began
        return Turn(self.speeds[key], (interface_seconds() - used) / seconds, (probe.cpu_seconds - looked) / seconds)

    def close(self) -> None:
        self.context.close()
        self.context.window.close()
        self.context.window.deleteLater()
        shutil.rmtree(self.folder.root, ignore_errors=True)


def interface_seconds() -> float:
    """Processor time so far of all threads that run Python, the engine's aside."""
    return sum(
        time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
        for thread in threading.enumerate()
        if thread.name != "engine" and thread.ident is not None
    )


def measure(application: QApplication, threads: int, rounds: int, tokens: int) -> None:
    bench = Bench(application, threads, tokens)
    turns: dict[str, list[Turn]] = {"memory": [], "library": [], "chat": []}
    bench.turn("memory", "warm")
    bench.turn("library", "warm too")
    ratios = []
    for number in range(rounds):
        pages = ("memory", "library") if number % 2 else ("library", "memory")
        for page in pages:
            turns[page].append(bench.turn(page, f"{page} {number}"))
        ratios.append(turns["memory"][-1].speed / turns["library"][-1].speed)
        turns["chat"].append(bench.turn("chat", ""))
    bench.close()
    words = {"memory": "memory page open", "library": "memory page closed", "chat": "written into the chat"}
    for page, found in turns.items():
        speed, interface, probe = (
            statistics.median(getattr(turn, field) for turn in found) for field in ("speed", "interface", "probe")
        )
        print(
            f"{threads} threads, {words[page]}: {speed:.1f} tokens/s; the window takes {interface:.1%} of a core, "
            f"its probe {probe:.2%}"
        )
    print(f"{threads} threads, open : closed, median of {rounds} pairs: {statistics.median(ratios):.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the window costs an answer.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=256)
    options = parser.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    hold_singletons()
    application = QApplication([])
    cores = os.cpu_count() or 1
    for threads in dict.fromkeys((max(1, cores - 1), cores)):
        measure(application, threads, options.rounds, options.tokens)


if __name__ == "__main__":
    main()
