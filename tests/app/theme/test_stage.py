"""What the tool that takes pictures of every page shows, and what it leaves behind."""

from __future__ import annotations

import shiboken6
from PySide6.QtWidgets import QApplication

from app.theme.tokens import THEMES
from tests.screenshots import Stage


def test_pictures_follow_once_all_is_in_the_theme_and_the_window_goes_with_its_stage(qapp: QApplication):
    for theme in ("light", "dark"):
        stage = Stage(qapp, theme)
        window = stage.start().window
        colours = {widget.palette().text().color().name() for widget in (window.sidebar.search, window.sidebar.list)}
        stage.stop()
        assert colours == {THEMES[theme].text}
        assert not shiboken6.isValid(window)
