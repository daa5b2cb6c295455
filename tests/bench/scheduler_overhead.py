"""What Python costs per decode step on the shape of Qwen3-30B-A3B: 48 layers of 128 experts, 8 used, two devices.

    python -m tests.bench.scheduler_overhead [--device cuda] [--tasks]

Steps of few tokens run natively from their first task to their last; what is left is Python before and after: making
the batch, counting uses, choosing promotions. Told as processor time of the engine's thread, without the native part's,
and as the number of calls. With `--device cuda` steps are graphs of the stand-in driver; what its functions take does
not count, as it says nothing of a card's. With `--tasks` the emulated device's tasks are run one by one, as those of a
prompt, over programs that do nothing: as processor time of all threads (waking them up included), of the engine's own,
and as wall time; then each stream's tasks alone in one thread, without hand-offs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.hub.starter import ensure_starter_model
from engine.runtime.devices import Device, Launch, LinkRates, Task
from engine.runtime.devices.streams import execute
from engine.runtime.executor import Chunk
from engine.runtime.placement import Placement
from tests.support.hybrid_model import HybridModel, banks_of, items_of
from tests.support.stand_in_card import no_compiler, open_card, stand_in
from tests.support.tiny_models import TinyModel, tiny_model_factory

SHAPE = TinyModel(
    "qwen3moe", "Q8_0", layers=48, experts=128, experts_used=8,
    embedding=32, heads=1, kv_heads=1, head_dim=32, feed_forward=32,
)  # fmt: skip
SLOTS = 40


class IdleProgram:
    """Has a native program's face and does nothing: values stay as the last real run left them."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self._rows: dict[int, Any] = {}
        self._random = np.random.default_rng(0)
        self.set_expert_mask = native.set_expert_mask

    def run(self, pool: object, batch: object, begin: int = 0, end: int = -1) -> None:
        """Nothing."""

    def write(self, handle: int, rows: Any) -> None:
        """Nothing."""

    def read(self, handle: int) -> Any:
        if handle not in self._rows:
            rows = self._native.read(handle).copy()
            if rows.dtype == np.int32:
                rows[:] = self._random.permutation(SHAPE.experts)[: rows.shape[1]]
            self._rows[handle] = rows
        return self._rows[handle]


def open_model(folder: Path, device: Device | None = None) -> HybridModel:
    """Everything but the embedding on the device, and `SLOTS` experts of each layer."""
    path = tiny_model_factory(folder, ensure_starter_model)(SHAPE)
    model = HybridModel(path, link=LinkRates(1e12, 0.0), device=device)
    items = frozenset(item for item in items_of(model.graph) if item != "embedding")
    model.place(Placement(items, dict.fromkeys(banks_of(model.graph), SLOTS)))
    return model


class TimedStreams:
    """Native streams that note how much processor time of the calling thread they take."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self.seconds = 0.0
        self.busy_seconds = native.busy_seconds

    def run(self) -> None:
        begin = time.thread_time()
        self._native.run()
        self.seconds += time.thread_time() - begin


def measure_native(model: HybridModel, steps: int) -> list[float]:
    """Per step: processor seconds of this thread that are Python's."""
    state, executor = model.new_state(), model.executor
    model.extend(state, [1])
    step = executor._graphs._steps[1]  # type: ignore[union-attr]
    step._streams = timed = TimedStreams(step._streams)
    times = []
    for _ in range(steps):
        state.reserve(1)
        begin, before = time.thread_time(), timed.seconds
        executor.run([Chunk(state, [1], 0)])
        times.append(time.thread_time() - begin - (timed.seconds - before))
        state.commit([1])
    print(f"calls of functions, Python's and C's: {count_calls(model, state)}")
    state.release()
    return times


def count_calls(model: HybridModel, state: Any) -> int:
    """Of one step."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    state.reserve(1)
    sys.setprofile(note)
    model.executor.run([Chunk(state, [1], 0)])
    sys.setprofile(None)
    return count


def measure(model: HybridModel, steps: int) -> list[tuple[float, float, float]]:
    """Per step: processor seconds of all threads, of this thread, and wall seconds."""
    state, executor = model.new_state(), model.executor
    executor._graphs = None
    model.extend(state, [1])
    for side in executor._sides.values():
        side.program = replace(side.program, program=IdleProgram(side.program.program))  # type: ignore[arg-type]
    times = []
    for _ in range(steps):
        state.reserve(1)
        begin = time.process_time(), time.thread_time(), time.perf_counter()
        executor.run([Chunk(state, [1], 0)])
        times.append((time.process_time() - begin[0], time.thread_time() - begin[1], time.perf_counter() - begin[2]))
    return times


class TimedLibrary:
    """A driver's library that notes how much processor time of the thread that made it its functions take."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self._thread = threading.get_ident()
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._native, name)

        def timed(*args: object) -> Any:
            if threading.get_ident() != self._thread:  # promotions, on a stream of their own
                return function(*args)
            begin = time.thread_time()
            result = function(*args)
            self.seconds += time.thread_time() - begin
            return result

        setattr(self, name, timed)
        return timed


def measure_captured(folder: Path, steps: int) -> list[float]:
    """Per replayed step: processor seconds of this thread that are Python's."""
    with no_compiler():
        model = open_model(folder, open_card(folder))
        state = model.new_state()
        for _ in range(3):
            model.extend(state, [1])
        driver, times = stand_in(), []
        driver.library = timed = TimedLibrary(driver.library)  # type: ignore[assignment]
        for _ in range(steps):
            state.reserve(1)
            begin, before = time.thread_time(), timed.seconds
            model.executor.run([Chunk(state, [1], 0)])
            times.append(time.thread_time() - begin - (timed.seconds - before))
            state.commit([1])
        driver.library = timed._native
        print(f"calls of functions, Python's and C's: {count_calls(model, state)}")
        state.release()
        model.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", choices=("emulated", "cuda"), default="emulated")
    parser.add_argument("--tasks", action="store_true", help="one by one, on the emulated device")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.device == "cuda":
            tell("captured steps", measure_captured(Path(folder), options.steps))
            return
        if not options.tasks:
            model = open_model(Path(folder))
            tell("native steps", measure_native(model, options.steps))
            model.close()
            return
        model = open_model(Path(folder))
        times = measure(model, options.steps)
        schedule = model.executor.schedule
        assert schedule is not None
        counts = {name: len(tasks) for name, tasks in schedule.streams.items()}
        print(f"tasks per step: {counts}")
        for name, column in zip(("all threads", "engine thread", "wall"), zip(*times, strict=True), strict=True):
            print(f"{name:<14} median {1e3 * statistics.median(column):6.3f} ms   best {1e3 * min(column):6.3f} ms")
        for name, tasks in schedule.streams.items():
            seconds = [alone(tasks, model) for _ in range(options.steps)]
            print(f"{name:<14} alone  {1e3 * statistics.median(seconds):6.3f} ms   best {1e3 * min(seconds):6.3f} ms")
        model.close()


def tell(what: str, seconds: Sequence[float]) -> None:
    print(
        f"{what}, engine thread: median {1e3 * statistics.median(seconds):.3f} ms, "
        f"mean {1e3 * statistics.mean(seconds):.3f} ms, best {1e3 * min(seconds):.3f} ms"
    )


def alone(tasks: Sequence[Task], model: HybridModel) -> float:
    """Processor seconds of a stream's tasks that wait for nobody and wake nobody."""
    bare = [replace(task, waits=(), signals=()) for task in tasks]
    begin = time.thread_time()
    execute(bare, Launch(), model.device.clock, "alone", 0.0)
    return time.thread_time() - begin


if __name__ == "__main__":
    main()
