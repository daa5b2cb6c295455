"""From file names to models: shards folded into one, companions set apart, quantisation labels read.

Pure functions over names and sizes, used for repositories and for folders alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

# llama.cpp's gguf-split names its output NAME-00001-of-00003.gguf, five digits both.
SHARD = re.compile(r"^(?P<base>.+)-(?P<index>\d{5})-of-(?P<count>\d{5})\.gguf$", re.IGNORECASE)
# Cut by byte count with other programs: not files of their own, they have to be joined first.
CUT = re.compile(
    r"^(?P<base>.+\.gguf)[.-](?:part[-_.]?\d+of\d+|part[-_.]?[a-z\d]+|split[-_.]?[a-z\d]+|\d{3})$", re.IGNORECASE
)
QUANT = re.compile(
    r"(?:^|[-_./])(?P<label>(?:UD-)?(?:I?Q\d+(?:_[A-Z\d]+)*|TQ\d_\d|MXFP4(?:_MOE)?|NVFP4|BF16|FP16|F16|FP32|F32))"
    r"(?=$|[-_./])",
    re.IGNORECASE,
)
STARTER_FILE, STARTER_SIZE = "SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432


@dataclass(frozen=True, slots=True)
class RepoFile:
    """One file: its path in the repository (or below the folder), bytes, and SHA-256 where it is known."""

    path: str
    size: int
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class LogicalModel:
    """What a person calls a model: one file, or all shards of one, in order.

    `missing` are the numbers of shards that are not there; `problem` says why it cannot be used at all.
    """

    name: str
    quantization: str
    files: tuple[RepoFile, ...]
    missing: tuple[int, ...] = ()
    problem: str = ""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def shards(self) -> int:
        return len(self.files) + len(self.missing)


@dataclass(frozen=True, slots=True)
class Companion:
    """A file that belongs to a model and is none: "mmproj" (vision), "imatrix" (calibration), "mtp" (draft head)."""

    kind: str
    file: RepoFile


@dataclass(frozen=True, slots=True)
class Listing:
    models: tuple[LogicalModel, ...] = ()
    companions: tuple[Companion, ...] = ()


@dataclass
class _Shards:
    count: int
    files: dict[int, RepoFile] = field(default_factory=dict)


def base_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def proper_name(file_name: str, size: int) -> str:
    """The starter model's name for people, whose header calls it after a training run; empty for other files."""
    return "SmolLM2 135M Instruct" if (file_name, size) == (STARTER_FILE, STARTER_SIZE) else ""


def quantization_label(path: str) -> str:
    """The quantisation that a file's name (or else its folder's) claims, such as "Q4_K_M"; empty if none."""
    match = SHARD.match(path)
    stem = match["base"] if match else re.sub(r"\.gguf.*$", "", path, flags=re.IGNORECASE)
    for part in reversed(stem.split("/")):
        if found := [one["label"] for one in QUANT.finditer(part)]:
            return found[-1].upper().replace("FP16", "F16").replace("FP32", "F32")
    return ""


def companion_kind(path: str) -> str:
    """ "mmproj", "imatrix" or "mtp" when the name says so, wherever in it; else empty."""
    words = re.split(r"[-_.]", base_name(path).lower())
    if "mmproj" in words or base_name(path).lower().startswith("mmproj"):
        return "mmproj"
    if "imatrix" in words and not quantization_label(base_name(path)):
        return "imatrix"
    return "mtp" if "mtp" in words else ""


def fold(files: Iterable[RepoFile]) -> Listing:
    """Group files into models. Everything that is no GGUF file, or part of one, is left out."""
    shards: dict[str, _Shards] = {}
    cut: dict[str, list[RepoFile]] = {}
    models: list[LogicalModel] = []
    companions: list[Companion] = []
    listed = sorted(files, key=lambda file: file.path)
    kinds = _companions(listed)
    for file in listed:
        if kind := kinds.get(file.path):
            companions.append(Companion(kind, file))
        elif match := SHARD.match(file.path):
            index, count = int(match["index"]), int(match["count"])
            if 1 <= index <= count:
                group = shards.setdefault(f"{match['base']}-of-{count}", _Shards(count))
                group.files[index] = file
        elif match := CUT.match(file.path):
            cut.setdefault(match["base"], []).append(file)
        elif file.path.lower().endswith(".gguf"):
            models.append(_model(file.path[: -len(".gguf")], (file,)))
    models += [_folded(group) for group in shards.values()]
    models += [_cut(base, parts) for base, parts in cut.items()]
    return Listing(tuple(sorted(models, key=lambda model: (model.size, model.name))), tuple(companions))


def _companions(files: list[RepoFile]) -> dict[str, str]:
    """Path to kind. A repository in which every file says MTP or imatrix offers models of that name."""
    gguf = [file.path for file in files if file.path.lower().endswith(".gguf")]
    kinds = {path: kind for path in gguf if (kind := companion_kind(path))}
    if len(kinds) == len(gguf):
        kinds = {path: kind for path, kind in kinds.items() if kind == "mmproj"}
    return kinds


def _model(stem: str, files: tuple[RepoFile, ...], missing: tuple[int, ...] = ()) -> LogicalModel:
    return LogicalModel(base_name(stem), quantization_label(files[0].path), files, missing)


def _folded(group: _Shards) -> LogicalModel:
    present = tuple(group.files[index] for index in sorted(group.files))
    missing = tuple(index for index in range(1, group.count + 1) if index not in group.files)
    match = SHARD.match(present[0].path)
    assert match is not None
    return _model(match["base"], present, missing)


def _cut(base: str, parts: list[RepoFile]) -> LogicalModel:
    return LogicalModel(
        base_name(base)[: -len(".gguf")],
        quantization_label(base),
        tuple(parts),
        problem=f"Cut into {len(parts)} pieces by another program. They are no GGUF files before they are joined; "
        "look for a repository with files named …-00001-of-… instead.",
    )
