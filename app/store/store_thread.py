"""The thread that owns the conversations file, so that no disk ever holds up the window."""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from app.store.conversations import ConversationStore
from app.store.errors import StoreError

T = TypeVar("T")
Deliver = Callable[[Callable[[], None]], None]

SAVE_INTERVAL = 0.15  # seconds between saves of a streaming answer; the promise is at most 0.25
COPY_AFTER = 2.0  # seconds without a call after which the file is copied, so that no start waits for that
RETRY_INTERVAL = 1.0  # seconds between attempts to write what found no room

# Primary result codes of failures that may pass without anybody's fault in the data (sqlite.org/rescode.html).
_PASSING = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
    }
)


@dataclass(slots=True)
class _Write:
    """A change of the file; `texts` are the streaming answers that it saves, if that is all it does."""

    function: Callable[[ConversationStore], Any]
    on_error: Callable[[Exception], None]
    texts: dict[str, str] | None = None


class StoreThread:
    """Runs calls on a ConversationStore in order, and saves streaming text every SAVE_INTERVAL.

    `deliver` brings results back to the caller's thread. `on_error` is told, there, what no caller asked for.
    """

    def __init__(self, path: Path, deliver: Deliver, on_error: Callable[[Exception], None]) -> None:
        self._path = path
        self._deliver = deliver
        self._on_error = on_error
        self._calls: queue.SimpleQueue[Callable[[ConversationStore], None] | None] = queue.SimpleQueue()
        self._texts: dict[str, str] = {}
        self._texts_lock = threading.Lock()
        self._waiting: deque[_Write] = deque()  # writes that found no room, in order
        self._is_failing = False
        self._saveable: set[str] = set()  # ids whose text was handed over before the call being run
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def call(
        self,
        function: Callable[[ConversationStore], T],
        on_done: Callable[[T], None] | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Queue `function`; all calls run in the order they were made.

        One without `on_done` writes. Where the disk is full it waits, and so do the writes after it, until there is
        room again; so it must do no harm to run it twice.
        """
        handler = on_error or self._on_error

        def run(store: ConversationStore) -> None:
            self._flush_texts(store)
            if on_done is None:
                self._write(store, _Write(function, handler))
                return
            self._put_back(store)
            try:
                result: Any = function(store)
            except Exception as error:
                failure = error
                self._deliver(lambda: handler(failure))
                return
            self._deliver(lambda: on_done(result))

        self._calls.put(run)

    def save_text(self, message_id: str, text: str) -> None:
        """The text so far of an answer; only the newest one is written. Costs the caller nothing."""
        with self._texts_lock:
            is_known = message_id in self._texts
            self._texts[message_id] = text
        if not is_known:  # in the queue's order: the message itself may still wait there to be inserted
            self._calls.put(lambda _: self._saveable.add(message_id))

    def close(self, timeout: float = 10.0) -> None:
        """Write everything that waits, then close the file."""
        self._calls.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        store = self._open()
        last_save = 0.0
        idle: float | None = COPY_AFTER
        try:
            while True:
                # With nothing streaming, wait without waking.
                wait = max(0.0, last_save + SAVE_INTERVAL - time.monotonic()) if self._saveable else idle
                if self._waiting:
                    wait = RETRY_INTERVAL
                try:
                    call = self._calls.get(timeout=wait)
                except queue.Empty:
                    store.take_copy()
                    idle = None
                    self._flush_texts(store)
                    self._write_waiting(store)
                    last_save = time.monotonic()
                    continue
                if call is None:
                    break
                call(store)
            self._put_back(store)  # where nothing waits, too
            self._flush_texts(store)
            self._write_waiting(store)
        finally:
            store.close()

    def _flush_texts(self, store: ConversationStore) -> None:
        with self._texts_lock:
            texts = {key: self._texts.pop(key) for key in self._saveable}
        self._saveable.clear()
        if not texts:
            return
        last = self._waiting[-1] if self._waiting else None
        if last is not None and last.texts is not None:
            last.texts.update(texts)  # newer text takes the place of what could not be saved
        else:
            self._write(store, _Write(lambda store: store.save_texts(texts), self._on_error, texts))

    def _write(self, store: ConversationStore, write: _Write) -> None:
        self._waiting.append(write)
        self._write_waiting(store)

    def _write_waiting(self, store: ConversationStore) -> None:
        """Do what waits, in order, up to what finds no room."""
        if self._waiting and not self._put_back(store):
            return
        while self._waiting:
            write = self._waiting[0]
            try:
                write.function(store)
            except Exception as error:
                failure, handler = error, write.on_error
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING:
                    self._tell_unsaved(error)
                    return
                self._deliver(lambda handler=handler, failure=failure: handler(failure))  # type: ignore[misc]
            self._waiting.popleft()
        self._is_failing = False

    def _put_back(self, store: ConversationStore) -> bool:
        """A file that was deleted or replaced while it is open comes back with all that it held. False where that
        fails as yet."""
        try:
            done = store.put_back()
        except (sqlite3.Error, OSError) as error:
            self._tell_unsaved(error)
            return False
        if done is not None:
            told = _taken_away(self._path) if done.other is None else _replaced(self._path, done.other)
            self._deliver(lambda: self._on_error(told))
        return True

    def _tell_unsaved(self, error: Exception) -> None:
        """Saving is tried again and again, but that it fails is told once."""
        if not self._is_failing:
            unsaved = _unsaved(self._path, error)
            self._deliver(lambda: self._on_error(unsaved))
        self._is_failing = True

    def _open(self) -> ConversationStore:
        """The store; a new one where the file is damaged, one in memory where it cannot be used at all."""
        failure: Exception
        try:
            return ConversationStore(self._path)
        except StoreError as error:
            failure = error
        except (sqlite3.Error, OSError) as error:
            failure = _unusable(self._path, error)
            if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                failure = _set_aside(self._path, error)
                store = ConversationStore(self._path)
                self._deliver(lambda: self._on_error(failure))
                return store
        self._deliver(lambda: self._on_error(failure))
        return ConversationStore(Path(":memory:"))


def _unsaved(path: Path, error: Exception) -> StoreError:
    return StoreError(
        f"The conversations cannot be saved: {error}.",
        done="They are kept in memory, and saving is tried again and again.",
        remedy=f"Check the free space and the permissions of {path.parent}.",
    )


def _taken_away(path: Path) -> StoreError:
    return StoreError(
        f"The conversations file {path} was taken away while Tessera used it.",
        done="It was written anew, with all conversations.",
        remedy="To move it or to put a backup in its place, close Tessera first.",
    )


def _replaced(path: Path, other: Path) -> StoreError:
    return StoreError(
        f"The conversations file {path} was replaced by another one while Tessera used it.",
        done=f"It was written anew, with all conversations of this session; the other one was kept as {other.name}.",
        remedy="To use the other one, close Tessera and put it in the file's place.",
    )


def _unusable(path: Path, error: Exception) -> StoreError:
    return StoreError(
        f"The conversations file {path} cannot be used: {error}.",
        done="This session's conversations are kept in memory only.",
        remedy="Check the folder's permissions and free space, then start Tessera again.",
    )


def _set_aside(path: Path, error: Exception) -> StoreError:
    """Move a damaged database (with its log) out of the way; nothing is deleted."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    kept = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
    for suffix in ("", "-wal", "-shm"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            try:
                source.replace(kept.with_name(kept.name + suffix))
            except OSError:
                break
    return StoreError(
        f"The conversations file {path.name} is damaged: {error}.",
        done=f"It was kept as {kept.name} beside a new, empty one.",
        remedy="A backup in the same folder can be put in its place while Tessera is closed.",
    )
