"""The settings page is the declared table."""

from __future__ import annotations

import json

import pytest

from app.settings.table import SETTINGS
from engine.processors import usable_processors


@pytest.fixture
def page(app):
    app.window.show_page("preferences")
    return app.window.page("preferences")


def test_every_shown_setting_has_a_named_control(page):
    assert set(page.rows) == {setting.name for setting in SETTINGS if setting.shown}
    assert all(row.control.accessibleName() and row.control.accessibleDescription() for row in page.rows.values())


def test_changing_a_control_changes_the_setting_at_once(app, page):
    settings = app.context.settings
    row = page.rows["theme"]
    row.control.setCurrentIndex(row.control.findData("dark"))
    assert app.context.theme.name == "dark"
    page.rows["threads"].control.setValue(1)
    assert settings["threads"] == 1
    assert page.reload.isVisible()
    row.reset.click()
    assert settings["theme"] == "system"
    assert not row.reset.isVisible()


def test_reloading_takes_the_new_options(app, page, qtbot):
    page.rows["threads"].control.setValue(1)
    page.rows["kv_type"].control.setCurrentIndex(1)
    page.reload.click()
    options = app.engine.commands[-1].options
    assert (options.threads, options.kv_type) == (1, "q8_0")


def test_no_more_threads_than_the_computer_has(app, page):
    control = page.rows["threads"].control
    assert control.maximum() == usable_processors()
    with pytest.raises(ValueError, match=f"at most {usable_processors()}: no more logical"):
        app.context.settings.set("threads", usable_processors() + 1)


def test_search_shows_only_what_was_asked_for(page):
    page.filter("context len")
    assert [name for name, row in page.rows.items() if row.isVisible()] == ["context_length"]
    page.filter("no such words")
    assert page.nothing.isVisible()
    page.filter("")
    assert all(row.isVisible() for row in page.rows.values())


def test_export_import_and_reset(app, page, tmp_path):
    settings = app.context.settings
    settings.set("threads", 1)
    page.export_to(tmp_path / "s.json")
    page.reset_all()
    assert settings["threads"] == 0
    page.import_from(tmp_path / "s.json")
    assert settings["threads"] == 1


def test_importing_names_what_it_cannot_take(app, page, tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"threads": "many", "strange": 1, "font_size": 18}))
    page.import_from(tmp_path / "s.json")
    assert app.context.settings["font_size"] == 18
    assert "threads" in page.message.text()
    assert "strange" in page.message.text()
    (tmp_path / "s.json").write_text("[")
    page.import_from(tmp_path / "s.json")
    assert "holds no settings" in page.message.text()


def test_a_text_size_changes_the_conversation(app, page):
    app.context.settings.set("font_size", 20)
    assert app.page.transcript._style.body.pixelSize() == 20
