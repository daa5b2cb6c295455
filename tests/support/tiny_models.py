"""Tiny models of random weights that llama.cpp loads and runs, one for every variant the tests ask for.

    path = tiny_models(TinyModel("qwen3", mix="Q4_K_M", tied=True))     # fixture of tests/conftest.py

The same `TinyModel` gives the same bytes always: each tensor is drawn from a generator seeded by its name. Weights
have a standard deviation of 1/sqrt(row length), and those that write into the residual stream 1/sqrt(2 x layers) of
it, so that depth does not amplify noise and logits of two engines can be compared. The tokenizer is the starter
model's, cut to its first entries, which hold all bytes, all control tokens and the most frequent merges.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.gguf import GGUFFile, QuantType
from tests.support.gguf_writer import GGUFBuilder
from tests.support.quantize import CODEBOOK_TYPES, TYPES, quantize
from tests.support.tiny_families import TRAITS, Traits, trait_metadata

FAMILIES = tuple(TRAITS)  # mixtral: architecture llama, with experts

# mix -> (general.file_type, type, better type of attn_v, ffn_down and the output). A type's own name is a mix, too.
_MIXES = {
    "Q2_K_M": (10, "Q2_K", "Q4_K"),
    "Q3_K_M": (12, "Q3_K", "Q5_K"),
    "Q4_K_M": (15, "Q4_K", "Q6_K"),
    "Q5_K_M": (17, "Q5_K", "Q6_K"),
    "Q4_1_M": (3, "Q4_1", "Q8_0"),  # as the starter model
    "IQ4_XS_M": (30, "IQ4_XS", "Q6_K"),
    "IQ4_NL_M": (25, "IQ4_NL", "Q5_K"),
    "MXFP4_M": (38, "MXFP4", "Q8_0"),
    "IQ3_S_M": (27, "IQ3_S", "IQ4_XS"),
    "IQ2_XXS_M": (19, "IQ2_XXS", "Q4_K"),  # as the "dynamic" mixes, which spare few tensors
}
_FILE_TYPES = {
    "F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K": 11, "Q4_K": 14,
    "Q5_K": 16, "Q6_K": 18, "BF16": 32, "IQ4_NL": 25, "IQ4_XS": 30, "MXFP4": 38,
    "IQ2_XXS": 19, "IQ2_XS": 20, "IQ3_XXS": 23, "IQ1_S": 24, "IQ3_S": 26, "IQ2_S": 28, "IQ1_M": 31, "TQ1_0": 36,
    "TQ2_0": 37,
}  # fmt: skip
MIXES = (*TYPES, *_MIXES, "all", "codebooks")


@dataclasses.dataclass(frozen=True)
class TinyModel:
    """A variant. Widths are multiples of 256, so that every type fits every matrix."""

    family: str = "llama"
    mix: str = "F32"  # one of MIXES; "all" and "codebooks" go through such types from tensor to tensor
    layers: int = 2
    embedding: int = 256
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 0  # 0: as the family has it, or embedding / heads
    feed_forward: int = 512
    experts: int = 8  # where the family has them
    experts_used: int = 2
    vocabulary: int = 512
    context: int = 2048
    tied: bool = False  # no output matrix: the embeddings serve
    biases: bool | None = None  # of q, k and v; None: as the family has it
    output_bias: bool = False  # of attn_output
    rope_base: float = 10000.0
    rope_scaling: str = ""  # "", "linear", "yarn", "llama3" (a tensor of factors), "longrope" (two)
    rope_factor: float = 4.0
    epsilon: float = 1e-5
    add_bos: bool = False
    seed: int = 0
    overrides: tuple[tuple[str, Any], ...] = ()  # metadata to replace; None takes a key away
    without: tuple[str, ...] = ()  # tensors to leave out

    def __post_init__(self) -> None:
        if self.rope_scaling == "llama3" and self.architecture != "llama":
            raise ValueError("llama.cpp takes rope factors as a tensor in the architecture llama only")

    @property
    def architecture(self) -> str:
        return self.traits.architecture or self.family

    @property
    def traits(self) -> Traits:
        return TRAITS.get(self.family, Traits())

    @property
    def head_width(self) -> int:
        return self.head_dim or self.traits.head_width or self.embedding // self.heads

    @property
    def has_experts(self) -> bool:
        return self.traits.experts

    @property
    def has_biases(self) -> bool:
        return self.traits.biases if self.biases is None else self.biases

    @property
    def is_tied(self) -> bool:
        return self.tied or self.traits.tied

    def family_metadata(self) -> dict[str, Any]:
        """What a family of its own has beside, or in place of, `model_metadata`."""
        return {f"{self.architecture}.{key}": value for key, value in trait_metadata(self)}

    def layer_weights(self, layer: int) -> Iterator[Weight]:
        """Tensors of one layer, their names without "blk.<layer>."."""
        yield from _attention(self)
        is_dense = not self.has_experts or layer < self.traits.dense_layers
        yield from self.dense_weights() if is_dense else self.expert_weights()

    def dense_weights(self, ending: str = "") -> Iterator[Weight]:
        if self.traits.fused_gate_up:
            yield Weight("ffn_up.weight", (2 * self.feed_forward, self.embedding))
        else:
            yield Weight(f"ffn_gate{ending}.weight", (self.feed_forward, self.embedding))
            yield Weight(f"ffn_up{ending}.weight", (self.feed_forward, self.embedding))
        yield Weight(f"ffn_down{ending}.weight", (self.embedding, self.feed_forward), "better",
                     std=self.residual_std(self.feed_forward))  # fmt: skip

    def expert_weights(self) -> Iterator[Weight]:
        traits = self.traits
        if traits.shared != "none":
            yield from self.dense_weights("_shexp")
        if traits.shared == "gated":
            yield Weight("ffn_gate_inp_shexp.weight", (self.embedding,), "float")
        if traits.selection_bias:
            yield Weight("exp_probs_b.bias", (self.experts,), "float", std=0.1)
        if traits.expert_biases:
            yield Weight("ffn_gate_inp.bias", (self.experts,), "float", std=0.5)
            yield Weight("ffn_gate_exps.bias", (self.experts, self.feed_forward), "float", std=0.5)
            yield Weight("ffn_up_exps.bias", (self.experts, self.feed_forward), "float", std=0.5)
            yield Weight("ffn_down_exps.bias", (self.experts, self.embedding), "float", std=self.residual_std(1))
        yield Weight("ffn_gate_inp.weight", (self.experts, self.embedding), "float")
        yield Weight("ffn_gate_exps.weight", (self.experts, self.feed_forward, self.embedding))
        yield Weight("ffn_up_exps.weight", (self.experts, self.feed_forward, self.embedding))
        yield Weight("ffn_down_exps.weight", (self.experts, self.embedding, self.feed_forward), "better",
                     std=self.residual_std(self.feed_forward))  # fmt: skip

    def residual_std(self, row: int) -> float:
        """Of a matrix that writes into the residual stream."""
        return 1 / math.sqrt(row * 2 * self.layers)

    @property
    def slug(self) -> str:
        """A file name's stem: what differs from the defaults."""
        parts = [
            f"{field.name}-{getattr(self, field.name)}"
            for field in dataclasses.fields(self)
            if field.name not in ("family", "mix") and getattr(self, field.name) != field.default
        ]
        text = "_".join([self.family, self.mix, *parts])
        return (
            text
            if len(text) < 80 and text.isascii() and "/" not in text
            else f"{text[:60]}~{zlib.crc32(text.encode()):08x}"
        )


def tiny_model_builder(model: TinyModel, tokenizer: Path | str) -> GGUFBuilder:
    """The model's file, not yet written; `tokenizer` is the GGUF whose vocabulary is cut down."""
    builder = GGUFBuilder(None)
    vocabulary = cut_vocabulary(tokenizer, model.vocabulary)
    if named := model.traits.tokens:  # in place of the rarest ones
        tokens = [*vocabulary["tokenizer.ggml.tokens"][: -len(named)], *named]
        vocabulary = {**vocabulary, "tokenizer.ggml.tokens": tokens}
    builder.add_all({**model_metadata(model), **vocabulary, **_tokenizer_flags(model)})
    for key, value in model.overrides:
        builder.pairs = [pair for pair in builder.pairs if pair.key != key.encode()]
        if value is not None:
            builder.add(key, value)
    matrices = 0
    for weight in model_weights(model):
        if weight.name in model.without:
            continue
        kind = weight_type(model.mix, weight.role, matrices)
        matrices += weight.role != "float"
        values = weight.values(model.seed)
        if values.shape[-1] % QuantType[kind].block_elements:
            kind = "Q8_0"  # as llama.cpp's converter: a type whose blocks fit the row
        raw = quantize(values.reshape(-1, values.shape[-1]), kind)
        builder.tensor(weight.name, values.shape, QuantType[kind], raw.tobytes())
    return builder


def tiny_model_factory(folder: Path, tokenizer: Callable[[], Path]) -> Callable[[TinyModel], Path]:
    """A function that writes a model into `folder` once and gives its path."""

    @functools.cache
    def write(model: TinyModel) -> Path:
        return tiny_model_builder(model, tokenizer()).write(folder / f"{model.slug}.gguf")

    return write


# --- metadata ---------------------------------------------------------------------------------------------------


def model_metadata(m: TinyModel) -> dict[str, Any]:
    a = m.architecture
    pairs: dict[str, Any] = {
        "general.architecture": a,
        "general.name": f"Tiny {m.family}",
        "general.file_type": _MIXES[m.mix][0] if m.mix in _MIXES else _FILE_TYPES.get(m.mix, 0),
        "general.quantization_version": 2,
        f"{a}.block_count": m.layers,
        f"{a}.context_length": m.context,
        f"{a}.embedding_length": m.embedding,
        f"{a}.feed_forward_length": m.feed_forward,
        f"{a}.vocab_size": m.vocabulary,
        f"{a}.attention.head_count": m.heads,
        f"{a}.attention.head_count_kv": m.kv_heads,
        f"{a}.attention.layer_norm_rms_epsilon": m.epsilon,
        f"{a}.rope.freq_base": m.rope_base,
    }
    if m.head_width * m.heads != m.embedding:
        pairs[f"{a}.attention.key_length"] = m.head_width
        pairs[f"{a}.attention.value_length"] = m.head_width
    if m.rope_scaling in ("linear", "yarn", "longrope"):
        pairs[f"{a}.rope.scaling.type"] = m.rope_scaling
        if m.rope_scaling != "longrope":
            pairs[f"{a}.rope.scaling.factor"] = m.rope_factor
        if m.rope_scaling in ("yarn", "longrope"):
            pairs[f"{a}.rope.scaling.original_context_length"] = max(m.context // 8, 32)
    return pairs | m.family_metadata()


def _tokenizer_flags(m: TinyModel) -> dict[str, Any]:
    return {"tokenizer.ggml.add_bos_token": m.add_bos}


@functools.cache
def cut_vocabulary(path: Path | str, size: int) -> dict[str, Any]:
    """The tokenizer.* pairs of a BPE model, with the first `size` tokens and the merges that remain possible."""
    with GGUFFile.open(path) as file:
        metadata = file.metadata
        tokens = metadata.string_array("tokenizer.ggml.tokens")[:size]
        known = set(tokens)
        merges = [
            merge
            for merge in metadata.string_array("tokenizer.ggml.merges")
            if known.issuperset((*merge.split(" ", 1), merge.replace(" ", "", 1)))
        ]
        pairs: dict[str, Any] = {key: metadata[key] for key in metadata if key.startswith("tokenizer.")}
        pairs["tokenizer.ggml.tokens"] = tokens
        pairs["tokenizer.ggml.merges"] = merges
        pairs["tokenizer.ggml.token_type"] = metadata.i32_array("tokenizer.ggml.token_type")[:size].copy()
    outside = [key for key, value in pairs.items() if key.endswith("_token_id") and int(value) >= size]
    if outside:
        raise ValueError(f"{outside} point behind the first {size} tokens")
    return pairs


# --- weights ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Weight:
    name: str
    shape: tuple[int, ...]
    role: str = "matrix"  # "matrix", "better" (gets the better type of a mix), "float" (always F32)
    std: float = 0.0  # 0: 1 / sqrt(row length)
    mean: float = 0.0
    fixed: tuple[float, ...] = ()

    def values(self, seed: int) -> NDArray[np.float32]:
        if self.fixed:
            return np.array(self.fixed, np.float32)
        rng = np.random.default_rng((seed, zlib.crc32(self.name.encode())))
        std = self.std or 1 / math.sqrt(self.shape[-1])
        return rng.standard_normal(self.shape, np.float32) * np.float32(std) + np.float32(self.mean)


def weight_type(mix: str, role: str, index: int) -> str:
    if role == "float":
        return "F32"
    if mix in ("all", "codebooks"):
        types = CODEBOOK_TYPES if mix == "codebooks" else [name for name in TYPES if name not in CODEBOOK_TYPES]
        return types[index % len(types)]
    if mix in _MIXES:
        return _MIXES[mix][2 if role == "better" else 1]
    return mix


def model_weights(m: TinyModel) -> Iterator[Weight]:
    yield Weight("token_embd.weight", (m.vocabulary, m.embedding), "better" if m.is_tied else "matrix",
                 std=1 / (3 * math.sqrt(m.embedding)) if m.is_tied else 1.0)  # fmt: skip
    # Tied embeddings are small, or each token would only predict itself; the last norm then spreads the logits.
    yield Weight("output_norm.weight", (m.embedding,), "float", std=0.1, mean=6.0 if m.is_tied else 2.0)
    if not m.is_tied:
        yield Weight("output.weight", (m.vocabulary, m.embedding), "better")
    if m.rope_scaling == "llama3":
        yield Weight("rope_freqs.weight", (m.head_width // 2,), "float", fixed=llama3_factors(m))
    if m.rope_scaling == "longrope":
        for name, mean in (("short", 1.2), ("long", 8.0)):
            yield Weight(f"rope_factors_{name}.weight", (m.head_width // 2,), "float", std=0.1, mean=mean)
    for layer in range(m.layers):
        for weight in m.layer_weights(layer):
            yield dataclasses.replace(weight, name=f"blk.{layer}.{weight.name}")


def _attention(m: TinyModel) -> Iterator[Weight]:
    q, kv = m.heads * m.head_width, m.kv_heads * m.head_width
    sharp = 1.5 / math.sqrt(m.embedding)  # scores spread enough for positions to matter
    if m.traits.norms != "after":
        yield _norm("attn_norm", m.embedding)
    if m.traits.fused:
        yield Weight("attn_qkv.weight", (q + 2 * kv, m.embedding), std=sharp)
    else:
        yield Weight("attn_q.weight", (q, m.embedding), std=sharp)
        yield Weight("attn_k.weight", (kv, m.embedding), std=sharp)
        yield Weight("attn_v.weight", (kv, m.embedding), "better")
    if m.has_biases:
        yield Weight("attn_q.bias", (q,), "float", std=0.3)
        yield Weight("attn_k.bias", (kv,), "float", std=0.3)
        yield Weight("attn_v.bias", (kv,), "float", std=0.3)
    if m.traits.qk_norm != "none":
        is_row = m.traits.qk_norm == "row"
        yield Weight("attn_q_norm.weight", (q if is_row else m.head_width,), "float", std=0.2, mean=1.2)
        yield Weight("attn_k_norm.weight", (kv if is_row else m.head_width,), "float", std=0.2, mean=1.2)
    if m.traits.sinks:
        yield Weight("attn_sinks.weight", (m.heads,), "float", std=1.5)
    yield Weight("attn_output.weight", (m.embedding, q), std=m.residual_std(q))
    if m.output_bias or m.traits.output_bias:
        yield Weight("attn_output.bias", (m.embedding,), "float", std=0.1)
    if m.traits.norms != "before":
        yield _norm("post_attention_norm", m.embedding, 1 / math.sqrt(2 * m.layers))
        yield _norm("post_ffw_norm", m.embedding, 1 / math.sqrt(2 * m.layers))
    if m.traits.norms != "after":
        yield _norm(m.traits.ffn_norm, m.embedding)


def _norm(stem: str, width: int, mean: float = 1.0) -> Weight:
    return Weight(f"{stem}.weight", (width,), "float", std=0.1 * mean, mean=mean)


def llama3_factors(m: TinyModel) -> tuple[float, ...]:
    """Divisors of the rotary frequencies as Llama 3.1 defines them: low ones by `rope_factor`, high ones by 1."""
    original, low, high = m.context / 8, 1.0, 4.0
    factors = []
    for i in range(m.head_width // 2):
        turns = original / (2 * math.pi * m.rope_base ** (2 * i / m.head_width))  # over the original context
        smooth = min(max((turns - low) / (high - low), 0.0), 1.0)
        factors.append(1 / ((1 - smooth) / m.rope_factor + smooth))
    return tuple(factors)
