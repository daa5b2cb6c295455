"""How a GGUF file fails: errors that name the file, the key or tensor, and the bytes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from engine.errors import FileError, FormatError

DOWNLOAD_AGAIN = "Download the file again, or delete it."


class TruncatedFileError(FormatError):
    """The file ends before what its header promises; `needed_bytes` is the least size it should have."""

    def __init__(self, cause: str, needed_bytes: int, actual_bytes: int) -> None:
        self.needed_bytes = needed_bytes
        self.actual_bytes = actual_bytes
        super().__init__(cause, remedy="The download is probably incomplete: resume it or download the file again.")


class IncompleteSplitError(FileError):
    """Parts of a split model are not there; `missing` and `present` are their paths, in order."""

    def __init__(self, missing: Sequence[Path], present: Sequence[Path]) -> None:
        self.missing = tuple(missing)
        self.present = tuple(present)
        names = ", ".join(display_name(path) for path in self.missing[:4])
        more = f" and {len(self.missing) - 4} more" if len(self.missing) > 4 else ""
        total = len(self.missing) + len(self.present)
        super().__init__(
            f"The model is split into {total} files, and {len(self.missing)} of them are missing: {names}{more}.",
            remedy="Download the missing parts into the same folder.",
        )


class FileChangedError(FileError):
    """A file was shortened, replaced or became unreadable while in use: what was read of it cannot be trusted."""


def display_name(path: str | os.PathLike[str]) -> str:
    """The file's name, fit for printing whatever bytes it holds."""
    return (Path(path).name or os.fspath(path) or "“”").encode("utf-8", "replace").decode()


def full_name(path: str | os.PathLike[str]) -> str:
    """The whole path, fit for printing, where the name alone would not say where it was looked for."""
    whole = Path(path)
    with suppress(OSError):  # the current folder may be gone
        whole = whole.absolute()
    return str(whole).encode("utf-8", "replace").decode()


def first_bytes(raw: bytes) -> str:
    """What a file begins with: as text where it is printable ASCII, else in hexadecimal."""
    text = raw.decode("latin-1")
    return f"“{text}”" if text.isascii() and text.isprintable() else f"0x{raw.hex()}"


def printable(line: str) -> str:
    """A line for the terminal with names from a file, whose control characters must not reach it."""
    return "".join(character if character.isprintable() else "\ufffd" for character in line)


def shown(raw: bytes) -> str:
    """A key or tensor name from a file, shortened and quoted for a message."""
    text = raw[:80].decode("utf-8", "backslashreplace")
    return repr(text + ("…" if len(raw) > 80 else ""))


def malformed(path: str | os.PathLike[str], problem: str, remedy: str = DOWNLOAD_AGAIN) -> FormatError:
    return FormatError(f"{display_name(path)}: {problem}.", remedy=remedy)
