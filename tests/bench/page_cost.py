"""`python -m tests.bench.page_cost [--rounds N] [--tokens N]`: what the window costs an answer of SmolLM2.

For cores - 1 threads and for all of them: decode speed with the memory page open and with it closed (the library in
its place, which does not change), in turns within one long answer, since the machine's pace moves from second to
second, and their ratio. Where that moves too much for the ratio to tell, the share of its time that the engine's thread
stands still does: with one thread, all that it waits for is Python's lock. Beside it the processor time of everything
but the engine, as a share of one core, and the probe thread's. Then the same with answers of N tokens written into the
chat.
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
from engine.messages import Abort, Generate, GenerationFinished, GenerationRequest, SamplingParams, TokenEvent

PROMPT = "Once upon a time there was a mason who laid small coloured stones, and"


MOST_WAIT = 120  # seconds
SETTLE, LOOK = 0.25, 0.6  # seconds: for a page that was just opened, and of each look at a speed
LONGEST = 1500  # tokens of an answer during which pages change
CHATS = 5


@dataclass(frozen=True, slots=True)
class Turn:
    """Tokens per second, shares of one core, and the share of its time in which the engine's thread waited for
    something other than a processor."""

    speed: float
    interface: float
    probe: float
    still: float


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
        self.times: list[float] = []  # at which tokens of the long answer were written
        self.answers = 0
        self.context.client.drained.connect(self._take)
        self.context.window.resize(1120, 900)
        self.context.window.show()
        self.wait(lambda: self.context.models.info is not None)

    def _take(self, arrivals) -> None:
        for moment, event in arrivals:
            if isinstance(event, GenerationFinished) and event.stats is not None:
                self.speeds[event.request_id] = event.stats.decode_speed
            elif isinstance(event, TokenEvent) and event.request_id == self.long_answer:
                self.times += [moment] * event.tokens

    @property
    def long_answer(self) -> str:
        return f"answer {self.answers}"

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

    def sleep(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() > until)

    def keep_writing(self) -> None:
        """Another long answer where there is none, up to where its tokens come."""
        if self.answers == 0 or self.long_answer in self.speeds:
            self.answers += 1
            self.times.clear()
            sampling = SamplingParams(temperature=0.0)
            request = GenerationRequest(self.long_answer, (), sampling, max_tokens=LONGEST, raw_prompt=PROMPT)
            self.context.client.send(Generate(request))
            self.wait(lambda: bool(self.times))

    def look(self, page: str) -> Turn:
        """At the long answer, beside that page."""
        self.context.window.show_page(page)
        while True:
            self.keep_writing()
            self.sleep(SETTLE)
            self.keep_writing()
            self.times.clear()
            watch = Watch(self)
            self.sleep(LOOK)
            if self.long_answer not in self.speeds:  # it went on all the time
                return watch.turn((len(self.times) - 1) / (self.times[-1] - self.times[0]))

    def chat(self) -> Turn:
        """An answer of `tokens` tokens, written into the chat."""
        context = self.context
        if self.long_answer not in self.speeds:
            context.client.send(Abort(self.long_answer))
            self.wait(lambda: self.long_answer in self.speeds)
        context.window.show_page("chat")
        self.sleep(0.5)
        watch, count = Watch(self), len(self.speeds)
        context.session.set_parameters({"temperature": 0.0, "max_tokens": self.tokens})
        context.session.send(PROMPT)
        self.wait(lambda: len(self.speeds) > count)
        return watch.turn(self.speeds[list(self.speeds)[-1]])

    def close(self) -> None:
        self.context.close()
        self.context.window.close()
        self.context.window.deleteLater()
        shutil.rmtree(self.folder.root, ignore_errors=True)


class Watch:
    """What the threads do from now on."""

    def __init__(self, bench: Bench) -> None:
        probe = bench.context.telemetry._probe
        assert probe is not None
        self._probe = probe
        self._engine = next(thread for thread in threading.enumerate() if thread.name == "engine")
        self._began, self._used, self._looked = time.perf_counter(), interface_seconds(), probe.cpu_seconds
        self._busy = sum(scheduled(self._engine))

    def turn(self, speed: float) -> Turn:
        seconds = time.perf_counter() - self._began
        still = 1 - (sum(scheduled(self._engine)) - self._busy) / seconds
        used = sum(max(0.0, now - self._used.get(thread, 0.0)) for thread, now in interface_seconds().items())
        return Turn(speed, used / seconds, (self._probe.cpu_seconds - self._looked) / seconds, still)


def scheduled(thread: threading.Thread) -> tuple[float, float]:
    """Seconds for which a thread has been running so far, and was kept from it by others on its processor. Linux;
    zeros where it has just ended."""
    try:
        ran, waited, _ = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text().split()
    except OSError:
        return 0.0, 0.0
    return int(ran) / 1e9, int(waited) / 1e9


def interface_seconds() -> dict[int | None, float]:
    """Processor time so far of each thread that runs Python, the engine's aside."""
    return {thread.ident: scheduled(thread)[0] for thread in threading.enumerate() if thread.name != "engine"}


def measure(application: QApplication, threads: int, rounds: int, tokens: int) -> None:
    bench = Bench(application, threads, tokens)
    turns: dict[str, list[Turn]] = {"memory": [], "library": []}
    for page in turns:
        bench.look(page)  # opened for the first time
    for number in range(rounds):
        for page in sorted(turns, reverse=number % 2 == 0):
            turns[page].append(bench.look(page))
    turns["chat"] = [bench.chat() for _ in range(CHATS)]
    ratios = [opened.speed / closed.speed for opened, closed in zip(turns["memory"], turns["library"], strict=True)]
    bench.close()
    words = {"memory": "memory page open", "library": "memory page closed", "chat": "written into the chat"}
    for page, found in turns.items():
        speed = statistics.median(turn.speed for turn in found)
        # Whole answers are alike; a short look has three of the page's quarters of a second, or two.
        average = statistics.median if page == "chat" else statistics.mean
        interface, probe, still = (
            average([getattr(turn, field) for turn in found]) for field in ("interface", "probe", "still")
        )
        print(
            f"{threads} threads, {words[page]}: {speed:.1f} tokens/s; the window takes {interface:.1%} of a core, "
            f"its probe {probe:.2%}; the engine's thread stands still for {still:.2%} of the time"
        )
    low, middle, high = (f"{ratio:.3f}" for ratio in statistics.quantiles(ratios, n=4))
    print(f"{threads} threads, open : closed, median of {rounds} pairs: {middle} (half: {low} to {high})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the window costs an answer.")
    parser.add_argument("--rounds", type=int, default=24)
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
