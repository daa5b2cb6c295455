"""In a window of 440 pixels nothing of the library is cut off, and nothing has to be scrolled sideways."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QAbstractScrollArea, QScrollArea

from app.settings.values import Settings
from tests.app.library.test_discover import open_card, publish
from tests.app.library.test_models_page import put


@pytest.mark.parametrize("language", ["en", "zh_CN"])
def test_nothing_is_wider_than_the_window(open_library, qtbot, data_folder, language):
    Settings(data_folder.settings).set("language", language)
    library = open_library()
    library.app.window.resize(440, 560)
    publish(library)
    path = put(library, "A-Model-With-A-Rather-Long-Name-And-No-Space-In-It-128K-Instruct-Q8_0.gguf", qtbot)
    library.tab("models").table.select(path)
    qtbot.waitUntil(lambda: wide(library) == [])
    page = open_card(library, qtbot)
    page.view.rows[0].download_pressed.emit()
    qtbot.waitUntil(lambda: wide(library) == [])
    library.tab("downloads")
    qtbot.waitUntil(lambda: bool(library.controller.downloads.statuses))
    qtbot.waitUntil(lambda: wide(library) == [])
    assert library.app.window.width() == 440


def wide(library) -> list[str]:
    """Visible areas that scroll sideways, or whose contents reach behind their edge."""
    found = []
    for area in library.page.findChildren(QAbstractScrollArea):
        if not area.isVisible():
            continue
        inner = area.widget().width() if isinstance(area, QScrollArea) else 0
        if area.horizontalScrollBar().maximum() > 0 or inner > area.viewport().width():
            found.append(f"{type(area).__name__} {area.objectName()}: {inner} in {area.viewport().width()}")
    return found
