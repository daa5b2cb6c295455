"""Contrast, completeness of the stylesheet, icons, and how another theme comes onto an open window."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import QEvent, QObject, QSize
from PySide6.QtWidgets import QApplication, QFrame, QLabel, QVBoxLayout, QWidget

from app.assets import ICONS
from app.settings.values import Settings
from app.theme.icons import icon
from app.theme.theme import Theme, stylesheet
from app.theme.tokens import CONTRAST_PAIRS, THEMES, Colors, contrast


def test_contrast_of_known_pairs():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("ink", "ground", "least"), CONTRAST_PAIRS)
def test_wcag_aa(theme, ink, ground, least):
    colors = THEMES[theme]
    assert contrast(getattr(colors, ink), getattr(colors, ground)) >= least


def test_every_text_colour_is_checked():
    checked = {ink for ink, _, _ in CONTRAST_PAIRS}
    inks = {"text", "muted", "accent", "on_accent", "link", "danger", "warning", "on_tooltip"}
    inks |= {field.name for field in dataclasses.fields(Colors) if field.name.startswith("syntax_")}
    assert inks <= checked


@pytest.mark.parametrize("theme", THEMES)
def test_the_stylesheet_knows_every_token(theme):
    assert "@" not in stylesheet(THEMES[theme])


@pytest.mark.parametrize("name", sorted(path.stem for path in ICONS.glob("*.svg")))
def test_every_icon_draws_something(qapp: QApplication, name):
    image = icon(name, "#123456").pixmap(QSize(24, 24), 2.0).toImage()
    assert image.width() == 48
    assert any(image.pixelColor(x, y).alpha() > 100 for x in range(48) for y in range(48))


def test_the_theme_follows_the_setting_and_tells(qapp: QApplication, tmp_path):
    settings = Settings(tmp_path / "settings.json")
    theme = Theme(qapp, settings)
    theme.apply()
    told = []
    theme.changed.connect(lambda: told.append(theme.name))
    settings.set("theme", "dark")
    settings.set("theme", "light")
    assert told == ["dark", "light"]
    assert qapp.palette().window().color().name() == THEMES["light"].window


class Watch(QObject):
    """Counts the labels' restylings, and notes which colours they have whenever one is painted."""

    def __init__(self, labels: list[QLabel]) -> None:
        super().__init__()
        self.labels, self.styled, self.painted = labels, [0] * len(labels), []
        for label in labels:
            label.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.StyleChange:
            self.styled[self.labels.index(watched)] += 1
        elif event.type() == QEvent.Type.Paint:
            shown = [label for label in self.labels if label.isVisible()]
            self.painted.append({label.palette().windowText().color().name() for label in shown})
        return False


@pytest.mark.parametrize("hidden", [None, 3], ids=["all shown", "one hidden meanwhile"])
def test_an_open_window_is_styled_in_slices_each_widget_once_and_painted_in_one(
    qtbot, qapp, tmp_path, monkeypatch, hidden
):
    monkeypatch.setattr("app.theme.restyling.SLICE", 0.0)  # one widget per turn
    settings = Settings(tmp_path / "settings.json")
    settings.set("theme", "light")
    theme = Theme(qapp, settings)
    theme.apply()
    window = inner = QWidget()
    qtbot.addWidget(window)
    labels = []
    for depth in range(6):  # Qt alone would style the innermost once for each of its ancestors
        layout, inner = QVBoxLayout(inner), QFrame(inner)
        labels.append(QLabel(f"{depth}", inner))
        layout.addWidget(labels[-1])
        layout.addWidget(inner)
    watch = Watch(labels)
    window.show()
    qtbot.waitUntil(lambda: len(watch.painted) > 0 and theme._restyling.is_done)
    qtbot.wait(100)  # an exposure that the system tells late paints at once
    watch.styled, watch.painted = [0] * len(labels), []
    gone = QLabel("gone before its turn", window)
    settings.set("theme", "dark")
    assert qapp.styleSheet() == stylesheet(THEMES["dark"])
    shiboken6.delete(gone)
    if hidden is not None:
        labels[hidden].hide()
    qtbot.waitUntil(lambda: {THEMES["dark"].text} in watch.painted)
    qtbot.waitUntil(lambda: theme._restyling.is_done)
    assert watch.styled == [1] * len(labels)
    assert all(len(colors) == 1 for colors in watch.painted)
    settings.set("theme", "light")
    qtbot.waitUntil(lambda: {THEMES["light"].text} in watch.painted)


@pytest.mark.parametrize("theme", THEMES)
def test_every_picture_of_the_stylesheet_exists(theme):
    names = re.findall(r"url\(([^)]*)\)", stylesheet(THEMES[theme]))
    assert names
    assert all(Path(name).is_file() for name in names)


@pytest.mark.parametrize(("language", "families"), [("en", ["Inter"]), ("zh_CN", ["Inter", "JetBrains Mono"])])
def test_a_chinese_window_asks_for_chinese_shapes(qapp: QApplication, tmp_path, monkeypatch, language, families):
    """Of the families that are here; which one the system would take depends on its own language."""
    monkeypatch.setattr("app.theme.theme.CHINESE", ("No such family", "JetBrains Mono", "Inter"))
    settings = Settings(tmp_path / "settings.json")
    settings.set("language", language)
    theme = Theme(qapp, settings)
    theme.load_fonts()
    assert theme.font(15).families() == families
    assert theme.mono(15).families() == ["JetBrains Mono", *families[1:]]
