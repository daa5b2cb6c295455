"""Find models in folders: one row per model, whatever the layout, each file once however many links lead to it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.hub.errors import StoppedError
from engine.hub.names import Companion, LogicalModel, RepoFile, fold
from engine.hub.places import IMPORTED, Place
from engine.hub.records import FOLDER

MAX_DEPTH = 10
ALONE = "A projector, no model of its own: it belongs beside its model, and there is none in its folder."


@dataclass(frozen=True, slots=True)
class Found:
    """A model on disk. `digest` is a SHA-256 that its place promises (Ollama, hub cache), or empty."""

    model: LogicalModel
    files: tuple[Path, ...]
    place: Place
    digest: str = ""


@dataclass
class Findings:
    models: list[Found] = field(default_factory=list)
    projectors: list[tuple[Companion, Path]] = field(default_factory=list)


def scan(places: Sequence[Place], files: Sequence[Path] = (), stop: threading.Event | None = None) -> Findings:
    """Everything in `places` and the single `files`; what cannot be read is left out. StoppedError on `stop`."""
    findings, seen = Findings(), set[tuple[int, int]]()
    for place in places:
        if place.layout == "ollama":
            _ollama(place, findings, seen)
            continue
        names = {file.name for found in findings.models for file in found.files}
        for folder, paths in _folders(place.folder, stop):
            if place.layout == "installation":
                paths = [path for path in paths if path.name not in names]
            _add(place, folder, paths, findings, seen)
    for path in files:
        siblings = [one for one in _gguf_files(path.parent) if _same_set(one, path)] if path.exists() else []
        _add(Place(path.parent, IMPORTED), path.parent, siblings, findings, seen)
    return findings


def _add(place: Place, folder: Path, paths: list[Path], findings: Findings, seen: set[tuple[int, int]]) -> None:
    """Fold one folder's files; those that were met before, through another link, are not listed again."""
    fresh: dict[str, Path] = {}
    sizes: dict[str, int] = {}
    for path in paths:
        try:
            state = path.stat()
        except OSError:
            continue  # a dangling link
        if (state.st_dev, state.st_ino) not in seen:
            seen.add((state.st_dev, state.st_ino))
            fresh[path.name], sizes[path.name] = path, state.st_size
    listing = fold(RepoFile(name, sizes[name]) for name in fresh)
    for model in listing.models:
        files = tuple(fresh[file.path] for file in model.files)
        findings.models.append(Found(model, files, place, _cache_digest(files[0])))
    projectors = [(one, fresh[one.file.path]) for one in listing.companions if one.kind == "mmproj"]
    findings.projectors += projectors
    if projectors and not fold(RepoFile(path.name, 0) for path in paths).models:
        for one, path in projectors:
            alone = LogicalModel(path.name.removesuffix(".gguf"), "", (one.file,), problem=ALONE)
            findings.models.append(Found(alone, (path,), place))


def _folders(root: Path, stop: threading.Event | None) -> Iterator[tuple[Path, list[Path]]]:
    """All folders below `root` with the files in them; links are followed, circles are not."""
    visited: set[tuple[int, int]] = set()
    waiting = [(root, 0)]
    while waiting:
        if stop is not None and stop.is_set():
            raise StoppedError
        folder, depth = waiting.pop()
        try:
            state = folder.stat()
            if (state.st_dev, state.st_ino) in visited or depth > MAX_DEPTH:
                continue
            visited.add((state.st_dev, state.st_ino))
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        waiting += [
            (folder / entry.name, depth + 1)
            for entry in reversed(entries)
            if entry.name != FOLDER and _is_folder(entry)
        ]
        yield folder, [folder / entry.name for entry in entries if ".gguf" in entry.name.lower()]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _gguf_files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.name.lower().endswith(".gguf"))
    except OSError:
        return []


def _same_set(one: Path, other: Path) -> bool:
    """True for the file itself and for the shards of one model."""
    models = fold([RepoFile(one.name, 1), RepoFile(other.name, 1)]).models
    return one == other or (len(models) == 1 and models[0].shards > 1)


def _cache_digest(file: Path) -> str:
    """In the hub's cache a file is a link to a blob whose name is its checksum."""
    if file.is_symlink():
        name = file.readlink().name
        if len(name) == 64 and all(letter in "0123456789abcdef" for letter in name):
            return name
    return ""


def _ollama(place: Place, findings: Findings, seen: set[tuple[int, int]]) -> None:
    """Ollama keeps manifests/HOST/OWNER/MODEL/TAG; each names the blobs of one model by digest."""
    root = place.folder / "manifests"
    manifests = sorted(path for path in root.glob("*/*/*/*") if path.is_file()) if root.is_dir() else []
    for manifest in manifests:
        try:
            layers = json.loads(manifest.read_text("utf-8"))["layers"]
            digests = [
                str(one["digest"]).removeprefix("sha256:")
                for one in layers
                if one["mediaType"] == "application/vnd.ollama.image.model"
            ]
            blobs = [place.folder / "blobs" / f"sha256-{digest}" for digest in digests]
            states = [blob.stat() for blob in blobs]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if not blobs or (states[0].st_dev, states[0].st_ino) in seen:
            continue
        seen.add((states[0].st_dev, states[0].st_ino))
        owner, model, tag = manifest.parts[-3:]
        name = f"{model}:{tag}" if owner == "library" else f"{owner}/{model}:{tag}"
        files = tuple(RepoFile(blob.name, state.st_size) for blob, state in zip(blobs, states, strict=True))
        findings.models.append(Found(LogicalModel(name, "", files[:1]), (blobs[0],), place, digests[0]))
