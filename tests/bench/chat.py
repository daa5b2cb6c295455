"""`python -m tests.bench.chat [MODEL]`: what a person waits for in the chat, in the whole window.

A conversation of 10,000 messages is opened out of the database; 200 tokens a second stream into one of 1,000 (what
that costs is processor time of the main thread alone: engine and database have threads of their own); and answers of
a real model are stopped while it reads and while it writes. Bounds are told with the figures; 1 where one is broken.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QStyleFactory

from app.chat.markdown import highlight, parser
from app.context import AppContext
from app.crash import CrashHandler
from app.engine_client import EngineFactory, make_engine
from app.environment import DataFolder
from app.none_guard import hold_singletons
from app.store.conversations import ConversationStore
from app.store.records import Conversation, Message, Status
from engine.hub.starter import ensure_starter_model
from engine.messages import TokenEvent
from tests.bench.transcript_frames import ANSWER, STREAM, WORDS
from tests.support.scripted_engine import ScriptedEngine, model_info

MESSAGES, OPENS, MEGABYTES = 10_000, 1.0, 300  # messages, seconds, MB
SPEED, SECONDS, BUSY = 200, 8, 0.30  # tokens a second, seconds, share of the main thread
STOPS, STOP_MS = 20, 100
ENDLESS = "Repeat the word mosaic again and again, and never stop: mosaic mosaic mosaic mosaic"


class Bench:
    def __init__(self, application: QApplication, folder: Path, factory: EngineFactory) -> None:
        self.application = application
        self.folder = DataFolder(folder)
        self.context = AppContext(application, self.folder, CrashHandler(self.folder.logs), factory)
        self.context.window.resize(1120, 780)
        self.context.window.show()
        self.within_bounds = True

    def until(self, reached: Callable[[], bool], limit: float = 120.0) -> None:
        end = time.monotonic() + limit
        while not reached():
            if time.monotonic() > end:
                raise TimeoutError
            self.application.processEvents()
            time.sleep(0.0005)

    def tell(self, name: str, value: float, bound: float, unit: str) -> None:
        self.within_bounds &= value < bound
        digits = 2 if bound < 10 else 0
        print(f"{name:44} {value:8.{digits}f} {unit}   (bound {bound:g})")

    # --- a long conversation ---

    def open_long(self) -> None:
        window, session = self.context.window, self.context.session
        self.until(lambda: len(self.context.conversations.rows()) == 2)
        process = psutil.Process()
        before = process.memory_info().rss
        began = time.perf_counter()
        session.open("long")
        self.until(lambda: session.tree is not None)
        window.repaint()
        self.tell(f"{MESSAGES:,} messages open in", time.perf_counter() - began, OPENS, "s")
        bar = window.chat_page.transcript.verticalScrollBar()
        for _ in range(80):
            bar.setValue(random.randrange(bar.maximum() + 1))
            window.chat_page.transcript.viewport().repaint()
        self.tell("… and need, scrolled about in", (process.memory_info().rss - before) / 1e6, MEGABYTES, "MB")

    def stream(self, engine: ScriptedEngine) -> None:
        session = self.context.session
        session.open("short")
        self.until(lambda: session.conversation_id == "short" and session.tree is not None)
        session.send("Go on")
        self.until(lambda: bool(engine.requests()))
        request = engine.requests()[-1]
        engine.begin(request)
        tokens = [word + " " for word in (STREAM * 40).split(" ")]

        def write() -> None:
            began = time.perf_counter()
            for number in range(SPEED * SECONDS):
                time.sleep(max(0.0, began + number / SPEED - time.perf_counter()))
                engine.emit(TokenEvent(request.request_id, tokens[number % len(tokens)]))

        threading.Thread(target=write, daemon=True).start()
        began, used = time.perf_counter(), time.thread_time()
        QTimer.singleShot(SECONDS * 1000, self.application.quit)
        self.application.exec()
        share = (time.thread_time() - used) / (time.perf_counter() - began)
        written = len(session.path()[-1].content.split())
        self.tell(f"{SPEED} tok/s ({written:,} words came): main thread", share, BUSY, "of its time")
        session.stop()
        self.until(lambda: not session.is_busy)

    # --- stopping a real model ---

    def stop_answers(self) -> None:
        self.until(lambda: self.context.models.info is not None)
        for name, prompt, words in (("writing", ENDLESS, 5), ("reading", WORDS * 90, 0)):
            waits: list[float] = []
            asked = 0
            while len(waits) < STOPS:
                asked += 1
                # A prompt that is to be read must not be one that was read before.
                if (wait := self._stop(prompt if words else f"{asked}: {prompt}", words)) is not None:
                    waits.append(wait * 1000)
                if asked > 2 * STOPS:
                    raise SystemExit(f"The model ends its answers by itself: {asked - len(waits)} of {asked}.")
            waits.sort()
            print(f"stopped while {name}, {STOPS} times of {asked}: median {statistics.median(waits):.0f} ms")
            self.tell("… at most", waits[-1], STOP_MS, "ms")

    def _stop(self, prompt: str, words: int) -> float | None:
        """Seconds until an answer that has so many words (0: a prompt that is being read) was stopped; None where the
        model was faster with its end. That its text is kept is checked."""
        session = self.context.session
        session.new()
        session.set_parameters({"temperature": 0, "repetition_penalty": 1.0})  # so that it repeats itself for good
        session.send(prompt)
        answer = session.path()[-1]
        self.until(lambda: not session.is_busy or self._is_under_way(answer, words))
        shown, began = answer.content, time.perf_counter()
        session.stop()
        self.until(lambda: not session.is_busy)
        wait = time.perf_counter() - began
        if answer.status is Status.COMPLETE:
            return None
        assert answer.content.startswith(shown) and answer.status is Status.STOPPED, answer
        return wait

    def _is_under_way(self, answer: Message, words: int) -> bool:
        generation = self.context.session.generation
        assert generation is not None, answer
        return len(answer.content.split()) >= words if words else generation.prefilled_tokens > 0

    def close(self) -> None:
        self.context.close()
        self.context.window.close()
        self.context.window.deleteLater()
        self.application.processEvents()


def fill(database: Path) -> None:
    """A conversation of 10,000 messages, and one of 1,000."""
    store = ConversationStore(database)
    for key, count in (("long", MESSAGES), ("short", 1000)):
        store.put_conversation(Conversation(key, key))
        parents = [None, *(f"{key}-{number}" for number in range(count))]
        store.put_messages(
            Message(
                f"{key}-{number}",
                key,
                parents[number],
                "assistant" if number % 2 else "user",
                f"{number}. {ANSWER if number % 2 else WORDS * 3}",
                created_at=float(number),
            )
            for number in range(count)
        )
    store.close()


def main() -> int:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    model = Path(sys.argv[1]) if len(sys.argv) > 1 else ensure_starter_model()
    hold_singletons()
    random.seed(1)
    application = QApplication([])
    application.setStyle(QStyleFactory.create("Fusion"))
    parser.warm_up()
    highlight.warm_up()
    engines: list[ScriptedEngine] = []

    def scripted(on_event: Callable) -> ScriptedEngine:
        engines.append(ScriptedEngine(on_event))
        engines[0].info = model_info()
        engines[0].answer = None
        return engines[0]

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "models").mkdir()
        (folder / "models" / "scripted.gguf").write_bytes(b"GGUF")
        fill(DataFolder(folder).database)
        bench = Bench(application, folder, scripted)
        bench.open_long()
        bench.stream(engines[0])
        bench.close()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "models").mkdir()
        (folder / "models" / model.name).symlink_to(model)
        real = Bench(application, folder, make_engine)
        real.stop_answers()
        real.close()
    return int(not (bench.within_bounds and real.within_bounds))


if __name__ == "__main__":
    sys.exit(main())
