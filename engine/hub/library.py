"""The models on this machine, one entry per model, each with a state that says whether it can be used, and why not."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

from engine.errors import EngineError, FileError, UnsupportedError
from engine.gguf import GGUFFile, IncompleteSplitError
from engine.gguf.shard import Shard
from engine.hub.errors import StoppedError, VerificationError
from engine.hub.facts import ModelFacts, model_facts
from engine.hub.library_store import LibraryStore
from engine.hub.names import proper_name
from engine.hub.places import ADDED, OUR_FOLDER, Place, known_places
from engine.hub.records import read_record
from engine.hub.scan import Findings, Found, scan
from engine.models.quantization import quantization_name
from engine.models.registry import load_spec

CHUNK = 1 << 20
Progress = Callable[[int, int], None]


class EntryState(Enum):
    READY = "Ready"
    DOWNLOADING = "Downloading"
    INCOMPLETE = "Incomplete"
    CORRUPT = "Corrupt"
    UNSUPPORTED = "Unsupported"
    IN_USE = "In use"
    CRASHED = "Crashed"  # said by the application, which is the only one to know


@dataclass(frozen=True, slots=True)
class LibraryEntry:
    """One model. `path` (its first file) names it; `why` explains every state that is not Ready.

    `verified` is True when the file's checksum was compared with one from where it came. `facts` is None when the
    header could not be read. `missing` are numbers of shards.
    """

    path: Path
    files: tuple[Path, ...]
    title: str
    quantization: str
    size: int
    state: EntryState
    why: str
    origin: str
    ours: bool
    verified: bool
    facts: ModelFacts | None
    missing: tuple[int, ...] = ()
    last_used: datetime | None = None
    projectors: tuple[Path, ...] = ()
    repository: str = ""

    @property
    def usable(self) -> bool:
        return self.state in (EntryState.READY, EntryState.IN_USE)


@dataclass(frozen=True, slots=True)
class _Inspection:
    state: EntryState
    why: str
    facts: ModelFacts | None
    quantization: str


class Library:
    """Scans and checks; holds no window and no downloads. Methods may be called from any thread."""

    def __init__(self, models: Path, store: LibraryStore, places: tuple[Place, ...] | None = None) -> None:
        self.models, self.store = models, store
        self._places = known_places() if places is None else places
        self._inspected: dict[tuple[object, ...], _Inspection] = {}
        self._lock = threading.Lock()

    def entries(self, in_use: Path | None = None, stop: threading.Event | None = None) -> list[LibraryEntry]:
        """All models, by title; reads the headers of those that have changed since the last time."""
        findings = self._scan(stop)
        entries = []
        for found in findings.models:
            if stop is not None and stop.is_set():
                raise StoppedError
            entries.append(self._entry(found, in_use, findings))
        return sorted(entries, key=lambda entry: (entry.title.lower(), entry.size))

    def find(self, path: Path, in_use: Path | None = None) -> LibraryEntry | None:
        return next((one for one in self.entries(in_use) if path in one.files), None)

    def verify(self, entry: LibraryEntry, progress: Progress, stop: threading.Event) -> bool:
        """Hash all files again: True when compared and equal, False when there is nothing to compare with.

        Raises VerificationError (remembered: the entry is Corrupt from then on), FileError, StoppedError.
        """
        done, compared = 0, True
        expected = self._expected(entry)
        self.store.set(entry.path, "corrupt", None)
        for file in entry.files:
            sha256, done = _hash(file, done, entry.size, progress, stop)
            if not expected.get(file):
                compared = False
            elif expected[file] != sha256:
                error = VerificationError(file.name, expected[file], sha256)
                state = file.stat()
                self.store.set(entry.path, "corrupt", [error.cause, state.st_size, state.st_mtime_ns])
                raise error
        self.store.set(entry.path, "verified", list(self._stamp(entry.files)) if compared else None)
        return compared

    def rename(self, entry: LibraryEntry, label: str) -> None:
        """Another title; the file keeps its name. An empty label brings the file's own title back."""
        self.store.set(entry.path, "label", label.strip() or None)

    # --- inside ---------------------------------------------------------------------------------------------

    def _scan(self, stop: threading.Event | None) -> Findings:
        ours = Place(self.models, OUR_FOLDER, ours=True)
        added = tuple(Place(folder, ADDED) for folder in self.store.folders)
        return scan((ours, *added, *self._places), self.store.files, stop)

    def _entry(self, found: Found, in_use: Path | None, findings: Findings) -> LibraryEntry:
        model, path = found.model, found.files[0]
        inspection = self._inspect(found)
        state, why = inspection.state, inspection.why
        corrupt = self.store.get(path, "corrupt")
        if corrupt and corrupt[1:] == list(self._stamp(found.files[:1])):
            state, why = EntryState.CORRUPT, str(corrupt[0])
        if state is EntryState.READY and in_use is not None and in_use in found.files:
            state, why = EntryState.IN_USE, "Loaded now."
        used = self.store.get(path, "used")
        record = read_record(path)
        return LibraryEntry(
            path=path,
            files=found.files,
            title=str(self.store.get(path, "label") or proper_name(path.name, model.size) or model.name),
            quantization=inspection.quantization or model.quantization,
            size=model.size,
            state=state,
            why=why,
            origin=found.place.origin,
            ours=found.place.ours,
            verified=self._is_verified(found),
            facts=inspection.facts,
            missing=model.missing,
            last_used=datetime.fromtimestamp(used, UTC) if isinstance(used, int | float) else None,
            projectors=tuple(file for _, file in findings.projectors if file.parent == path.parent),
            repository=record.repository if record else "",
        )

    def _inspect(self, found: Found) -> _Inspection:
        """The header's verdict, remembered as long as the files keep size and time."""
        try:
            key = (found.files, self._stamp(found.files))
        except OSError as error:
            return _Inspection(EntryState.INCOMPLETE, f"A file has gone: {error.strerror}.", None, "")
        with self._lock:
            if key in self._inspected:
                return self._inspected[key]
        inspection = _read(found)
        with self._lock:
            self._inspected[key] = inspection
        return inspection

    def _expected(self, entry: LibraryEntry) -> dict[Path, str]:
        """Checksums from where the files came: their records, or the names of the blobs they are."""
        expected = {file: record.sha256 for file in entry.files if (record := read_record(file))}
        for found in self._scan(None).models:
            if found.files == entry.files and found.digest:
                expected[entry.path] = found.digest
        return expected

    def _is_verified(self, found: Found) -> bool:
        if all(read_record(file) is not None for file in found.files):
            return True
        try:
            return bool(self.store.get(found.files[0], "verified") == list(self._stamp(found.files)))
        except OSError:
            return False

    @staticmethod
    def _stamp(files: tuple[Path, ...]) -> tuple[int, ...]:
        states = [file.stat() for file in files]
        return tuple(value for state in states for value in (state.st_size, state.st_mtime_ns))


def _read(found: Found) -> _Inspection:
    model = found.model
    if model.problem:
        return _Inspection(EntryState.UNSUPPORTED, model.problem, None, model.quantization)
    try:
        if model.missing:
            numbers = ", ".join(str(number) for number in model.missing)
            why = f"Shard {numbers} of {model.shards} is missing."
            return _Inspection(EntryState.INCOMPLETE, why, _first_facts(found.files[0]), model.quantization)
        with GGUFFile.open(found.files[0]) as file:
            facts, label = model_facts(file.metadata, file.tensors), quantization_name(file)
            facts = _judged_by_our_engine(file, facts)
    except IncompleteSplitError as error:
        return _Inspection(EntryState.INCOMPLETE, str(error), None, model.quantization)
    except UnsupportedError as error:
        return _Inspection(EntryState.UNSUPPORTED, str(error), None, model.quantization)
    except FileError as error:
        return _Inspection(EntryState.CORRUPT, str(error), None, model.quantization)
    except EngineError as error:
        return _Inspection(EntryState.UNSUPPORTED, str(error), None, model.quantization)
    if facts.unsupported:
        return _Inspection(EntryState.UNSUPPORTED, f"It holds {facts.unsupported}.", facts, label)
    if facts.kind != "model":
        return _Inspection(EntryState.UNSUPPORTED, f"A {facts.kind}, no model of its own.", facts, label)
    return _Inspection(EntryState.READY, "", facts, model.quantization or label)


def _judged_by_our_engine(file: GGUFFile, facts: ModelFacts) -> ModelFacts:
    """With what our own engine finds odd about the model, or why it leaves it to the compatibility engine."""
    if not facts.native or facts.kind != "model":
        return facts
    try:
        return replace(facts, quirks=(*facts.quirks, *load_spec(file).warnings))
    except EngineError as error:
        return replace(facts, native=False, quirks=(*facts.quirks, f"Left to the compatibility engine: {error.cause}"))


def _first_facts(path: Path) -> ModelFacts | None:
    """Facts of one part of an incomplete set."""
    try:
        shard = Shard(path)
    except EngineError:
        return None
    try:
        return model_facts(shard.header.metadata, shard.header.tensors)
    finally:
        shard.close()


def _hash(file: Path, done: int, size: int, progress: Progress, stop: threading.Event) -> tuple[str, int]:
    digest = hashlib.sha256()
    try:
        with file.open("rb") as stream:
            while block := stream.read(CHUNK):
                if stop.is_set():
                    raise StoppedError
                digest.update(block)
                done += len(block)
                progress(done, size)
    except OSError as error:
        raise FileError(f"{file.name} cannot be read: {error.strerror or error}.") from error
    return digest.hexdigest(), done
