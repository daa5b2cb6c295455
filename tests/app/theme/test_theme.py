"""Contrast, completeness of the stylesheet, icons."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication

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
