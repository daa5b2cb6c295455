"""The declared table and its file."""

from __future__ import annotations

import json

import pytest

from app.settings.table import SETTINGS, Setting, SettingsTable
from app.settings.values import Settings
from engine.processors import usable_processors


@pytest.fixture
def path(tmp_path):
    return tmp_path / "settings.json"


def test_names_are_unique_and_defaults_are_valid():
    names = [setting.name for setting in SETTINGS] + [old for setting in SETTINGS for old in setting.renamed_from]
    assert len(names) == len(set(names))
    assert [setting.problem(setting.default) for setting in SETTINGS] == [""] * len(SETTINGS)
    assert all(setting.help.endswith(".") and setting.title for setting in SETTINGS)


def test_values_are_kept_and_told(path):
    settings = Settings(path)
    told = []
    settings.on_change(lambda name, value: told.append((name, value)))
    settings.set("threads", 1)
    settings.set("threads", 1)
    assert told == [("threads", 1)]
    assert Settings(path)["threads"] == 1
    assert json.loads(path.read_text()) == {"threads": 1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", "four"),
        ("threads", -1),
        ("threads", usable_processors() + 1),
        ("threads", True),
        ("theme", "pink"),
        ("font_size", 400),
        ("font_size", 15.5),
        ("models_folder", "/models\0"),
        ("hub_proxy", "\ud800"),
    ],
)
def test_a_wrong_value_is_refused_by_name(path, name, value):
    settings = Settings(path)
    before = settings[name]
    with pytest.raises(ValueError, match=name):
        settings.set(name, value)
    assert settings[name] == before
    path.write_text(json.dumps({name: value}))
    read = Settings(path)
    assert read[name] == before
    assert name in read.problems[0]


def test_unknown_keys_are_told_and_kept(path):
    path.write_text(json.dumps({"future": [1], "threads": 1}))
    settings = Settings(path)
    assert len(settings.problems) == 1
    assert "future" in settings.problems[0]
    settings.set("threads", 0)
    assert json.loads(path.read_text()) == {"future": [1]}


def test_a_renamed_setting_keeps_its_value(path):
    table = SettingsTable([Setting("workers", 0, "G", "Workers", "How many.", renamed_from=("threads", "cores"))])
    path.write_text(json.dumps({"cores": 5}))
    settings = Settings(path, table)
    assert settings.problems == []
    settings.set("workers", 6)
    assert json.loads(path.read_text()) == {"workers": 6}


@pytest.mark.parametrize("text", ["{ not json", "[1, 2]", "\x00\x01"])
def test_a_damaged_file_is_set_aside(path, text):
    path.write_text(text)
    settings = Settings(path)
    assert settings["threads"] == 0
    assert len(settings.problems) == 1
    assert path.with_suffix(".json.damaged").read_text() == text


def test_a_file_that_cannot_be_written_costs_no_value(path):
    settings = Settings(path)
    told, unsaved = [], []
    settings.on_change(lambda name, value: told.append((name, value)))
    settings.on_unsaved = unsaved.append
    path.with_suffix(".json.part").mkdir()
    settings.set("threads", 1)
    assert (settings["threads"], told, len(unsaved)) == (1, [("threads", 1)], 1)


def test_a_path_that_is_no_text_is_kept(path):
    Settings(path).set("last_model", "/models/caf\udce9.gguf")
    assert Settings(path)["last_model"] == "/models/caf\udce9.gguf"


def test_a_file_nested_without_end_is_set_aside(path):
    path.write_text("[" * 100_000)
    assert Settings(path).problems
    assert path.with_suffix(".json.damaged").exists()


@pytest.mark.parametrize("value", [-(10**400), -1, 10**24, 10**400, float("nan"), float("inf"), "\0", "\ud800"])
def test_no_setting_takes_what_cannot_be_worked_with(path, value):
    """Hidden ones too: what is in the file reaches clocks, widths and memory sizes as it stands."""
    path.write_text(json.dumps({setting.name: value for setting in SETTINGS}))
    settings = Settings(path)
    assert {setting.name: settings[setting.name] for setting in SETTINGS} == {s.name: s.default for s in SETTINGS}
    assert len(settings.problems) == len(SETTINGS)


def test_any_character_of_a_newer_version_is_kept(path):
    path.write_text(json.dumps({"future": "\ud800 🙂"}))
    Settings(path).set("threads", 1)
    assert json.loads(path.read_text()) == {"future": "\ud800 🙂", "threads": 1}
