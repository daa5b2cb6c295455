"""Links lead to the web or to mail, and only when their owner says so."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QMessageBox, QWidget

from app.chat.link_question import ask_to_open


@pytest.fixture
def opened(monkeypatch):
    urls: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: urls.append(url.toString()))
    return urls


@pytest.mark.parametrize("link", ["https://example.org/a?b=c", "http://example.org", "mailto:a@example.org"])
@pytest.mark.parametrize("answer", [QMessageBox.StandardButton.Open, QMessageBox.StandardButton.Cancel])
def test_nothing_is_opened_unasked(qtbot, opened, link, answer):
    parent = QWidget()
    qtbot.addWidget(parent)
    box = ask_to_open(link, parent)
    assert box.informativeText() == link and opened == []
    qtbot.mouseClick(box.button(answer), Qt.MouseButton.LeftButton)
    assert opened == ([link] if answer is QMessageBox.StandardButton.Open else [])


@pytest.mark.parametrize("link", ["file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "/etc/passwd", ""])
def test_other_addresses_are_not_even_offered(qtbot, opened, link):
    parent = QWidget()
    qtbot.addWidget(parent)
    assert ask_to_open(link, parent) is None
    assert opened == []
