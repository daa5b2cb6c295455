"""A process that streams an answer into a conversations file until it is killed: `streaming_writer.py DATABASE`.

Every piece of text is told on standard output, with the time it was handed to the store, before it is handed over.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from app.store.records import Conversation, Message, Status
from app.store.store_thread import StoreThread


def main() -> None:
    def fail(error: Exception) -> None:
        raise error

    store = StoreThread(Path(sys.argv[1]), deliver=lambda function: function(), on_error=fail)
    store.start()
    store.call(lambda s: s.put_conversation(Conversation("c", "killed")))
    answer = Message("a", "c", None, "assistant", "", status=Status.STREAMING)
    ready = threading.Event()
    store.call(lambda s: s.put_messages([answer]), on_done=lambda _: ready.set())
    ready.wait()
    print("ready", flush=True)
    text = ""
    for number in range(1_000_000):
        text += f"word{number} "
        sys.stdout.write(f"{time.monotonic()} {len(text)}\n")
        sys.stdout.flush()
        store.save_text("a", text)
        time.sleep(0.004)


if __name__ == "__main__":
    main()
