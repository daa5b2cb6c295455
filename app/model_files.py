"""Which model files lie in a folder. Only names and sizes are looked at: no file is opened."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from app.assets import BUNDLED_MODELS
from app.translation import tr
from engine.hub.names import proper_name

_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
_QUANTIZATION = re.compile(
    r"[-_.]((?:UD-)?I?Q\d(?:_[0-9A-Z]{1,3}){0,2}|B?F16|F32|MXFP4(?:_MOE)?|TQ\d_\d)(?=[-_.]|$)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model on disk; `path` is the first file of a split one, `size` the sum of all its files."""

    path: Path
    size: int

    @property
    def name(self) -> str:
        """The starter model's own; else the file's name without quantisation, part number and ending."""
        if proper := proper_name(self.path.name, self.size):
            return proper
        stem = _SPLIT.sub("", self.path.name)
        stem = stem.removesuffix(".gguf")
        return _QUANTIZATION.sub("", stem).replace("_", " ").strip(" -.") or self.path.stem

    @property
    def quantization(self) -> str:
        found = _QUANTIZATION.search(_SPLIT.sub("", self.path.name).removesuffix(".gguf"))
        return found.group(1).upper() if found else ""


def available_models(folder: Path) -> list[ModelFile]:
    """The models in `folder`, and those that came with the installation and have no copy there."""
    found = find_models(folder)
    names = {model.path.name for model in found}
    return found + [model for model in find_models(BUNDLED_MODELS) if model.path.name not in names]


def find_models(folder: Path) -> list[ModelFile]:
    """All models below `folder`, by name. A folder that is missing or unreadable holds none."""
    sizes: dict[Path, int] = {}
    for path in folder.rglob("*.gguf") if folder.is_dir() else ():
        try:
            size = path.stat().st_size
        except OSError:
            continue
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        split = _SPLIT.search(path.name)
        first = path.with_name(_SPLIT.sub(f"-00001-of-{split.group(2)}.gguf", path.name)) if split else path
        sizes[first] = sizes.get(first, 0) + size
    models = [ModelFile(path, size) for path, size in sizes.items() if path.exists()]
    return sorted(models, key=lambda model: (model.name.lower(), model.size))


def format_bytes(count: float) -> str:
    """Decimal units, as file managers and the hub show them: 98.4 MB."""
    if count < 1000:
        return tr("{count} bytes", count=f"{count:.0f}")
    for unit in ("KB", "MB", "GB", "TB"):
        count /= 1000
        if count < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "KB" else f"{count:.1f} {unit}"
    raise AssertionError("unreachable")
