"""How the window moves: python -m tests.bench.library_frames

A list of a thousand repositories is scrolled, then four downloads run beside the downloads page. A frame is one turn
of the event loop and what the window paints at its end, as on a screen: what has changed, and not what stands.
Printed is what it took the window's thread: on the clock, and of processor time (which other programs on the machine
do not lengthen). The hub runs in a process of its own with the lowest priority: in reality another computer does its
work.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication, QStyleFactory, QWidget

from app.context import AppContext
from app.crash import CrashHandler
from app.environment import DataFolder
from app.library.hub_services import HubServices
from app.library.results_model import ResultRow
from app.none_guard import hold_singletons
from engine.hub.connection import HubSettings
from engine.hub.repository import open_repository
from tests.support.hub_content import Noise, Repository
from tests.support.hub_server import FakeHub
from tests.support.scripted_engine import ScriptedEngine

FRAMES = 240
FRAME = 1 / 60
START = 3.0  # seconds
SIZE = 600_000_000
GIGABIT = 118e6  # bytes per second that such a line delivers


def measure(name: str, window: QWidget, step: Callable[[int], None] | None = None) -> None:
    """Turns at 60 Hz, as a screen asks for them; prints milliseconds."""
    clock: list[float] = []
    processor: list[float] = []
    for _ in range(3):  # it was on screen before
        paint(window)
    for number in range(FRAMES):
        begin, used = time.perf_counter(), time.thread_time()
        if step is not None:
            step(number)
        paint(window)
        clock.append(1000 * (time.perf_counter() - begin))
        processor.append(1000 * (time.thread_time() - used))
        time.sleep(max(0.0, FRAME - clock[-1] / 1000))
    for kind, times in (("clock", sorted(clock)), ("processor", sorted(processor))):
        shares = "  ".join(f"{share} % {times[len(times) * share // 100]:5.1f}" for share in (50, 95, 99))
        print(f"{name:32} {kind:9}  {shares}  worst {times[-1]:5.1f} ms")
    late = [(number, round(one, 1)) for number, one in enumerate(clock) if one > 1000 * FRAME]
    print(f"{name:32} longer than {1000 * FRAME:.1f} ms: {len(late)} of {FRAMES} {late[:4] or ''}")


def paint(window: QWidget) -> None:
    """A turn of the event loop, then what a screen's frame makes the window do: bring what changed up to date."""
    QApplication.processEvents()
    QApplication.sendEvent(window, QEvent(QEvent.Type.UpdateRequest))


def serve() -> tuple[str, int]:
    """A hub with four models in a child process; its address and the process."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.nice(19)
        with FakeHub() as hub:
            for number in range(4):
                hub.add(Repository(f"maker/{number}", {f"model{number}-Q4_0.gguf": Noise(SIZE, number)})).tree()
            os.write(writing, hub.url.encode())
            time.sleep(300)
        os._exit(0)
    return os.read(reading, 100).decode(), child


def main() -> None:
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    hold_singletons()
    url, hub = serve()
    application = QApplication([])
    application.setStyle(QStyleFactory.create("Fusion"))
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        folder = DataFolder(root / "data")
        context = AppContext(application, folder, CrashHandler(folder.logs), ScriptedEngine)
        context.library.factory = lambda: HubServices(
            root, root / "models", HubSettings(url, proxy="none"), parallel=4, places=(), cache=root / "cache"
        )
        context.window.resize(1240, 800)
        context.window.show()
        context.window.show_page("library")
        page = context.window.page("library")
        while context.library.services is None:
            application.processEvents()
        services = context.library.services

        discover = page.show_tab("discover")
        rows = [ResultRow(f"maker/{n}", f"Repository {n}", "maker", "7B parameters  ·  1M likes") for n in range(1000)]
        discover.model.show(rows)
        bar = discover.list.verticalScrollBar()
        end = time.perf_counter() + START
        while time.perf_counter() < end:  # what the start leaves to do after the window is on screen
            application.processEvents()
            time.sleep(0.01)
        measure("scrolling 1,000 repositories", context.window, lambda n: bar.setValue(n * 97))

        page.show_tab("downloads")
        measure("downloads page, idle", context.window)
        for number in range(4):
            card = open_repository(services.connect(), f"maker/{number}")
            services.download(card, card.listing.models[0])
        context.library.downloads.watch()
        services.downloads.limit(bytes_per_second=GIGABIT)
        measure("with 4 downloads at 1 Gbit/s", context.window)
        services.downloads.limit(bytes_per_second=0)
        measure("with 4 downloads at full speed", context.window)
        done = sum(status.done for status in context.library.downloads.statuses)
        print(f"{done / 1e6:.0f} MB were fetched meanwhile")
        context.close()
    os.kill(hub, signal.SIGKILL)


if __name__ == "__main__":
    main()
