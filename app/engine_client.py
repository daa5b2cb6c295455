"""The only bridge between the window and the engine: commands in, batched events out.

Events arrive on the engine's thread and are drained on the main thread at most 16 times a second, which reads as
smoothly as more, so that a fast model cannot flood the event loop; nothing wakes it while the engine is idle.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from engine.messages import Command, EngineStopped, ErrorInfo, Event

DRAIN_INTERVAL = 1 / 16


class Arrival(NamedTuple):
    """An event and when it left the engine's thread (time.monotonic), however late it is drained."""

    time: float
    event: Event


class EngineLike(Protocol):
    """What the window needs of an engine."""

    def start(self) -> None: ...
    def send(self, command: Command) -> None: ...
    def close(self) -> None: ...


EngineFactory = Callable[[Callable[[Event], None]], EngineLike]


def make_engine(on_event: Callable[[Event], None]) -> EngineLike:
    """The real engine; importing it is left to the thread that calls this."""
    from engine.engine import Engine

    return Engine(on_event=on_event)


class EngineClient(QObject):
    """Starts the engine off the main thread; commands sent before it stands are kept in order."""

    drained = Signal(list)  # of Arrival, in order
    _arrived = Signal()

    def __init__(self, factory: EngineFactory = make_engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._factory = factory
        self._engine: EngineLike | None = None
        self._lock = threading.Lock()
        self._waiting: list[Command] = []
        self._events: deque[Arrival] = deque()
        self._announced = False
        self._last_drain = 0.0
        self._closed = False
        self._starter: threading.Thread | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._drain)
        self._arrived.connect(self._schedule, Qt.ConnectionType.QueuedConnection)

    def start(self) -> None:
        self._starter = threading.Thread(target=self._start_engine, name="engine-start", daemon=True)
        self._starter.start()

    def restart(self) -> None:
        """Another engine in place of one that has ended; commands wait until it stands."""
        with self._lock:
            self._engine = None
        self.start()

    def send(self, command: Command) -> None:
        with self._lock:
            if self._engine is None:
                self._waiting.append(command)
                return
            self._engine.send(command)

    def close(self) -> None:
        """Stop the engine and wait for it; no event is delivered afterwards."""
        self._closed = True
        self._timer.stop()
        if self._starter is not None:
            self._starter.join()
        if self._engine is not None:
            self._engine.close()

    def _start_engine(self) -> None:
        try:
            engine = self._factory(self._on_event)
            engine.start()
        except Exception as error:
            self._on_event(EngineStopped(ErrorInfo.from_exception(error)))
            return
        with self._lock:
            for command in self._waiting:
                engine.send(command)
            self._waiting.clear()
            self._engine = engine

    def _on_event(self, event: Event) -> None:
        """Called on the engine's thread."""
        self._events.append(Arrival(time.monotonic(), event))
        if not self._announced and not self._closed:
            self._announced = True
            self._arrived.emit()

    def _schedule(self) -> None:
        if not self._closed and not self._timer.isActive():
            due = self._last_drain + DRAIN_INTERVAL - time.monotonic()
            self._timer.start(max(0, int(due * 1000)))

    def _drain(self) -> None:
        """While events keep coming the timer looks for them; the first after a pause announces itself."""
        if not self._events:
            self._announced = False
            if not self._events:  # none came before the engine's thread could see that
                return
            self._announced = True
        self._last_drain = time.monotonic()
        events: list[Arrival] = []
        while self._events:
            events.append(self._events.popleft())
        if not self._closed:
            self._timer.start(round(DRAIN_INTERVAL * 1000))
            self.drained.emit(events)
