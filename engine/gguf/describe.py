"""What a model file holds, for people (`app info FILE`, see describe_text) and as JSON (`--json`)."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from engine.errors import EngineError
from engine.gguf.errors import display_name
from engine.gguf.metadata import StringArray
from engine.gguf.reader import GGUFFile
from engine.gguf.roles import TensorRole, tensor_role
from engine.hub.facts import ModelFacts, model_facts, text
from engine.models import ModelSpec, build_graph, load_spec
from engine.models.quantization import quantization_name
from engine.models.spec import DeltaNetSpec, ExpertsSpec
from kernels import _cpu

_FIRST_ITEMS = 8  # of an array


@dataclass(frozen=True, slots=True)
class MetadataRow:
    """`value`: a string or number as it stands; of arrays the first items, and `count` is how many there are."""

    key: str
    type: str
    value: Any
    count: int


@dataclass(frozen=True, slots=True)
class TensorRow:
    """`shape` in numpy order, `offset` in the file of number `shard`."""

    name: str
    shape: tuple[int, ...]
    type: str
    bytes: int
    offset: int
    shard: int


@dataclass(frozen=True, slots=True)
class TypeRow:
    """All tensors of one type; `native`: our own kernels compute with it."""

    type: str
    tensors: int
    elements: int
    bytes: int
    native: bool


@dataclass(frozen=True, slots=True)
class RoleRow:
    """All tensors of one role in the model."""

    role: str
    tensors: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ShardRow:
    file: str
    bytes: int
    tensors: int


@dataclass(frozen=True, slots=True)
class SpecSummary:
    """The model's sizes, where its architecture is one that Tessera builds itself."""

    layers: int
    width: int
    vocabulary: int
    context_length: int
    heads: int
    kv_heads: int
    head_dim: int
    feed_forward: int
    experts: int
    experts_used: int
    tied_output: bool
    rope: str


@dataclass(frozen=True, slots=True)
class FileDescription:
    path: str
    name: str
    kind: Literal["model", "projector", "adapter", "calibration", "part", "vocabulary"]
    architecture: str
    engine: Literal["native", "compatibility"]
    engine_reason: str  # why it is not native
    quantization: str
    parameters: int
    gguf_version: int
    file_bytes: int
    spec: SpecSummary | None
    notes: tuple[str, ...]  # what is odd about the file
    types: tuple[TypeRow, ...]
    roles: tuple[RoleRow, ...]
    shards: tuple[ShardRow, ...]
    metadata: tuple[MetadataRow, ...]
    tensors: tuple[TensorRow, ...]


def describe(path: str | os.PathLike[str]) -> FileDescription:
    """Reads headers only. The errors are those of GGUFFile.open; an unknown architecture or type is none."""
    with GGUFFile.open(path) as file:
        return describe_file(file)


def describe_file(file: GGUFFile) -> FileDescription:
    spec, obstacle = _native_spec(file)
    facts = model_facts(file.metadata, file.tensors)
    return FileDescription(
        path=os.fspath(file.path).encode("utf-8", "replace").decode(),
        name=facts.name or display_name(file.path),
        kind=facts.kind if file.tensors else "vocabulary",
        architecture=facts.architecture,
        engine="compatibility" if obstacle else "native",
        engine_reason=obstacle,
        quantization=_quantization(file),
        parameters=facts.parameters,
        gguf_version=file.version,
        file_bytes=file.file_bytes,
        spec=None if spec is None else _summary(spec),
        notes=tuple(_notes(file, facts, spec)),
        types=_types(file),
        roles=_roles(file),
        shards=tuple(_shards(file)),
        metadata=tuple(
            MetadataRow(key, entry.label, _shown_value(file.metadata[key]), entry.count)
            for key, entry in ((key, file.metadata.entry(key)) for key in file.metadata)
        ),
        tensors=tuple(
            TensorRow(info.name, info.shape, info.type_name, info.n_bytes, info.offset, info.shard)
            for info in file.tensors.values()
        ),
    )


def to_json(description: FileDescription) -> str:
    return json.dumps(dataclasses.asdict(description), ensure_ascii=False, allow_nan=False, indent=2)


# --- parts ------------------------------------------------------------------------------------------------------


def _native_spec(file: GGUFFile) -> tuple[ModelSpec | None, str]:
    """The spec, where there is one, and why our own engine cannot run the file; "" if it can."""
    try:
        spec = load_spec(file)
        weights = build_graph(spec).weights.values()
    except EngineError as error:
        return None, error.cause
    foreign = Counter(tensor.type_name for tensor in weights if tensor.type_id not in _cpu.QUANT_TYPES)
    if foreign:
        listed = ", ".join(f"{count} of {name}" for name, count in foreign.items())
        return spec, f"Tessera's own kernels do not know the type of some tensors: {listed}."
    return spec, ""


def _summary(spec: ModelSpec) -> SpecSummary:
    attends = [layer.attention for layer in spec.layers if not isinstance(layer.attention, DeltaNetSpec)]
    attention = attends[0] if attends else None
    experts = next((layer.feed_forward for layer in spec.layers if isinstance(layer.feed_forward, ExpertsSpec)), None)
    return SpecSummary(
        layers=len(spec.layers),
        width=spec.width,
        vocabulary=spec.vocabulary_size,
        context_length=spec.context_length,
        heads=attention.heads if attention else 0,
        kv_heads=attention.kv_heads if attention else 0,
        head_dim=attention.key_dim if attention else 0,
        feed_forward=spec.layers[0].feed_forward.width,
        experts=experts.count if experts else 0,
        experts_used=experts.used if experts else 0,
        tied_output=spec.tied_output,
        rope=_rotation(spec),
    )


def _rotation(spec: ModelSpec) -> str:
    attends = [layer.attention for layer in spec.layers if not isinstance(layer.attention, DeltaNetSpec)]
    rope = next((attention.rope for attention in attends if attention.rope), None)
    if rope is None:
        return "none"
    scaling = "yarn" if rope.yarn else "factors" if rope.factors else "linear" if rope.scale != 1 else "none"
    return f"{rope.mode}, base {rope.base:g}, scaling {scaling}"


def _notes(file: GGUFFile, facts: ModelFacts, spec: ModelSpec | None) -> list[str]:
    notes = [*(spec.warnings if spec is not None else ()), *facts.quirks]
    if facts.kind == "projector":
        notes = ["It is a projector for images or sound, to be used beside a model; alone it cannot chat."]
    if text(file.metadata, "tokenizer.ggml.pre") == "default":
        notes.append("The pre-tokenizer is “default”: an old conversion, whose text may be split wrongly.")
    foreign = Counter(info.type_name for info in file.tensors.values() if not info.is_known_type)
    notes += [f"{count} tensors are of {name}, made by another engine." for name, count in foreign.items()]
    return notes


def _quantization(file: GGUFFile) -> str:
    try:
        return quantization_name(file)
    except EngineError:
        return ""


def _types(file: GGUFFile) -> tuple[TypeRow, ...]:
    tensors, elements, sizes = Counter[int](), Counter[int](), Counter[int]()
    names = {}
    for info in file.tensors.values():
        names[info.type_id] = info.type_name
        tensors[info.type_id] += 1
        elements[info.type_id] += info.elements
        sizes[info.type_id] += info.n_bytes
    rows = [TypeRow(names[i], tensors[i], elements[i], sizes[i], i in _cpu.QUANT_TYPES) for i in names]
    return tuple(sorted(rows, key=lambda row: -row.bytes))


def _roles(file: GGUFFile) -> tuple[RoleRow, ...]:
    tensors, sizes = Counter[TensorRole](), Counter[TensorRole]()
    for info in file.tensors.values():
        role = tensor_role(info.name)
        tensors[role] += 1
        sizes[role] += info.n_bytes
    return tuple(RoleRow(role.value, tensors[role], size) for role, size in sizes.most_common())


def _shards(file: GGUFFile) -> list[ShardRow]:
    counts = Counter(info.shard for info in file.tensors.values())
    return [
        ShardRow(display_name(path), size, counts[number])
        for number, (path, size) in enumerate(zip(file.shards, file.shard_bytes, strict=True))
    ]


def _shown_value(value: Any) -> Any:
    if isinstance(value, StringArray):
        return value[:_FIRST_ITEMS]
    if isinstance(value, np.ndarray):
        return [_shown_value(item) for item in value[:_FIRST_ITEMS].tolist()]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it
    return value
