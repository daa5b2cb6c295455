"""Streams: ordered queues of tasks, ordered among each other by events; and the clock that times them.

A task is prepared once and replayed every step. An event joins one task to one later task of another stream: `wait`
takes what `set` gave and leaves the event as it was, ready for the next step. Where a task fails or a step is
left, the rest of its launch passes its events on without working, so that no stream is ever stuck.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Event:
    """One task's end, for one task of another stream. Carries the time of the end on the launch's clock."""

    __slots__ = ("_lock", "_time")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._time = 0.0

    def set(self, at: float) -> None:
        self._time = at
        self._lock.release()

    def wait(self) -> float:
        self._lock.acquire()
        return self._time

    def is_set_within(self, seconds: float) -> bool:
        """Whether it was set by then; if so, it is taken as by `wait`."""
        return self._lock.acquire(timeout=seconds)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """`work` after all `waits`; `cost` is what a virtual clock takes it to last, in seconds.

    `reads` and `writes` name the memory it touches, so that a schedule can be checked for missing waits.
    """

    name: str
    lane: str  # "CPU", "GPU" or "link"
    work: Callable[[], None]
    waits: tuple[Event, ...] = ()
    signals: tuple[Event, ...] = ()
    cost: Callable[[], float] = lambda: 0.0
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Span:
    """A task as it was run; seconds on the launch's clock."""

    lane: str
    stream: str
    name: str
    begin: float
    end: float


@dataclass(slots=True, eq=False)
class Launch:
    """One replay of tasks over several streams. `is_left` makes what has not begun pass by; so does a failure.

    `begin` is when it was launched on a virtual clock, `ends` when each stream was done with it.
    """

    begin: float = 0.0
    ends: dict[str, float] = field(default_factory=dict)
    spans: list[Span] | None = None  # filled where a trace is wanted
    is_left: bool = False
    failure: BaseException | None = None
    busy: dict[str, float] = field(default_factory=dict)  # seconds of work per lane

    @property
    def is_over(self) -> bool:
        return self.is_left or self.failure is not None

    def check(self) -> None:
        """Raises what a task raised."""
        if self.failure is not None:
            raise self.failure


class Clock(Protocol):
    def run(self, task: Task, ready: float, stream_free: float) -> tuple[float, float]:
        """Does the task's work; when it began and ended. `ready`: when what it waits for had ended."""


class WallClock:
    def run(self, task: Task, ready: float, stream_free: float) -> tuple[float, float]:
        begin = time.perf_counter()
        task.work()
        return begin, time.perf_counter()


class VirtualClock:
    """Tasks last what they are said to cost, however long they really take; order comes from streams and events."""

    def run(self, task: Task, ready: float, stream_free: float) -> tuple[float, float]:
        task.work()
        begin = max(ready, stream_free)
        return begin, begin + task.cost()


def execute(tasks: Sequence[Task], launch: Launch, clock: Clock, stream: str, free: float) -> float:
    """Runs tasks in order in this thread; when the last one ended, `free` being when the stream was free."""
    busy, end = launch.busy, free
    for task in tasks:
        ready = launch.begin
        for event in task.waits:
            ready = max(ready, event.wait())
        if not launch.is_over:
            try:
                begin, end = clock.run(task, ready, end)
            except BaseException as failure:
                launch.failure = failure
            else:
                busy[task.lane] = busy.get(task.lane, 0.0) + end - begin
                if launch.spans is not None:
                    launch.spans.append(Span(task.lane, stream, task.name, begin, end))
        for event in task.signals:
            event.set(end)
    launch.ends[stream] = end
    return end


class Stream:
    """A queue with a thread of its own that runs what is launched, in order."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self._free = 0.0
        self._queue: queue.SimpleQueue[tuple[Sequence[Task], Launch, Event] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"stream {name}", daemon=True)
        self._thread.start()

    def launch(self, tasks: Sequence[Task], launch: Launch) -> Event:
        """Queues tasks and returns at once; the event tells when the last one has ended."""
        done = Event()
        self._queue.put((tasks, launch, done))
        return done

    def close(self) -> None:
        """Returns when everything launched has run."""
        self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            tasks, launch, done = item
            self._free = execute(tasks, launch, self._clock, self.name, self._free)
            done.set(self._free)
            del item, tasks, launch, done


class InlineStream:
    """The CPU's queue: runs in the thread that launches. Launch the others first."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self._free = 0.0

    def launch(self, tasks: Sequence[Task], launch: Launch) -> None:
        self._free = execute(tasks, launch, self._clock, self.name, self._free)
