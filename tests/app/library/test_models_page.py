"""My models: the table, the drawer, and what is done with a model."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QMimeData, QModelIndex, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QInputDialog, QMessageBox

from app.library.entry_words import fact_rows
from app.library.models_table import EntryRole
from engine.hub.records import write_record
from engine.hub.repository import open_repository
from engine.messages import LoadModel, UnloadModel
from tests.app.library.conftest import Opened
from tests.support.gguf_writer import GGUFBuilder
from tests.support.hub_content import Bytes, Repository
from tests.support.small_gguf import small_gguf


def put(library: Opened, name: str, qtbot, **changes) -> Path:
    path = library.controller.services.models / name
    path.parent.mkdir(parents=True, exist_ok=True)
    small_gguf(**changes).write(path)
    library.controller.refresh()
    qtbot.waitUntil(lambda: library.controller.entry(path) is not None)
    return path


def titles(page) -> list[str]:
    proxy = page.table.proxy
    return [proxy.index(row, 0).data(EntryRole).title for row in range(proxy.rowCount())]


def test_rows_states_and_search(library, qtbot):
    page = library.tab("models")
    put(library, "Alpha-Q8_0.gguf", qtbot)
    broken = library.controller.services.models / "Broken-Q8_0.gguf"
    broken.write_bytes(b"GGUF")
    library.controller.refresh()
    qtbot.waitUntil(lambda: len(titles(page)) == 3)
    assert titles(page) == ["Alpha-Q8_0", "Broken-Q8_0", "Scripted-1B.Q4_K_M"]
    page.table.select(broken)
    assert page.drawer.pill.text() == "Corrupt"
    assert "cut short" in page.drawer.why.text()
    assert not page.drawer.buttons["load"].isEnabled()
    page.field.setText("alph")
    assert titles(page) == ["Alpha-Q8_0"]


def test_without_a_chosen_model_there_is_no_drawer(library, qtbot):
    page = library.tab("models")
    path = put(library, "Alpha-Q8_0.gguf", qtbot)
    page.table.select(path)
    assert page.drawer.isVisibleTo(page)
    page.table.setCurrentIndex(QModelIndex())
    page.show_entries()
    assert not page.drawer.isVisibleTo(page), "there would be nothing in it but buttons without a meaning"


def test_every_quirk_is_in_the_drawer_and_metadata_can_be_searched(library, qtbot):
    page = library.tab("models")
    changes = {"tokenizer__ggml__pre": None, "tokenizer__chat_template": None, "odd__key": "value"}
    path = put(library, "Odd-Q8_0.gguf", qtbot, **changes)
    page.table.select(path)
    for words in ("pre-tokenizer is missing", "no chat template", "odd.key"):
        assert words in page.drawer.quirks.text()
    metadata = page.drawer.metadata
    qtbot.waitUntil(lambda: metadata.rows.rowCount() > 5)
    metadata.field.setText("head_count_kv")
    assert metadata.proxy.rowCount() == 1
    assert metadata.proxy.index(0, 1).data() == "2"


def test_load_by_double_click_goes_to_the_conversation(library, qtbot):
    page = library.tab("models")
    path = put(library, "Alpha-Q8_0.gguf", qtbot)
    page.table.select(path)
    page.table.opened.emit(page.table.current())
    commands = library.app.engine.commands
    qtbot.waitUntil(lambda: any(isinstance(one, LoadModel) and one.path == str(path) for one in commands))
    assert library.app.window.stack.currentWidget() is library.app.window.chat_page
    library.controller.refresh()
    qtbot.waitUntil(lambda: library.controller.entry(path).last_used is not None)


def test_a_load_is_stopped_where_it_was_ordered(library, qtbot):
    page = library.tab("models")
    path = put(library, "Alpha-Q8_0.gguf", qtbot)
    library.app.engine.loading = ""
    page.table.select(path)
    button = page.drawer.buttons["load"]
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: library.app.context.models.loading_path == str(path))
    library.app.window.show_page("library")
    qtbot.waitUntil(lambda: button.text() == "Stop loading" and button.isEnabled())
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: button.text() == "Load")
    assert library.app.context.models.loading_path is None
    assert library.app.context.models.info is not None, "the model before runs on"


def test_a_model_that_crashed_twice_says_so_and_can_be_tried(library, qtbot):
    page = library.tab("models")
    path = put(library, "Alpha-Q8_0.gguf", qtbot)
    library.app.context.folder.crash_record.write_text(json.dumps({str(path): 2, "other": 1}))
    library.controller.refresh()
    qtbot.waitUntil(lambda: library.controller.entry(path).state.name == "CRASHED")
    page.table.select(path)
    assert page.drawer.pill.text() == "Crashed"
    assert "crashed 2 times with Alpha-Q8_0" in page.drawer.why.text()
    button = page.drawer.buttons["load"]
    assert button.text() == "Try again"
    library.app.engine.info = replace(library.app.context.models.info, path=str(path))
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: library.controller.entry(path).state.name == "IN_USE")
    library.app.context.close()
    assert library.app.context.models.crashes.count(path) == 0  # it ran, and all ended well


def test_rename_changes_the_label_only(library, qtbot, monkeypatch):
    page = library.tab("models")
    path = put(library, "Alpha-Q8_0.gguf", qtbot)
    page.table.select(path)
    monkeypatch.setattr(QInputDialog, "getText", lambda *_: ("Best friend", True))
    qtbot.mouseClick(page.drawer.buttons["rename"], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "Best friend" in titles(page))
    assert path.exists()


def test_verify_finds_damage(library, qtbot):
    page = library.tab("models")
    path = put(library, "Alpha-Q8_0.gguf", qtbot)
    write_record(path, hashlib.sha256(b"something else").hexdigest())
    page.table.select(path)
    qtbot.mouseClick(page.drawer.buttons["verify"], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: library.controller.entry(path).state.name == "CORRUPT")
    assert page.drawer.pill.text() == "Corrupt"
    assert page.drawer.buttons["verify"].text() == "Verify again"


def test_deleting_the_loaded_model_unloads_it_first(library, qtbot, monkeypatch, tmp_path):
    page = library.tab("models")
    path = put(library, "Alpha-Q8_0.gguf", qtbot)
    info = library.app.context.models.info
    library.app.engine.info = type(info)(**{name: getattr(info, name) for name in info.__slots__} | {"path": str(path)})
    library.app.context.models.load(path)
    qtbot.waitUntil(lambda: library.controller.entry(path).state.name == "IN_USE")
    trash: list[tuple[Path, object]] = []

    def to_trash(file: Path) -> bool:
        trash.append((file, library.app.context.models.info))
        file.unlink()
        return True

    monkeypatch.setattr("app.library.library_controller.move_to_trash", to_trash)
    monkeypatch.setattr(QMessageBox, "question", lambda *_: QMessageBox.StandardButton.Yes)
    page.table.select(path)
    qtbot.mouseClick(page.drawer.buttons["delete"], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: library.controller.entry(path) is None)
    assert any(isinstance(one, UnloadModel) for one in library.app.engine.commands)
    assert trash == [(path, None)], "it was deleted after the engine had let go of it"


def test_dropping_a_file_offers_to_move_it(library, qtbot, monkeypatch, tmp_path):
    page = library.tab("models")
    outside = tmp_path / "my files" / "Dropped é-Q8_0.gguf"
    outside.parent.mkdir()
    small_gguf().write(outside)
    offered: list[list[Path]] = []
    monkeypatch.setattr(page, "add_files", offered.append)
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(outside)), QUrl("https://example.org/x.gguf")])
    none = Qt.KeyboardModifier.NoModifier
    event = QDropEvent(QPointF(5, 5), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, none)
    page.dropEvent(event)
    qtbot.waitUntil(lambda: offered == [[outside]])
    library.controller.import_files([outside], move=False)
    qtbot.waitUntil(lambda: library.controller.entry(outside) is not None)
    library.controller.import_files([outside], move=True)
    qtbot.waitUntil(lambda: not outside.exists())
    qtbot.waitUntil(lambda: "Dropped é-Q8_0" in titles(page))


def test_only_the_missing_shard_is_fetched(library, qtbot):
    shards = []
    for number in range(3):
        builder = small_gguf() if number == 0 else GGUFBuilder("llama")
        builder.add_all({"split.no": number, "split.count": 3, "split.tensors.count": 4})
        if number:
            builder.tensor_raw(f"blk.{number}.ffn_up.weight", (64, 64), 8, bytes(64 * 64 // 32 * 34))
        shards.append(builder.build())
    names = [f"Big-Q8_0-{number:05d}-of-00003.gguf" for number in (1, 2, 3)]
    library.hub.add(Repository("maker/Big-GGUF", {n: Bytes(data) for n, data in zip(names, shards, strict=True)}))
    services = library.controller.services
    card = open_repository(services.connect(), "maker/Big-GGUF")
    services.download(card, card.listing.models[0])
    library.controller.downloads.watch()
    folder = services.models / "maker" / "Big-GGUF"
    entry = lambda: library.controller.entry(folder / names[0])  # noqa: E731
    qtbot.waitUntil(lambda: entry() is not None and entry().state.name == "READY", timeout=30_000)
    (folder / names[1]).unlink()
    library.controller.refresh()
    qtbot.waitUntil(lambda: entry().state.name == "INCOMPLETE")
    page = library.tab("models")
    page.table.select(folder / names[0])
    assert "Shard 2" in page.drawer.pill.text()
    fetch = page.drawer.buttons["fetch"]
    assert fetch.isVisibleTo(page)
    before = len(library.hub.requests)
    qtbot.mouseClick(fetch, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: entry().state.name == "READY", timeout=30_000)
    asked = [one.path for one in library.hub.requests[before:] if ".gguf" in one.path]
    assert asked
    assert all(names[1] in path for path in asked)


def test_file_deleted_by_hand_disappears_at_the_next_look(library, qtbot):
    page = library.tab("models")
    path = put(library, "Alpha-Q8_0.gguf", qtbot)
    path.unlink()
    library.controller.refresh()
    qtbot.waitUntil(lambda: "Alpha-Q8_0" not in titles(page))


def test_moving_the_models_folder_takes_everything_along(library, qtbot, tmp_path):
    page = library.tab("models")
    path = put(library, "maker/Alpha-Q8_0.gguf", qtbot)
    library.controller.rename(library.controller.entry(path), "Mine")
    qtbot.waitUntil(lambda: "Mine" in titles(page))
    new = tmp_path / "new place"
    library.controller.move_models_folder(new)
    qtbot.waitUntil(lambda: library.controller.entry(new / "maker" / "Alpha-Q8_0.gguf") is not None)
    assert library.app.context.settings["models_folder"] == str(new)
    assert titles(page) == ["Mine", "Scripted-1B.Q4_K_M"]
    assert not path.exists()


def test_a_model_outside_the_models_folder_says_where_it_lies(library, qtbot, tmp_path):
    page = library.tab("models")
    put(library, "Alpha-Q8_0.gguf", qtbot)
    outside = tmp_path / "my files" / "Beta-Q8_0.gguf"
    outside.parent.mkdir()
    small_gguf().write(outside)
    library.controller.import_files([outside], move=False)
    qtbot.waitUntil(lambda: "Beta-Q8_0" in titles(page))
    cells = {page.table.proxy.index(row, 0).data(EntryRole).title: page.table.proxy.index(row, 0) for row in (0, 1)}
    assert cells["Alpha-Q8_0"].data() == "Alpha-Q8_0"
    assert cells["Beta-Q8_0"].data() == "Beta-Q8_0  ·  outside the models folder"
    assert str(outside) in cells["Beta-Q8_0"].data(Qt.ItemDataRole.ToolTipRole)
    folders = [dict(fact_rows(index.data(EntryRole), "f16")).get("Folder") for index in cells.values()]
    assert folders == [None, str(outside.parent)]
