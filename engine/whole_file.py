"""Files that hold all of what was meant, or are what they were before."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """In one step: written beside it first, under a name that nothing is left under. OSError where that fails.

    A device or a pipe has no name to be replaced, and is written to.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    path = path.resolve()  # a link stays one
    draft = draft_of(path)
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def draft_of(path: Path) -> Path:
    """Where `path` is written first."""
    return path.with_name(f"{path.name}.part")


def check_writable(path: Path) -> None:
    """OSError unless `write_whole` could write there now; leaves nothing behind."""
    if path.exists():
        with path.open("ab"):
            pass
    if path.is_file() or not path.exists():
        draft = draft_of(path.resolve())
        with draft.open("wb"):
            pass
        draft.unlink()
