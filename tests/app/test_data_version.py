"""Data of older versions opens in this one, after a backup; data of newer ones is left alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app import data_version
from app.data_version import VERSION, bring_up_to_date, read_version
from app.environment import DataFolder
from app.settings.values import Settings
from app.start_error import StartError
from app.store.conversations import ConversationStore

# Written by the code of commit 79dcc88, the last one before folders had versions.
FOLDERS = {0: Path(__file__).parents[1] / "data" / "data-folder-v0"}


@pytest.fixture
def folder(tmp_path) -> DataFolder:
    return DataFolder(tmp_path / "data")


def test_there_is_a_folder_of_every_older_version():
    assert sorted(FOLDERS) == list(range(VERSION))


@pytest.mark.parametrize("version", FOLDERS)
def test_an_older_folder_opens_with_everything_in_it(folder, version):
    shutil.copytree(FOLDERS[version], folder.root)
    bring_up_to_date(folder)
    assert read_version(folder) == VERSION
    (backup,) = (folder.root / "backups").iterdir()
    assert backup.name.startswith(f"v{version}-")
    assert (backup / "settings.json").read_bytes() == (FOLDERS[version] / "settings.json").read_bytes()
    settings = Settings(folder.settings)
    assert settings.problems == []
    assert (settings["theme"], settings["font_size"], settings["threads"]) == ("dark", 17, 1)
    store = ConversationStore(folder.database)
    (conversation,) = store.conversations()
    assert (conversation.title, conversation.pinned, conversation.parameters) == ("Mosaics", True, {"temperature": 0.2})
    assert sorted(message.id for message in store.messages("c1")) == ["m1", "m2", "m3"]
    assert [found.message_id for found in store.search("马赛克")] == ["m3"]
    store.close()
    bring_up_to_date(folder)
    assert len(list((folder.root / "backups").iterdir())) == 1


def test_a_new_folder_is_marked_without_a_backup(folder):
    folder.create()
    bring_up_to_date(folder)
    assert json.loads(folder.version_file.read_text()) == {"version": VERSION}
    assert not (folder.root / "backups").exists()


def test_a_newer_folder_is_refused_and_left_untouched(folder):
    folder.create()
    folder.version_file.write_text('{"version": 99}')
    with pytest.raises(StartError, match="newer version"):
        bring_up_to_date(folder)
    assert read_version(folder) == 99


def test_a_migration_that_is_interrupted_begins_again(folder, monkeypatch):
    shutil.copytree(FOLDERS[0], folder.root)
    steps = []

    def failing(root: Path) -> None:
        steps.append(root)
        if len(steps) == 1:
            raise OSError("no power")

    monkeypatch.setattr(data_version, "MIGRATIONS", (failing,))
    with pytest.raises(OSError):
        bring_up_to_date(folder)
    assert read_version(folder) == 0
    bring_up_to_date(folder)
    assert steps == [folder.root] * 2


@pytest.mark.parametrize("text", ['{"version": -3}', '{"version": "1"}', "[" * 100_000, "[]", "\0"])
def test_a_mark_that_says_nothing_counts_as_none(folder, text):
    folder.create()
    folder.version_file.write_text(text)
    bring_up_to_date(folder)
    assert json.loads(folder.version_file.read_text()) == {"version": VERSION}
