"""Changes to the library on disk: import, delete, move the folder. Whatever fails, no model is lost."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

from engine.errors import EngineError, FileError
from engine.gguf import GGUFFile
from engine.hub.errors import BusyError, DiskFullError, StoppedError
from engine.hub.library import LibraryEntry, Progress
from engine.hub.library_store import LibraryStore
from engine.hub.names import SHARD
from engine.hub.partfile import MARGIN
from engine.hub.places import INSTALLATION
from engine.hub.records import MAX_NAME, record_path, remove_record

CHUNK = 1 << 20


def shard_set(file: Path) -> tuple[Path, ...]:
    """All shards that belong to `file` and are there; the file alone when it is no shard."""
    match = SHARD.match(file.name)
    if match is None:
        return (file,)
    pattern = f"-of-{match['count']}.gguf"
    begin = f"{match['base']}-"
    with contextlib.suppress(OSError):
        found = [one for one in file.parent.iterdir() if one.name.startswith(begin)]
        return tuple(sorted(one for one in found if one.name.lower().endswith(pattern.lower())))
    return (file,)


def import_in_place(store: LibraryStore, file: Path) -> Path:
    """List a model where it stands; all its shards count. Raises EngineError when it is no sound GGUF file."""
    first = _checked(file)
    store.add_file(first)
    return first


def import_by_move(
    models: Path, file: Path, progress: Progress | None = None, stop: threading.Event | None = None
) -> Path:
    """Move a model's files into the models folder; the new path of the first.

    Within a volume they are renamed; from another one they are copied, and the originals removed only when all
    copies are complete.
    """
    first = _checked(file)
    files = shard_set(first)
    folder = models / "imported" / (SHARD.sub(r"\g<base>", first.name).removesuffix(".gguf"))[:MAX_NAME]
    targets = tuple(folder / one.name for one in files)
    if existing := next((target for target in targets if target.exists()), None):
        raise FileError(
            f"{existing.name} is in the models folder already.",
            done="Nothing was moved.",
            remedy="Delete or rename the one that is there.",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _move_all(files, targets, progress, stop or threading.Event())
    except OSError as error:
        raise FileError(f"{file.name} cannot be moved: {error.strerror or error}.", remedy="Try again.") from error
    return targets[0]


def delete(entry: LibraryEntry, store: LibraryStore, to_trash: Callable[[Path], bool], attempts: int = 10) -> None:
    """Move a model's files to the trash by `to_trash`, which says whether it could.

    A file that another program holds is tried for about two seconds. Models that belong to other programs in a form
    of their own (Ollama's blobs) are refused, and so is what came with the installation.
    """
    if entry.origin == "Ollama":
        raise FileError(
            f"{entry.title} belongs to Ollama, which keeps a list of it.",
            done="Nothing was deleted.",
            remedy=f"Run `ollama rm {entry.title}`.",
        )
    if entry.origin == INSTALLATION:
        raise FileError(
            f"{entry.title} belongs to the installation of Tessera.",
            done="Nothing was deleted.",
            remedy="It goes when Tessera is removed.",
        )
    waiter = threading.Event()
    for file in entry.files:
        for attempt in range(attempts):
            if to_trash(file) or not file.exists():
                break
            if attempt == attempts - 1:
                raise BusyError(
                    f"{file.name} could not be moved to the trash: it is in use, or may not be changed.",
                    done="It is still in your library.",
                    remedy="Close the programs that use it, then try again.",
                )
            waiter.wait(0.2)
        remove_record(file)
    store.forget(entry.path)


def move_models_folder(
    old: Path, new: Path, progress: Progress | None = None, stop: threading.Event | None = None
) -> None:
    """Move everything below `old` to `new`, unfinished downloads included (they have to be paused).

    Stopped or failing, what was moved stays moved and the rest stays: both are whole files, and it can be gone on with.
    """
    old, new = old.resolve(), new.resolve()
    if new == old or new.is_relative_to(old):
        raise FileError(f"{new} is inside the present models folder.", remedy="Choose a folder elsewhere.")
    pairs = [(file, new / file.relative_to(old)) for file in sorted(old.rglob("*")) if file.is_file()]
    if taken := next((target for _, target in pairs if target.exists() and target.suffix == ".gguf"), None):
        raise FileError(f"{taken} is there already.", done="Nothing was moved.", remedy="Choose an empty folder.")
    try:
        new.mkdir(parents=True, exist_ok=True)
        for _, target in pairs:
            target.parent.mkdir(parents=True, exist_ok=True)
        _move_all([file for file, _ in pairs], [target for _, target in pairs], progress, stop or threading.Event())
    except OSError as error:
        raise FileError(
            f"The models folder could not be moved: {error.strerror or error}.",
            done="What was moved is whole, and so is what was not.",
            remedy="Try again, or choose another folder.",
        ) from error
    for folder in sorted((one for one in old.rglob("*") if one.is_dir()), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()  # only empty ones go


def _checked(file: Path) -> Path:
    """The first file of the model, whose header was read; raises for what is no model."""
    first = shard_set(file)[0]
    try:
        with GGUFFile.open(first):
            return first
    except EngineError:
        raise
    except OSError as error:
        raise FileError(f"{file.name} cannot be read: {error.strerror or error}.") from error


def _move_all(
    files: list[Path] | tuple[Path, ...],
    targets: list[Path] | tuple[Path, ...],
    progress: Progress | None,
    stop: threading.Event,
) -> None:
    size = sum(file.stat().st_size for file in files)
    done = 0
    copied: list[Path] = []
    for file, target in zip(files, targets, strict=True):
        if stop.is_set():
            raise StoppedError
        length = file.stat().st_size
        try:
            file.rename(target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _check_space(target.parent, size - done)
            _copy(file, target, progress, done, size, stop)
            copied.append(file)
        _move_record(file, target)
        done += length
        if progress is not None:
            progress(done, size)
    for file in copied:
        file.unlink()


def _copy(file: Path, target: Path, progress: Progress | None, done: int, size: int, stop: threading.Event) -> None:
    """Copy to a name that is no model's, make it durable, and only then give it its name."""
    scratch = target.with_name(target.name[: MAX_NAME - 8] + ".copying")
    try:
        with file.open("rb") as source, scratch.open("wb") as sink:
            while block := source.read(CHUNK):
                if stop.is_set():
                    raise StoppedError
                sink.write(block)
                done += len(block)
                if progress is not None:
                    progress(done, size)
            sink.flush()
            os.fsync(sink.fileno())
        shutil.copystat(file, scratch)  # the record of its checksum goes by the time of change
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


def _move_record(file: Path, target: Path) -> None:
    source = record_path(file)
    if source.is_file() and target.suffix == ".gguf":
        with contextlib.suppress(OSError):
            record_path(target).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(source, record_path(target))


def _check_space(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if size + MARGIN > free:
        raise DiskFullError(str(folder), size + MARGIN - free)
