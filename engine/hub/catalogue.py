"""The curated starting list: good models from half a billion to 120 billion parameters, and why each. Works offline."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

from engine.errors import FormatError


@dataclass(frozen=True, slots=True)
class CatalogueModel:
    """`billions` of parameters, of which a token reads `active_billions` (None: all). `gigabytes` is approximate."""

    title: str
    repository: str
    file: str
    quantization: str
    billions: float
    active_billions: float | None
    gigabytes: float
    license: str
    why: str


def read_catalogue(path: Path) -> tuple[CatalogueModel, ...]:
    """The models of a catalogue file, smallest first; FormatError names the file."""
    names = [field.name for field in fields(CatalogueModel)]
    try:
        entries = json.loads(path.read_text("utf-8"))["models"]
        models = [CatalogueModel(**{name: entry[name] for name in names}) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"The catalogue {path.name} cannot be read: {error}.") from error
    return tuple(sorted(models, key=lambda model: model.billions))
