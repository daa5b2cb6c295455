"""A model is fetched, listed, verified, run, moved and deleted, whatever its owner's folders are called."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.client import EngineClient
from engine.hub.connection import Connection
from engine.hub.download_status import State
from engine.hub.downloads import Downloads
from engine.hub.library import EntryState, Library
from engine.hub.library_actions import delete, move_models_folder
from engine.hub.library_store import LibraryStore
from engine.messages import LoadOptions
from tests.engine.hub.conftest import publish
from tests.support.hub_content import Bytes
from tests.support.hub_server import FakeHub
from tests.support.tiny_models import TinyModel

FOLDERS = {
    "Japanese with its own space": "山田　太郎",
    "accents and a combining one": "Élodie Ñandú e\u0301",
    "emoji": "models 🙂",
    "spaces, quotes and signs": "  my models (1) & 'more' %41 #2",
    "longer than 260 characters": "/".join(["a rather long name of a folder " * 3] * 4),
}


@pytest.mark.parametrize("name", FOLDERS.values(), ids=FOLDERS)
def test_from_the_hub_to_an_answer(
    hub: FakeHub,
    connect: Callable[..., Connection],
    tiny_models: Callable[[TinyModel], Path],
    tmp_path: Path,
    name: str,
) -> None:
    folder, store = tmp_path / name, LibraryStore(tmp_path / "library.json")
    source = publish(hub, Bytes(tiny_models(TinyModel()).read_bytes()))
    downloads = Downloads(connect, tmp_path / "downloads.json", patience=0.001)
    downloads.add("Model", [source], folder)
    deadline = time.monotonic() + 30
    while downloads.snapshot()[0].state is not State.DONE and time.monotonic() < deadline:
        time.sleep(0.01)
    downloads.close()
    library = Library(folder, store, places=())
    (entry,) = library.entries()
    assert (entry.state, entry.verified) == (EntryState.READY, True)
    assert library.verify(entry, lambda done, size: None, threading.Event())
    with EngineClient() as client:
        assert client.load(str(entry.path), LoadOptions(threads=1)).path == str(entry.path)
        assert client.answer("Hello", max_tokens=2)
    moved = tmp_path / f"moved {name}"
    move_models_folder(folder, moved)
    library.models = moved
    (entry,) = library.entries()
    assert entry.verified and entry.path.is_relative_to(moved)
    trash: list[Path] = []

    def to_trash(path: Path) -> bool:
        trash.append(path)
        path.unlink()
        return True

    delete(entry, store, to_trash)
    assert trash == [entry.path] and library.entries() == []
