"""What a header tells about a model: enough to list it, to say whether it fits, and to show what is odd about it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from engine.errors import EngineError
from engine.gguf import Metadata, TensorInfo
from engine.models.registry import native_architectures
from engine.placement.header_keys import HeaderKeys
from engine.placement.state import StateKind, StateShape, cached_value_bytes
from engine.placement.state_of_header import layer_states

Kind = Literal["model", "projector", "adapter", "calibration", "part"]
_EXPERT = re.compile(r"ffn_(?:gate|up|down|gate_up)_exps")
_LAYER = re.compile(r"^blk\.(\d+)\.")
_GROWING = (StateKind.FULL, StateKind.LATENT)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Counts and sizes from one header (of a split model: of the parts that were read).

    `states`: what each layer remembers, none where the header does not tell. `unsupported` says why nothing here can
    run it, empty if something can. `native` is True when our own engine builds the architecture. `quirks` are
    sentences.
    """

    kind: Kind
    architecture: str
    name: str
    context_length: int
    layers: int
    parameters: int
    tensor_bytes: int
    expert_bytes: int
    states: tuple[StateShape, ...]
    native: bool
    unsupported: str
    quirks: tuple[str, ...]
    parts: int  # files of the whole model

    def value_bytes(self, kv_type: str) -> float:
        """Of one cached value where `kv_type`, LoadOptions', is asked for."""
        return cached_value_bytes(self.states, kv_type)

    def cache_bytes(self, context: int, kv_type: str) -> int:
        """Of everything that is remembered of a context of this many tokens."""
        return sum(state.bytes(context, self.value_bytes(kv_type)) for state in self.states)

    def bytes_per_token(self, kv_type: str) -> float:
        """By which the cache grows with the context: of layers that see all of it."""
        return self.value_bytes(kv_type) * sum(s.values_per_position for s in self.states if s.kind in _GROWING)


def model_facts(metadata: Metadata, tensors: Mapping[str, TensorInfo]) -> ModelFacts:
    """Facts of a header. Keys of the wrong type count as missing: listing a model must not fail on them."""
    architecture = text(metadata, "general.architecture")
    layers = number(metadata, f"{architecture}.block_count")
    infos = tensors.values()
    return ModelFacts(
        kind=_kind(metadata, architecture),
        architecture=architecture,
        name=text(metadata, "general.name"),
        context_length=number(metadata, f"{architecture}.context_length"),
        layers=layers,
        parameters=sum(info.elements for info in infos),
        tensor_bytes=sum(info.n_bytes for info in infos),
        expert_bytes=sum(info.n_bytes for info in infos if _EXPERT.search(info.name)),
        states=_states(metadata, tensors),
        native=architecture in native_architectures(),
        unsupported=unsupported_type(infos),
        quirks=tuple(_quirks(metadata, architecture, layers, tensors)),
        parts=max(1, number(metadata, "split.count", 1)),
    )


def unsupported_type(tensors: Iterable[TensorInfo]) -> str:
    """Names the first tensor type that nothing here can run; empty if there is none."""
    for info in tensors:
        if not info.is_known_type:
            return f"tensor type {short_type(info.type_name)}"
    return ""


def short_type(name: str) -> str:
    """ "unsupported type 134 (IQ1_BN, of ik_llama.cpp)" → "IQ1_BN"; without a name the number stays."""
    match = re.search(r"type (\d+)(?: \(([A-Z\d_]+))?", name)
    return name if match is None else match[2] or match[1]


def number(metadata: Metadata, key: str, default: int = 0) -> int:
    try:
        return int(metadata.u64(key, default))
    except EngineError:
        return default


def text(metadata: Metadata, key: str) -> str:
    try:
        return metadata.string(key, "")
    except EngineError:
        return ""


def _kind(metadata: Metadata, architecture: str) -> Kind:
    kind = text(metadata, "general.type")
    if architecture == "clip" or kind == "mmproj":
        return "projector"
    if kind == "adapter" or "adapter.type" in metadata:
        return "adapter"
    if kind == "imatrix" or architecture == "imatrix":
        return "calibration"
    return "part" if number(metadata, "split.no") > 0 else "model"


def _states(metadata: Metadata, tensors: Mapping[str, TensorInfo]) -> tuple[StateShape, ...]:
    by_layer: defaultdict[int, list[TensorInfo]] = defaultdict(list)
    for name, info in tensors.items():
        if match := _LAYER.match(name):
            by_layer[int(match[1])].append(info)
    try:
        keys = HeaderKeys(metadata, "")
        layers = keys.integer("block_count", low=1, high=4096)
        return layer_states(keys, by_layer, layers - keys.integer("nextn_predict_layers", 0, high=layers - 1))
    except EngineError:
        return ()


def _quirks(metadata: Metadata, architecture: str, layers: int, tensors: Mapping[str, TensorInfo]) -> Iterable[str]:
    if not architecture:
        yield "The file does not say which architecture it is of."
    model = text(metadata, "tokenizer.ggml.model")
    if not model:
        yield "There is no tokenizer in the file."
    if model == "gpt2" and not text(metadata, "tokenizer.ggml.pre"):
        yield "The pre-tokenizer is missing: an old conversion, whose text may be split wrongly."
    if not text(metadata, "tokenizer.chat_template"):
        yield "There is no chat template: a plain one is used, and a base model may not answer as an assistant."
    if "tokenizer.ggml.eos_token_id" not in metadata:
        yield "No end-of-text token is named: answers may run on."
    if any(re.search(r"ffn_(gate|up|down)\.\d+\.weight", name) for name in tensors):
        yield "Experts are stored one by one: an old conversion; a newer one is needed."
    numbers = {int(match[1]) for name in tensors if (match := _LAYER.match(name))}
    if numbers and layers and number(metadata, "split.count", 1) <= 1 and len(numbers) != layers:
        yield f"The header speaks of {layers} layers, and tensors of {len(numbers)} are there."
    known = ("general.", "tokenizer.", "split.", "quantize.", "adapter.", "imatrix.", f"{architecture}.")
    unknown = [key for key in metadata if not key.startswith(known)]
    if unknown:
        yield f"Keys of an unknown kind: {', '.join(unknown[:5])}{' …' if len(unknown) > 5 else ''}."
