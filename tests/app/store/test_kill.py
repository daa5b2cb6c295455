"""kill -9 at random moments of streaming and saving: the file opens, and only the last moment is missing."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time

from app.store.conversations import ConversationStore
from app.store.records import Status

PROMISE = 0.25  # seconds of text that may be missing
SCHEDULING = 0.75  # seconds that a loaded machine may keep a ready thread waiting; the long form knows no excuse


def run_and_kill(database, seconds: float) -> tuple[list[tuple[float, int]], float]:
    """The (time, length of text) pairs that were handed over, and when the process was killed."""
    command = [sys.executable, "-m", "tests.support.streaming_writer", str(database)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    told: list[tuple[float, int]] = []
    ready = threading.Event()

    def read() -> None:
        for line in process.stdout:
            first, *rest = line.split()
            if first == "ready":
                ready.set()
            elif rest and line.endswith("\n"):
                told.append((float(first), int(rest[0])))

    reader = threading.Thread(target=read)
    reader.start()
    assert ready.wait(30)
    time.sleep(seconds)
    killed_at = time.monotonic()
    process.send_signal(signal.SIGKILL)
    process.wait()
    reader.join()
    process.stdout.close()
    return told, killed_at


def test_killed_while_streaming(tmp_path, soak):
    moments = random.Random(7)
    for number in range(100 if soak else 6):
        database = tmp_path / f"{number}.db"
        told, killed_at = run_and_kill(database, moments.uniform(0.0, 2.0 if soak else 0.9))
        store = ConversationStore(database)
        (answer,) = store.messages("c")
        store.close()
        # Nothing is asked of a process after it last had its turn; until then it had to keep its promise.
        until = told[-1][0] - PROMISE if soak and told else killed_at - PROMISE - SCHEDULING
        due = max((length for moment, length in told if moment < until), default=0)
        written = "".join(f"word{i} " for i in range(len(told) + 1))
        assert written.startswith(answer.content)
        assert len(answer.content) >= due
        assert answer.status is Status.INTERRUPTED
