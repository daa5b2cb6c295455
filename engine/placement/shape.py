"""ModelShape: all that placement needs to know of a model, from its header alone.

A shape is built from a GGUF file's metadata and tensor list, or from a shape file: the same numbers written down as
JSON for a model that is not at hand (`from_shape_file`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import FormatError, UnsupportedError
from engine.gguf import GGUFFile, QuantType
from engine.models.registry import native_architectures
from engine.placement.header_keys import HeaderKeys
from engine.placement.state import F16_BYTES, StateShape, cached_value_bytes
from engine.placement.state_of_header import layer_states

_LAYER = re.compile(r"blk\.(\d+)\.")


@dataclass(frozen=True, slots=True)
class TensorShape:
    """A tensor's name, type and size. `shape` begins with the row length, as in the file."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def cols(self) -> int:
        return self.shape[0]

    @property
    def rows(self) -> int:
        """Rows of one matrix (of one expert, where experts are stacked)."""
        return self.shape[1] if len(self.shape) > 1 else 1

    @property
    def count(self) -> int:
        """Stacked matrices."""
        return self.shape[2] if len(self.shape) > 2 else 1


@dataclass(frozen=True, slots=True)
class LayerShape:
    index: int
    state: StateShape
    tensors: tuple[TensorShape, ...]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """`layers` are those that run; extra prediction layers at the end of a file stand in `unused_bytes`."""

    name: str
    architecture: str
    hidden: int
    vocabulary: int
    context_length: int
    experts: int
    experts_used: int
    layers: tuple[LayerShape, ...]
    outer: tuple[TensorShape, ...]  # tensors outside the layers: embedding, output head and its norm
    unused_bytes: int = 0
    source: str = ""

    @property
    def weight_bytes(self) -> int:
        """Bytes of all tensors that a run needs. Experts count in full, however few of them a token uses."""
        return sum(t.bytes for t in self.outer) + sum(t.bytes for layer in self.layers for t in layer.tensors)

    @property
    def type_names(self) -> frozenset[str]:
        """Types of the tensors."""
        return frozenset(t.type_name for t in (*self.outer, *(t for layer in self.layers for t in layer.tensors)))

    @property
    def is_moe(self) -> bool:
        return self.experts > 0

    @property
    def is_native(self) -> bool:
        """Our own engine builds this architecture; others run on the compatibility engine."""
        return self.architecture in native_architectures()

    @property
    def fingerprint(self) -> str:
        """The model is known by its tensors, wherever its file lies and whatever that is called."""
        tensors = [tensor for layer in self.layers for tensor in layer.tensors]
        described = "\n".join(f"{t.name} {t.type_name} {t.shape}" for t in (*self.outer, *tensors))
        return hashlib.sha256(f"{self.name}\n{self.architecture}\n{described}".encode()).hexdigest()[:20]

    def state_bytes(self, context: int, value_bytes: float = F16_BYTES) -> int:
        return sum(layer.state.bytes(context, value_bytes) for layer in self.layers)

    def value_bytes(self, kv_type: str) -> float:
        """Of one cached value where `kv_type` is asked for."""
        return cached_value_bytes((layer.state for layer in self.layers), kv_type)

    # --- sources ----------------------------------------------------------------------------------------------

    @classmethod
    def from_gguf(cls, file: GGUFFile) -> ModelShape:
        tensors = [TensorShape(t.name, t.type_name, tuple(t.ggml_shape), t.n_bytes) for t in file.tensors.values()]
        return cls.from_header(file.metadata, tensors, str(file.path))

    @classmethod
    def from_header(cls, metadata: Mapping[str, Any], tensors: Iterable[TensorShape], source: str) -> ModelShape:
        """Builds the shape; FormatError where the header contradicts itself, UnsupportedError where what it lacks may
        be a matter of its architecture, which our own engine does not know."""
        keys = HeaderKeys(metadata, source)
        try:
            return cls._from_keys(keys, tensors, source)
        except FormatError as error:
            if keys.architecture in native_architectures():
                raise
            raise UnsupportedError(
                f"{source}: the architecture “{keys.architecture}” is not one that Tessera builds itself, and what a "
                f"plan needs does not stand in the header as with others ({error.cause}).",
                done="Nothing was planned.",
                remedy="It may run on the compatibility engine (llama.cpp), without a plan and on the processor.",
            ) from error

    @classmethod
    def _from_keys(cls, keys: HeaderKeys, tensors: Iterable[TensorShape], source: str) -> ModelShape:
        count = keys.integer("block_count", low=1, high=4096)
        by_layer: dict[int, list[TensorShape]] = {}
        outer: list[TensorShape] = []
        for tensor in tensors:
            match = _LAYER.match(tensor.name)
            if match:
                by_layer.setdefault(int(match[1]), []).append(tensor)
            else:
                outer.append(tensor)
        if by_layer and max(by_layer) >= count:
            raise FormatError(f"{source}: block_count is {count}, but there are tensors of layer {max(by_layer)}.")
        running = count - keys.integer("nextn_predict_layers", 0, low=0, high=count - 1)
        missing = [index for index in range(running) if index not in by_layer]
        if missing:
            raise FormatError(f"{source}: block_count is {count}, but layer {missing[0]} has no tensors.")
        experts = keys.integer("expert_count", 0, low=0, high=65536)
        used = keys.integer("expert_used_count", 0, low=0, high=max(experts, 0))
        _check_experts(by_layer, running, experts, used, source)
        states = layer_states(keys, by_layer, running)
        layers = tuple(
            LayerShape(i, states[i], tuple(sorted(by_layer[i], key=lambda t: t.name))) for i in range(running)
        )
        unused = sum(t.bytes for i in range(running, count) for t in by_layer.get(i, []))
        return cls(
            name=keys.text("general.name", Path(source).stem),
            architecture=keys.architecture,
            hidden=keys.integer("embedding_length", low=1, high=1 << 20),
            vocabulary=_vocabulary(outer, keys),
            context_length=keys.integer("context_length", 0, low=0, high=1 << 40) or 4096,
            experts=experts,
            experts_used=used,
            layers=layers,
            outer=tuple(outer),
            unused_bytes=unused,
            source=source,
        )

    @classmethod
    def from_shape_file(cls, path: Path) -> ModelShape:
        """Reads a shape file: `{"metadata": {…}, "tensors": [{"name", "shape", "type", "layers"?, "types"?}]}`.

        `{}` in a name stands for each layer of `layers` (all when absent); `types` lists, per type, the layers
        that differ from `type`.
        """
        data = json.loads(path.read_text("utf-8"))
        count = int(data["metadata"][f"{data['metadata']['general.architecture']}.block_count"])
        tensors = [t for entry in data["tensors"] for t in _expand(entry, count)]
        return cls.from_header(data["metadata"], tensors, path.name)


def _expand(entry: Mapping[str, Any], count: int) -> list[TensorShape]:
    shape = tuple(int(n) for n in entry["shape"])
    if "{}" not in entry["name"]:
        return [_tensor(entry["name"], entry["type"], shape)]
    types = {layer: name for name, layers in entry.get("types", {}).items() for layer in layers}
    layers = entry.get("layers", range(count))
    return [_tensor(entry["name"].format(i), types.get(i, entry["type"]), shape) for i in layers]


def _tensor(name: str, type_name: str, shape: tuple[int, ...]) -> TensorShape:
    rows = 1
    for n in shape[1:]:
        rows *= n
    return TensorShape(name, type_name, shape, QuantType[type_name].row_bytes(shape[0]) * rows)


def _vocabulary(outer: list[TensorShape], keys: HeaderKeys) -> int:
    for tensor in outer:
        if tensor.name == "token_embd.weight":
            return tensor.rows
    return keys.integer("vocab_size", 0, low=0, high=1 << 30)


def _check_experts(
    by_layer: Mapping[int, list[TensorShape]], running: int, experts: int, used: int, source: str
) -> None:
    """The header's expert count must be that of the stacked tensors: costs and slots are counted with it."""
    stacked = [t for i in range(running) for t in by_layer[i] if "_exps.weight" in t.name]
    for tensor in stacked:
        if tensor.count != experts:
            raise FormatError(f"{source}: expert_count is {experts}, but {tensor.name} holds {tensor.count} experts.")
    if stacked and not 1 <= used <= experts:
        raise FormatError(f"{source}: expert_used_count is {used} of {experts} experts.")
