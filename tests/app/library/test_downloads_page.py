"""The downloads page: progress, orders, and the title."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox

from app.library.download_row import DownloadRow
from app.library.downloads_page import DownloadsPage
from engine.hub.download_status import State
from engine.hub.repository import open_repository
from tests.app.library.conftest import Opened
from tests.support.hub_content import Noise, Repository
from tests.support.hub_faults import Fault

MIB = 1 << 20


def start_downloads(library: Opened, *names: str, size: int = 16 * MIB) -> list[str]:
    """Downloads at half a megabyte per second each, so long that none is over while a test looks; ids in order."""
    library.hub.every = lambda number: Fault(rate=500_000)
    services, ids = library.controller.services, []
    for seed, name in enumerate(names):
        library.hub.add(Repository(f"maker/{name}", {f"{name}-Q4_0.gguf": Noise(size, seed)}))
        card = open_repository(services.connect(), f"maker/{name}")
        ids.append(services.download(card, card.listing.models[0]))
    library.controller.downloads.watch()
    return ids


def status(library: Opened, id: str):
    return next(one for one in library.controller.downloads.statuses if one.id == id)


def wait_for_progress(page: DownloadsPage, id: str, qtbot) -> DownloadRow:
    """The row, once it shows that some was fetched: it follows what the controller knows a moment later."""
    qtbot.waitUntil(lambda: id in page.rows and page.rows[id].bar.value() > 0)
    return page.rows[id]


def test_progress_pause_resume_and_title(library, qtbot):
    page = library.tab("downloads")
    (id,) = start_downloads(library, "alpha")
    row = wait_for_progress(page, id, qtbot)
    assert row.name.text() == "alpha-Q4_0"
    assert " of 16.8 MB" in row.words.line
    qtbot.waitUntil(lambda: "1 download" in library.app.window.windowTitle())
    qtbot.mouseClick(row.toggle, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: status(library, id).state is State.PAUSED)
    qtbot.waitUntil(lambda: "download" not in library.app.window.windowTitle())
    assert row.toggle.toolTip() == "Resume"
    library.hub.every = None
    qtbot.mouseClick(row.toggle, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: status(library, id).state is State.DONE, timeout=10_000)
    assert not row.toggle.isVisible()
    qtbot.mouseClick(page.clear, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not page.rows)
    assert "Nothing is being downloaded" in page.notice.cause.text()


def test_reorder_and_cancel_with_a_question(library, qtbot, monkeypatch):
    library.controller.services.downloads.limit(parallel=1)
    page = library.tab("downloads")
    first, second, third = start_downloads(library, "alpha", "beta", "gamma")
    wait_for_progress(page, first, qtbot)
    ends = [(page.rows[id].up.isEnabled(), page.rows[id].down.isEnabled()) for id in (first, second, third)]
    assert ends == [(False, True), (True, True), (True, False)]
    qtbot.mouseClick(page.rows[third].up, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: [one.id for one in library.controller.downloads.statuses] == [first, third, second])
    asked: list[str] = []

    def answer(button):
        def question(parent, title, text, *buttons):
            asked.append(text)
            return button

        return question

    monkeypatch.setattr(QMessageBox, "question", answer(QMessageBox.StandardButton.No))
    qtbot.mouseClick(page.rows[first].cancel, Qt.MouseButton.LeftButton)
    assert "will be removed" in asked[0]
    assert first in page.rows
    monkeypatch.setattr(QMessageBox, "question", answer(QMessageBox.StandardButton.Yes))
    qtbot.mouseClick(page.rows[first].cancel, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: first not in page.rows)
    qtbot.mouseClick(page.rows[second].cancel, Qt.MouseButton.LeftButton)  # nothing fetched yet: not asked
    qtbot.waitUntil(lambda: second not in page.rows)
    assert len(asked) == 2


def test_reason_for_waiting_is_shown(library, qtbot):
    page = library.tab("downloads")
    services = library.controller.services
    library.hub.add(Repository("maker/alpha", {"alpha-Q4_0.gguf": Noise(MIB)}))
    card = open_repository(services.connect(), "maker/alpha")
    library.hub.hub_faults.append(Fault(status=429, headers={"Retry-After": "9"}))
    id = services.download(card, card.listing.models[0])
    library.controller.downloads.watch()
    qtbot.waitUntil(lambda: "9 s" in page.rows[id].note.text())


def test_unfinished_ones_are_there_after_a_restart(open_library, qtbot):
    first = open_library()
    (id,) = start_downloads(first, "alpha")
    qtbot.waitUntil(lambda: status(first, id).done > 200_000)
    first.app.context.close()
    asked = len(first.hub.requests)
    second = open_library()
    page = second.tab("downloads")
    qtbot.waitUntil(lambda: id in page.rows)
    assert status(second, id).state is State.PAUSED
    assert status(second, id).done > 200_000
    assert len(second.hub.requests) == asked
    second.hub.every = None
    qtbot.mouseClick(page.resume_all, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: status(second, id).state is State.DONE, timeout=10_000)
