"""Multi-head latent attention: what a layer keeps of a position is one compressed row that all heads share.

arXiv:2405.04434, section 2.1, in the absorbed form: keys and values are never made of the compressed rows; queries are
led into their space instead, and what attention mixes there is led out.

    q            = q_b · norm(q_a · x), or q · x     heads of [plain | rotary]
    row          = [norm(c) | rope(r)] of [c | r] = kv_a · x        kept: rank + rotary values
    query        = [k_bᵀ · plain | rope(rotary)]     one per head; all see the same rows
    out          = output · (v_b · Σ weights × c)    per head

Files of 2025 and later hold k_b transposed, and v_b, each stacked by head; older ones both in one matrix `attn_kv_b`,
whose rows are each head's [k_b | v_b].
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import UnsupportedError
from engine.models.graph import Attention, HeadLinear, KVLayer, Rope
from engine.models.reading import SpecReader
from engine.models.spec import Gating, LatentSpec, RopeSpec, YarnSpec, yarn_sharpening

if TYPE_CHECKING:
    from engine.models.build import Builder


class LatentReader(SpecReader):
    """Reads layers with latent attention; everything else is as in other families."""

    def _attention(self, index: int, rope_factors: tuple[float, ...]) -> LatentSpec:
        blk, keys = f"blk.{index}", self.keys
        self._refuse_scaling()
        heads = keys.per_layer("attention.head_count", index, self.blocks)
        rank = self._agreed("attention.kv_lora_rank", self._tensor(f"{blk}.attn_kv_a_norm.weight").cols)
        compressed = self._tensor(f"{blk}.attn_kv_a_mqa.weight").rows
        rotary = compressed - rank
        query_rank = self._query_rank(blk)
        query = f"{blk}.attn_q_b.weight" if query_rank else f"{blk}.attn_q.weight"
        plain = self._head_dim(query, heads) - rotary
        both = f"{blk}.attn_kv_b.weight"
        split = both not in self.tensors
        value = self._tensor(f"{blk}.attn_v_b.weight").rows if split else self._head_dim(both, heads) - plain
        if min(rank, rotary, plain, value) < 1:
            raise self._broken(f"“{query}” and “{blk}.attn_kv_a_mqa.weight” leave no values for a part of a head")
        ending = "_mla" if keys.has("attention.key_length_mla") else ""
        self._agreed(f"attention.key_length{ending}", plain + rotary)
        self._agreed(f"attention.value_length{ending}", value)
        rope = self._rope(rotary, rope_factors)
        if rope.dimensions != rotary:
            raise self._broken(f"rope.dimension_count is {rope.dimensions}, but {rotary} values of a head turn")
        return LatentSpec(
            heads=heads,
            query_rank=query_rank,
            rank=rank,
            plain_dim=plain,
            value_dim=value,
            scale=self._sharpening(rope) ** 2 / math.sqrt(plain + rotary),
            rope=rope,
            split=split,
        )

    def _default_gating(self) -> Gating:
        """Files of GLM 4.7 Flash, known by their size, do without the key; so do those of V2."""
        is_glm = self.blocks in (47, 48) and self._tensor("token_embd.weight").rows == 154880
        return "sigmoid" if is_glm else super()._default_gating()

    def _query_rank(self, blk: str) -> int:
        """Values that queries are compressed to, or 0 where they are not."""
        norm = self.tensors.get(f"{blk}.attn_q_a_norm.weight")
        return self._agreed("attention.q_lora_rank", norm.cols) if norm else 0

    def _refuse_scaling(self) -> None:
        """Only YaRN tells by how much scores are to be sharpened."""
        scaling = self.keys.text("rope.scaling.type", "none")
        if scaling not in ("none", "yarn"):
            key = f"{self.gguf.architecture}.rope.scaling.type"
            raise UnsupportedError(
                f"{self.gguf.path.name}: {key} is {scaling}, which is not supported.",
                remedy="It may run on the compatibility engine.",
            )

    def _yarn(self) -> YarnSpec:
        """Where a file says by how much scores are sharpened, the rotation itself is not."""
        yarn = super()._yarn()
        return replace(yarn, log_multiplier=1.0) if yarn.log_multiplier else yarn

    def _sharpening(self, rope: RopeSpec) -> float:
        """What YaRN multiplies queries by, and keys; converters write a tenth of the model's `mscale_all_dim`."""
        multiplier = 10 * self.keys.number("rope.scaling.yarn_log_multiplier", 0.0)
        return rope.magnitude * yarn_sharpening(1 / rope.scale, multiplier)


def latent_attention(b: Builder, index: int, spec: LatentSpec, normed: str, *, select: bool) -> str:
    """The layer's attention over `normed`, before its output projection."""
    blk = f"blk.{index}"
    rotary = spec.rope.dimensions
    row, head = spec.rank + rotary, spec.plain_dim + rotary
    compress = {f"{blk}.attn_kv_a_mqa": (f"{blk}.kv", row)}
    if spec.query_rank:
        q, kv = b.linear(normed, {f"{blk}.attn_q_a": (f"{blk}.q_a", spec.query_rank), **compress})
        q = b.rms_norm(q, f"{blk}.attn_q_a_norm.weight", f"{blk}.q_a_normed")
        (q,) = b.linear(q, {f"{blk}.attn_q_b": (f"{blk}.q", spec.heads * head)})
    else:
        q, kv = b.linear(normed, {f"{blk}.attn_q": (f"{blk}.q", spec.heads * head), **compress})
    kv = b.rms_norm(kv, f"{blk}.attn_kv_a_norm.weight", f"{blk}.kv_normed", group=spec.rank, groups=1)
    b.add_op(Rope(b.item, q, spec.heads, head, spec.rope, offset=spec.plain_dim))
    b.add_op(Rope(b.item, kv, 1, row, spec.rope, offset=spec.rank))
    query = b.value(f"{blk}.query", spec.heads * row)
    b.add_op(HeadLinear(b.item, q, *_absorb_keys(b, blk, spec, query)))
    mixed = b.value(f"{blk}.attn_mixed", spec.heads * spec.rank)
    b.kv_layers.append(KVLayer(1, row, spec.rank, latent=True))
    b.add_op(Attention(b.item, query, kv, kv, index, mixed, spec.heads, spec.scale, 0))
    mixed = b.select_rows(mixed) if select else mixed
    values = b.value(f"{blk}.attn_values", spec.heads * spec.value_dim)
    b.add_op(HeadLinear(b.item, mixed, *_release_values(b, blk, spec, values)))
    return values


def _absorb_keys(b: Builder, blk: str, spec: LatentSpec, out: str) -> tuple[str, str, int, int, int, bool]:
    if spec.split:
        weight = b.weight(f"{blk}.attn_k_b.weight", spec.rank, spec.plain_dim, spec.heads)
        return weight, out, spec.heads, 0, spec.rank, False
    return _both(b, blk, spec), out, spec.heads, 0, spec.plain_dim, True


def _release_values(b: Builder, blk: str, spec: LatentSpec, out: str) -> tuple[str, str, int, int, int, bool]:
    if spec.split:
        weight = b.weight(f"{blk}.attn_v_b.weight", spec.value_dim, spec.rank, spec.heads)
        return weight, out, spec.heads, 0, spec.value_dim, False
    return _both(b, blk, spec), out, spec.heads, spec.plain_dim, spec.value_dim, False


def _both(b: Builder, blk: str, spec: LatentSpec) -> str:
    return b.weight(f"{blk}.attn_kv_b.weight", spec.heads * (spec.plain_dim + spec.value_dim), spec.rank)
