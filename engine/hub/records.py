"""What was verified about a model file, kept beside it as `.tessera/NAME.json`.

A record speaks for a file only as long as size and modification time are those it was written for; so a
changed file is simply an unverified one, and no cleaning up is ever needed. The record moves with the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = ".tessera"
MAX_NAME = 255  # bytes in one component of a path, on all file systems that matter
_SCRATCH = len(".1234567.new")


@dataclass(frozen=True, slots=True)
class Record:
    """`size` in bytes, `modified` in nanoseconds; the source is empty for files that came from elsewhere."""

    size: int
    modified: int
    sha256: str
    repository: str = ""
    revision: str = ""
    remote_path: str = ""


def record_path(file: Path) -> Path:
    return beside(file, ".json", file.parent / FOLDER)


def beside(file: Path, suffix: str, folder: Path) -> Path:
    """`file`'s name with a suffix, in `folder`; a hash of it where that would be too long for a name."""
    name = file.name + suffix
    if len(name.encode()) > MAX_NAME - _SCRATCH:
        name = hashlib.sha1(file.name.encode(), usedforsecurity=False).hexdigest() + suffix
    return folder / name


def write_record(file: Path, sha256: str, *, repository: str = "", revision: str = "", remote_path: str = "") -> Record:
    """Note that `file`, as it is now, has this SHA-256. Raises OSError where the folder is read-only."""
    state = file.stat()
    record = Record(state.st_size, state.st_mtime_ns, sha256, repository, revision, remote_path)
    write_json(record_path(file), asdict(record))
    return record


def read_record(file: Path) -> Record | None:
    """The record of `file`, or None when there is none or the file has changed since."""
    try:
        state = file.stat()
        values = json.loads(record_path(file).read_text("utf-8"))
        record = Record(**values)
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    if (record.size, record.modified) != (state.st_size, state.st_mtime_ns):
        return None
    return record


def remove_record(file: Path) -> None:
    with contextlib.suppress(OSError):
        record_path(file).unlink()


def write_json(path: Path, value: Any, *, durable: bool = True) -> None:
    """Replace `path` in one step: after a crash it holds the old text or the new text, never half of one.

    `durable` waits for the disk, so that it holds after a power cut too; not for a window's own thread.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{os.getpid()}.new")
    with scratch.open("w", encoding="utf-8") as stream:
        json.dump(value, stream, ensure_ascii=False, indent=1)
        if durable:
            stream.flush()
            os.fsync(stream.fileno())
    scratch.replace(path)
