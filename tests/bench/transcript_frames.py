"""`python -m tests.bench.transcript_frames`: the transcript at lengths that people reach in a year of use.

Opens 10,000 messages and one message of 2 MB, scrolls, jumps, and streams 200 tokens a second. Times are processor
time of the main thread (what a frame costs), memory is what the process gained.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from PySide6.QtWidgets import QApplication, QStyleFactory

from app.chat.markdown import highlight, parser
from app.chat.transcript.transcript import Transcript
from app.none_guard import hold_singletons
from app.settings.values import Settings
from app.store.records import Message, Status
from app.theme.theme import Theme

WORDS = "Here is **some** answer with `code` and text that goes on for a while, until it ends. "
ANSWER = f"{WORDS * 4}\n\n- a\n- b\n\n```python\nprint(1)\nfor x in range(10):\n    pass\n```\n\n{WORDS * 2}"
STREAM = f"{WORDS * 6}\n\n- item one\n- item two\n\n```python\nfor i in range(3):\n    pass\n```\n\n"
MOST_MEMORY = 300  # MB that 10,000 messages may cost, scrolled through and jumped about in
SPEED = 200  # tokens a second
SECONDS = 6


def messages(count: int) -> list[Message]:
    """Every one with a text of its own, as a store hands them out."""
    return [
        Message(str(i), "c", None, "assistant" if i % 2 else "user", f"{i}. {ANSWER if i % 2 else WORDS * 3}")
        for i in range(count)
    ]


def costs(count: int, step: Callable[[], None]) -> str:
    """Median and 99th percentile of `step`, in milliseconds."""
    times = []
    for _ in range(count):
        began = time.process_time()
        step()
        times.append((time.process_time() - began) * 1000)
    times.sort()
    return f"median {statistics.median(times):5.1f} ms   p99 {times[int(0.99 * (count - 1))]:5.1f} ms"


class Bench:
    def __init__(self, application: QApplication, folder: Path) -> None:
        theme = Theme(application, Settings(folder / "settings.json"))
        theme.load_fonts()
        theme.apply()
        self.application = application
        self.transcript = Transcript(theme)
        self.transcript.resize(1000, 800)
        self.transcript.show()
        application.processEvents()
        self.bar = self.transcript.verticalScrollBar()

    def frame(self, value: int) -> None:
        self.bar.setValue(value)
        self.transcript.viewport().repaint()

    def open(self, name: str, make: Callable[[], list[Message]]) -> float:
        """Prints what it costs; returns the memory gained, the messages' own included, in MB."""
        process = psutil.Process()
        before = process.memory_info().rss
        shown = make()
        began = time.process_time()
        self.transcript.set_messages(shown)
        self.transcript.viewport().repaint()
        seconds = time.process_time() - began
        while any(view.is_built and not view.is_fed for view in self.transcript.message_views):
            self.application.processEvents()
        print(f"{name:24} opens in {seconds:.2f} s")
        print(f"{'':24} one notch   {costs(200, lambda: self.frame(self.bar.value() - 120))}")
        print(f"{'':24} jumps       {costs(80, lambda: self.frame(random.randrange(self.bar.maximum() + 1)))}")
        gained = (process.memory_info().rss - before) / 1e6
        print(f"{'':24} memory      {gained:.0f} MB more")
        return gained

    def stream(self) -> None:
        answer = Message("s", "c", None, "assistant", "", status=Status.STREAMING)
        self.transcript.set_messages([*messages(20), answer])
        tokens = [word + " " for word in (STREAM * 20).split(" ")]
        began, used, sent = time.perf_counter(), time.process_time(), 0
        while (now := time.perf_counter() - began) < SECONDS:
            due = int(now * SPEED)
            answer.content += "".join(tokens[sent:due])
            sent = due
            self.transcript.grow(answer)
            self.application.processEvents()
            time.sleep(1 / 60)
        share = (time.process_time() - used) / (time.perf_counter() - began)
        print(f"{f'streaming {SPEED} tok/s':24} busy {share:.0%} of one core")


def main() -> int:
    """1 where 10,000 messages need more memory than they may."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    hold_singletons()
    random.seed(1)
    application = QApplication([])
    application.setStyle(QStyleFactory.create("Fusion"))
    parser.warm_up()
    highlight.warm_up()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(application, Path(folder))
        gained = bench.open("10,000 messages", lambda: messages(10_000))
        bench.open("one message of 2 MB", lambda: [Message("b", "c", None, "assistant", (WORDS * 5 + "\n\n") * 4600)])
        bench.open("2 MB from the owner", lambda: [Message("b", "c", None, "user", (WORDS * 5 + "\n") * 4600)])
        bench.stream()
    if gained > MOST_MEMORY:
        print(f"10,000 messages take {gained:.0f} MB; at most {MOST_MEMORY} are allowed")
    return int(gained > MOST_MEMORY)


if __name__ == "__main__":
    sys.exit(main())
