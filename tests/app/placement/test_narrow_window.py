"""No page scrolls sideways in the narrowest window that people use."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QScrollArea

PAGES = ("chat", "library", "memory", "preferences", "doctor", "logs", "gpu", "welcome")


def scroll_areas(page) -> list[QScrollArea]:
    found = page.findChildren(QScrollArea)
    return [area for area in (*found, page) if isinstance(area, QScrollArea) and area.isVisible()]


@pytest.mark.parametrize("key", PAGES)
def test_no_page_scrolls_sideways(app, qtbot, key):
    app.window.resize(440, 560)
    app.window.show_page(key)
    qtbot.wait(100)
    for area in scroll_areas(app.window.page(key)):
        assert area.horizontalScrollBar().maximum() == 0, area.objectName()


@pytest.mark.parametrize("gpu", ["RTX 4070", ""])
def test_the_memory_page_with_a_model_fits(open_memory, qtbot, gpu):
    opened = open_memory(gpu=gpu)
    opened.app.window.resize(440, 560)
    qtbot.waitUntil(lambda: opened.page.body.width() == opened.page.viewport().width() < 440)
    assert opened.page.horizontalScrollBar().maximum() == 0
    for card in opened.page._cards:
        assert card.width() <= opened.page.viewport().width()
