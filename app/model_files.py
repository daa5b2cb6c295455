"""Which models lie in a folder: by their files' names, and by what their headers say they are."""

from __future__ import annotations

import contextlib
import functools
import re
from dataclasses import dataclass
from pathlib import Path

from app.assets import BUNDLED_MODELS
from app.translation import tr
from engine.hub.names import STARTER_FILE, RepoFile, fold, proper_name

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


def model_to_begin_with(models: list[ModelFile], last: str) -> Path | None:
    """The one used last, if it is still there; else the starter model; else the smallest, as nobody asked for more."""
    if last and Path(last).is_file():
        return Path(last)
    return min(models, key=lambda model: (model.path.name != STARTER_FILE, model.size)).path if models else None


def find_models(folder: Path) -> list[ModelFile]:
    """All models below `folder`, by name; what belongs to a model and is none (projectors, adapters) is left out, and
    so is what cannot be whole. A folder that is missing or unreadable holds none."""
    folders: dict[Path, list[RepoFile]] = {}
    for path in folder.rglob("*.gguf") if folder.is_dir() else ():
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        with contextlib.suppress(OSError):
            folders.setdefault(path.parent, []).append(RepoFile(path.name, path.stat().st_size))
    models = [
        ModelFile(parent / one.files[0].path, one.size)
        for parent, files in folders.items()
        for one in fold(files).models
        if not one.problem and not one.missing and _can_answer(parent / one.files[0].path)
    ]
    return sorted(models, key=lambda model: (model.name.lower(), model.size))


def _can_answer(path: Path) -> bool:
    """False for a file whose header says that it is no model by itself, whatever its name."""
    with contextlib.suppress(OSError):
        state = path.stat()
        return _is_model(path, state.st_size, state.st_mtime_ns)
    return True


@functools.lru_cache(maxsize=4096)
def _is_model(path: Path, _size: int, _modified: int) -> bool:
    """A header takes milliseconds, and the folder is looked through often. What cannot be read is left to loading,
    which says what is wrong with it."""
    from engine.errors import EngineError
    from engine.gguf.shard import Shard
    from engine.hub.facts import model_facts

    try:
        shard = Shard(path)
    except EngineError:
        return True
    try:
        return model_facts(shard.header.metadata, shard.header.tensors).kind in ("model", "part")
    finally:
        shard.close()


def format_bytes(count: float) -> str:
    """Decimal units, as file managers and the hub show them: 98.4 MB."""
    if count < 1000:
        return tr("{count} bytes", count=f"{count:.0f}")
    for unit in ("KB", "MB", "GB", "TB"):
        count /= 1000
        if count < 1000 or unit == "TB":
            return f"{count:.0f} {unit}" if unit == "KB" else f"{count:.1f} {unit}"
    raise AssertionError("unreachable")
