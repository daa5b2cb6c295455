"""What is taken along as a file is written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from engine.errors import FileError
from engine.whole_file import write_whole


def write_export(path: Path, data: bytes) -> None:
    """FileError where it cannot be written: nothing is left then, and what was there before stays."""
    try:
        write_whole(path, data)
    except OSError as error:
        raise FileError(
            f"{path} could not be written: {error.strerror or error}.",
            done="Nothing was exported.",
            remedy="Choose another place.",
        ) from error
