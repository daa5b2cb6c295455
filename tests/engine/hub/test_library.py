"""The library: every layout listed once, each state with its reason, nothing of others changed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import FileError, FormatError
from engine.hub.errors import BusyError, VerificationError
from engine.hub.library import EntryState, Library, LibraryEntry
from engine.hub.library_actions import delete, import_by_move, import_in_place, move_models_folder, shard_set
from engine.hub.library_store import LibraryStore
from engine.hub.names import STARTER_FILE
from engine.hub.places import INSTALLATION, Place, known_places
from engine.hub.records import write_record
from tests.support.gguf_writer import GGUFBuilder
from tests.support.small_gguf import small_gguf
from tests.support.tiny_models import TinyModel


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def library(models: Path, tmp_path: Path) -> Library:
    return Library(models, LibraryStore(tmp_path / "library.json"), places=())


def put(path: Path, builder: GGUFBuilder | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return (builder or small_gguf()).write(path)


def put_split(folder: Path, count: int = 3, name: str = "Big-Q8_0") -> list[Path]:
    """A split model whose parts hold one tensor each."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(count):
        builder = small_gguf() if number == 0 else GGUFBuilder("llama")
        builder.add_all({"split.no": number, "split.count": count, "split.tensors.count": count + 1})
        if number:
            builder.tensor_raw(f"blk.{number}.ffn_up.weight", (64, 64), 8, bytes(64 * 64 // 32 * 34))
        paths.append(builder.write(folder / f"{name}-{number + 1:05d}-of-{count:05d}.gguf"))
    return paths


def only(library: Library) -> LibraryEntry:
    (entry,) = library.entries()
    return entry


def test_flat_nested_and_linked_are_listed_once(models: Path, library: Library, tmp_path: Path) -> None:
    put(models / "Flat-Q8_0.gguf")
    put(models / "a" / "b" / "c" / "d" / "Nested é 模型-Q8_0.gguf")
    (models / "link.gguf").symlink_to(models / "Flat-Q8_0.gguf")
    (models / "circle").symlink_to(models)
    (models / "dangling.gguf").symlink_to(tmp_path / "nowhere")
    outside = put(tmp_path / "outside" / "Elsewhere-Q8_0.gguf")
    (models / "elsewhere").symlink_to(outside.parent)
    assert [entry.title for entry in library.entries()] == ["Elsewhere-Q8_0", "Flat-Q8_0", "Nested é 模型-Q8_0"]
    assert all(entry.state is EntryState.READY and entry.ours for entry in library.entries())


def test_hub_cache_lm_studio_and_ollama(tmp_path: Path) -> None:
    data = small_gguf().build()
    digest = hashlib.sha256(data).hexdigest()
    cache = tmp_path / "hub" / "models--maker--Model-GGUF"
    (cache / "blobs").mkdir(parents=True)
    (cache / "blobs" / digest).write_bytes(data)
    for revision in ("aaa", "bbb"):  # two revisions share one blob
        (cache / "snapshots" / revision).mkdir(parents=True)
        (cache / "snapshots" / revision / "Cached-Q8_0.gguf").symlink_to(f"../../blobs/{digest}")
    put(tmp_path / "lmstudio" / "maker" / "Model-GGUF" / "Studio-Q8_0.gguf")
    ollama = tmp_path / "ollama"
    manifest = ollama / "manifests" / "registry.ollama.ai" / "library" / "qwen3" / "8b"
    manifest.parent.mkdir(parents=True)
    other = small_gguf(seed=5).build()
    blob = hashlib.sha256(other).hexdigest()
    layers = [
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{blob}", "size": len(other)},
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:00", "size": 1},
    ]
    manifest.write_text(json.dumps({"layers": layers}))
    (manifest.parent / "broken").write_text("{")
    (ollama / "blobs").mkdir()
    (ollama / "blobs" / f"sha256-{blob}").write_bytes(other)
    places = (
        Place(tmp_path / "lmstudio", "LM Studio"),
        Place(ollama, "Ollama", "ollama"),
        Place(tmp_path / "hub", "Hub cache"),
        Place(tmp_path / "missing", "llama.cpp"),
    )
    before = sorted(tmp_path.rglob("*"))
    library = Library(tmp_path / "models", LibraryStore(tmp_path / "l.json"), places)
    found = {entry.title: entry for entry in library.entries()}
    assert sorted(tmp_path.rglob("*")) == before, "looking changes nothing"
    assert {title: entry.origin for title, entry in found.items()} == {
        "Cached-Q8_0": "Hub cache",
        "Studio-Q8_0": "LM Studio",
        "qwen3:8b": "Ollama",
    }
    assert all(entry.state is EntryState.READY and not entry.ours for entry in found.values())
    for title in ("Cached-Q8_0", "qwen3:8b"):  # their names promise a checksum
        assert library.verify(found[title], lambda done, size: None, threading.Event())
    assert not library.verify(found["Studio-Q8_0"], lambda done, size: None, threading.Event())
    assert {entry.title for entry in library.entries() if entry.verified} == {"Cached-Q8_0", "qwen3:8b"}


def test_what_came_with_the_installation_is_listed_once(models: Path, tmp_path: Path) -> None:
    installed = tmp_path / "usr" / "models"
    put(installed / "Bundled-Q8_0.gguf")
    places = (Place(installed, INSTALLATION, "installation"),)
    store = LibraryStore(tmp_path / "library.json")
    library = Library(models, store, places)
    entry = only(library)
    assert (entry.origin, entry.ours, entry.state) == ("Came with Tessera", False, EntryState.READY)
    with pytest.raises(FileError, match="belongs to the installation"):
        delete(entry, store, lambda path: True)
    copy = put(models / "sub" / "Bundled-Q8_0.gguf")
    assert only(library).path == copy


def test_the_starter_model_has_a_proper_name(models: Path, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(models / STARTER_FILE)
    assert only(library).title == STARTER_FILE.removesuffix(".gguf"), "another file of that name"
    monkeypatch.setattr("engine.hub.names.STARTER_SIZE", path.stat().st_size)
    assert only(library).title == "SmolLM2 135M Instruct"
    library.rename(only(library), "Mine")
    assert only(library).title == "Mine"


def test_known_places_need_not_exist() -> None:
    assert {place.origin for place in known_places()} == {"LM Studio", "Ollama", "llama.cpp", "Hub cache"}


def test_shards_are_one_row_and_missing_ones_are_named(models: Path, library: Library) -> None:
    paths = put_split(models / "big")
    entry = only(library)
    assert (entry.state, entry.files, entry.size) == (
        EntryState.READY,
        tuple(paths),
        sum(path.stat().st_size for path in paths),
    )
    assert entry.facts is not None and entry.facts.parameters == 4 * 64 * 64
    content = paths[1].read_bytes()
    paths[1].unlink()
    entry = only(library)
    assert (entry.state, entry.missing) == (EntryState.INCOMPLETE, (2,))
    assert "Shard 2 of 3" in entry.why
    paths[1].write_bytes(content[:-100])
    entry = only(library)
    assert entry.state is EntryState.CORRUPT
    assert "cut short" in entry.why


def test_shards_joined_with_cat_are_explained(models: Path, library: Library, tmp_path: Path) -> None:
    joined = b"".join(path.read_bytes() for path in put_split(tmp_path / "parts"))
    (models / "Big-Q8_0.gguf").write_bytes(joined)
    entry = only(library)
    assert entry.state is EntryState.CORRUPT
    assert "several of 3 parts" in entry.why
    assert "Keep the parts as separate files" in entry.why


def test_the_first_shard_names_the_model_whatever_the_order_of_the_folder(
    models: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = put_split(models / "big", 4)
    scandir = os.scandir
    for seed in range(8):

        def shuffled(folder: Path, seed: int = seed) -> list[os.DirEntry[str]]:
            entries = list(scandir(folder))
            random.Random(seed).shuffle(entries)
            return entries

        monkeypatch.setattr("engine.hub.scan.os.scandir", shuffled)
        entry = only(library)
        assert entry.path == paths[0]
        assert entry.files == tuple(paths)
        assert entry.title == "Big-Q8_0"
        assert library.find(paths[2]) == entry, "any shard leads to its model"


@pytest.mark.parametrize(
    ("present", "state", "missing"),
    [
        ((), None, ()),
        ((1,), EntryState.INCOMPLETE, (2, 3)),
        ((2, 3), EntryState.INCOMPLETE, (1,)),
        ((1, 3), EntryState.INCOMPLETE, (2,)),
        ((1, 2, 3), EntryState.READY, ()),
    ],
)
def test_states_of_a_shard_set(
    models: Path, library: Library, present: tuple[int, ...], state: EntryState | None, missing: tuple[int, ...]
) -> None:
    """A .part of a missing shard changes nothing: it is no file yet."""
    for number, path in enumerate(put_split(models / "big"), start=1):
        if number not in present:
            path.rename(path.with_name(path.name + ".part"))
    assert [(one.state, one.missing) for one in library.entries()] == ([] if state is None else [(state, missing)])


def test_a_shard_of_another_set_is_named(models: Path, library: Library, tmp_path: Path) -> None:
    paths = put_split(models / "big")
    put_split(tmp_path / "other", 4)[1].replace(paths[1])
    entry = only(library)
    assert entry.state is EntryState.CORRUPT
    assert "of 4" in entry.why


@pytest.mark.parametrize(
    ("data", "state", "word"),
    [
        (b"", EntryState.CORRUPT, "empty"),
        (b"<!DOCTYPE html>", EntryState.CORRUPT, "web page"),
        (small_gguf().build()[:300], EntryState.CORRUPT, "cut short"),
        (small_gguf().add("general.type", "mmproj").build(), EntryState.UNSUPPORTED, "projector"),
        (
            small_gguf().tensor_raw("blk.0.x.weight", (64, 64), 134, bytes(4096)).build(),
            EntryState.UNSUPPORTED,
            "IQ1_BN",
        ),
        (GGUFBuilder("llama", big_endian=True).build(), EntryState.UNSUPPORTED, "big-endian"),
    ],
)
def test_states_say_why(models: Path, library: Library, data: bytes, state: EntryState, word: str) -> None:
    (models / "m-Q8_0.gguf").write_bytes(data)
    entry = only(library)
    assert entry.state is state
    assert word in entry.why


def test_what_our_engine_thinks_of_a_model_is_a_quirk(
    models: Path, library: Library, tiny_models: Callable[[TinyModel], Path]
) -> None:
    put(models / "half-Q8_0.gguf")  # a llama without most of its tensors
    (models / "whole-F32.gguf").symlink_to(tiny_models(TinyModel("llama")))
    half, whole = library.entries()
    assert half.facts is not None and "compatibility engine" in half.facts.quirks[0]
    assert not half.facts.native
    assert whole.facts is not None and not any("compatibility" in quirk for quirk in whole.facts.quirks)


def test_projector_beside_a_model_belongs_to_it(models: Path, library: Library) -> None:
    put(models / "vl" / "Model-VL-Q8_0.gguf")
    put(models / "vl" / "Model-VL-mmproj-F16.gguf")
    assert [path.name for path in only(library).projectors] == ["Model-VL-mmproj-F16.gguf"]


@pytest.mark.parametrize("name", ["mmproj-Model-F16.gguf", "Model-mmproj-F16.gguf", "Model.mmproj-f16.gguf"])
def test_a_projector_alone_is_shown_as_one(models: Path, library: Library, name: str) -> None:
    put(models / "vl" / name)
    entry = only(library)
    assert (entry.state, entry.why.split(",")[0]) == (EntryState.UNSUPPORTED, "A projector")
    put(models / "vl" / "Model-Q4_0.gguf")
    assert [path.name for path in only(library).projectors] == [name]


def test_a_projector_is_known_by_its_header_too(models: Path, library: Library) -> None:
    put(models / "vision.gguf", GGUFBuilder("clip").add("general.name", "Safetensors"))
    entry = only(library)
    assert (entry.state, entry.why) == (EntryState.UNSUPPORTED, "A projector, no model of its own.")


def test_label_last_use_and_in_use(models: Path, library: Library, tmp_path: Path) -> None:
    path = put(models / "m-Q8_0.gguf")
    library.rename(only(library), "  My favourite ")
    library.store.mark_used(path)
    again = Library(models, LibraryStore(tmp_path / "library.json"), places=())
    entry = again.entries(in_use=path)[0]
    assert (entry.title, entry.state) == ("My favourite", EntryState.IN_USE)
    assert entry.last_used is not None
    again.rename(entry, "")
    assert only(again).title == "m-Q8_0"


def test_verify_finds_damage_and_remembers_it(models: Path, library: Library) -> None:
    path = put(models / "m-Q8_0.gguf")
    data = path.read_bytes()
    state = path.stat()
    write_record(path, hashlib.sha256(data).hexdigest(), repository="maker/Model")
    entry = only(library)
    assert entry.verified and entry.repository == "maker/Model"
    seen: list[int] = []
    assert library.verify(entry, lambda done, size: seen.append(done), threading.Event())
    assert seen[-1] == len(data)
    path.write_bytes(data[:-1] + b"x")  # bit rot: the times stay as they were
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    with pytest.raises(VerificationError):
        library.verify(entry, lambda done, size: None, threading.Event())
    assert only(library).state is EntryState.CORRUPT
    path.write_bytes(data)
    assert only(library).state is EntryState.READY  # another file: it has to be checked anew


def test_import_in_place_and_by_move(models: Path, library: Library, tmp_path: Path) -> None:
    shards = put_split(tmp_path / "downloads folder")
    import_in_place(library.store, shards[2])  # any of them stands for all
    entry = only(library)
    assert (entry.files, entry.origin) == (tuple(shards), "Imported")
    library.store.forget(entry.path)
    moved = import_by_move(models, shards[1])
    assert only(library).files == shard_set(moved)
    assert not any(path.exists() for path in shards)
    again = put_split(tmp_path / "downloads folder")
    with pytest.raises(FileError, match="already"):
        import_by_move(models, again[0])
    assert all(path.exists() for path in again)


def test_import_refuses_what_is_no_model(models: Path, tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"<html>")
    with pytest.raises(FormatError):
        import_by_move(models, tmp_path / "x.gguf")
    assert (tmp_path / "x.gguf").exists()


def test_import_across_volumes_copies_before_it_deletes(
    models: Path, library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "usb" / "m-Q8_0.gguf")
    data = path.read_bytes()
    rename = Path.rename

    def across(self: Path, target: Path) -> Path:
        if "usb" in self.parts:
            raise OSError(18, "Invalid cross-device link")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", across)
    moved = import_by_move(models, path)
    assert moved.read_bytes() == data
    assert not path.exists()
    assert only(library).path == moved


def test_delete_moves_all_shards_to_the_trash(models: Path, library: Library, tmp_path: Path) -> None:
    put_split(models / "big")
    trash = tmp_path / "trash"
    trash.mkdir()

    def to_trash(path: Path) -> bool:
        path.rename(trash / path.name)
        return True

    delete(only(library), library.store, to_trash)
    assert not library.entries()
    assert len(list(trash.iterdir())) == 3


def test_delete_of_a_locked_file_says_so(models: Path, library: Library) -> None:
    put(models / "m-Q8_0.gguf")
    with pytest.raises(BusyError, match="in use"):
        delete(only(library), library.store, lambda path: False, attempts=1)
    assert only(library).state is EntryState.READY


def test_moving_the_models_folder_keeps_everything(models: Path, library: Library, tmp_path: Path) -> None:
    path = put(models / "maker" / "repo" / "m-Q8_0.gguf")
    write_record(path, hashlib.sha256(path.read_bytes()).hexdigest())
    (models / "maker" / "repo" / "other-Q4_0.gguf.part").write_bytes(b"GGUF half")
    library.rename(only(library), "Mine")
    new = tmp_path / "new place ü"
    move_models_folder(models, new)
    library.store.relocate(models, new)
    moved = Library(new, library.store, places=())
    entry = only(moved)
    assert (entry.title, entry.verified, entry.path.parent) == ("Mine", True, new / "maker" / "repo")
    assert (new / "maker" / "repo" / "other-Q4_0.gguf.part").exists()
    assert not list(models.rglob("*.gguf*"))
    with pytest.raises(FileError, match="inside"):
        move_models_folder(new, new / "deeper")


def test_read_only_folder_is_listed(models: Path, library: Library) -> None:
    put(models / "m-Q8_0.gguf")
    models.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert only(library).state is EntryState.READY
        library.rename(only(library), "Still mine")
        assert only(library).title == "Still mine"
    finally:
        models.chmod(0o755)


def test_damaged_store_counts_as_empty(models: Path, tmp_path: Path) -> None:
    put(models / "m-Q8_0.gguf")
    (tmp_path / "library.json").write_text("[1, 2")
    assert only(Library(models, LibraryStore(tmp_path / "library.json"), ())).title == "m-Q8_0"
