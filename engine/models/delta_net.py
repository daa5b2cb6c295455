"""Gated delta net: layers that remember a state of fixed size instead of every position, between layers that attend.

arXiv:2412.06464, as Qwen3-Next arranges it. Of a layer's normalised input x:

    q, k, v      = silu(short convolution over time of qkv · x)
    z            = gate · x
    g, β         = ssm_a × softplus(alpha · x + ssm_dt), sigmoid(beta · x)      one each per value head
    mixed        = the gated delta rule over q, k, v with g and β
    out          = ssm_out · (norm(mixed) × silu(z))

Every few layers one attends, with a sigmoid gate on what it mixes. Files of 2025 hold qkv and z in one matrix
`ssm_in`, and beta and alpha in `ssm_ba`, both by key head: [q | k | its v | its z], [its betas | its alphas].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.models.graph import GLU, DeltaRule, ShortConv, SplitHeads, StateLayer
from engine.models.reading import SpecReader
from engine.models.spec import AttentionSpec, DeltaNetSpec, LatentSpec

if TYPE_CHECKING:
    from engine.models.build import Builder


class DeltaNetReader(SpecReader):
    """Reads models whose layers are delta nets where they have the tensors of one."""

    def _attention(self, index: int, rope_factors: tuple[float, ...]) -> AttentionSpec | LatentSpec | DeltaNetSpec:
        blk = f"blk.{index}"
        if f"{blk}.ssm_conv1d.weight" not in self.tensors:
            return super()._attention(index, rope_factors)
        convolution = self._tensor(f"{blk}.ssm_conv1d.weight")
        value_heads = self._agreed("ssm.time_step_rank", self._tensor(f"{blk}.ssm_dt.bias").cols)
        value_dim = self._tensor(f"{blk}.ssm_norm.weight").cols
        self._agreed("ssm.inner_size", value_heads * value_dim)
        key_heads = self.keys.integer("ssm.group_count", minimum=1)
        keys, rest = divmod(convolution.rows - value_heads * value_dim, 2 * key_heads)
        if keys < 1 or rest or value_heads % key_heads:
            raise self._broken(
                f"{convolution.rows} channels of “{convolution.name}” do not divide into {key_heads} heads of queries "
                f"and keys beside {value_heads} × {value_dim} values"
            )
        return DeltaNetSpec(
            key_heads=key_heads,
            value_heads=value_heads,
            key_dim=self._agreed("ssm.state_size", keys),
            value_dim=value_dim,
            taps=self._agreed("ssm.conv_kernel", convolution.cols),
            tiled=self.family.tiled_value_heads,
        )


def delta_net(b: Builder, index: int, spec: DeltaNetSpec, normed: str, *, select: bool) -> str:
    """What the layer mixes of `normed`, before its output projection."""
    blk = f"blk.{index}"
    qkv, z, beta, alpha = _projections(b, blk, spec, normed)
    b.kv_layers.append(StateLayer(spec.channels * (spec.taps - 1), spec.value_heads * spec.key_dim * spec.value_dim))
    convolved = b.value(f"{blk}.convolved", spec.channels)
    weight = b.weight(f"{blk}.ssm_conv1d.weight", spec.channels, spec.taps)
    b.add_op(ShortConv(b.item, qkv, weight, convolved, index))
    mixed = b.value(f"{blk}.attn_mixed", spec.inner)
    weights = b.vector(f"{blk}.ssm_a", spec.value_heads), b.vector(f"{blk}.ssm_dt.bias", spec.value_heads)
    dims = spec.key_heads, spec.value_heads, spec.key_dim, spec.value_dim
    epsilon = b.spec.norm_epsilon
    b.add_op(DeltaRule(b.item, convolved, alpha, beta, weights, index, mixed, *dims, spec.tiled, epsilon))
    if select:
        mixed, z = b.select_rows(mixed), b.select_rows(z)
    mixed = b.rms_norm(mixed, f"{blk}.ssm_norm.weight", f"{blk}.mixed_normed", group=spec.value_dim)
    opened = b.value(f"{blk}.mixed_opened", spec.inner)
    b.add_op(GLU(b.item, z, mixed, opened, "silu"))
    return opened


def _projections(b: Builder, blk: str, spec: DeltaNetSpec, x: str) -> tuple[str, str, str, str]:
    """qkv, z, beta and alpha of x, whichever matrices the file holds them in."""
    shared = spec.value_heads // spec.key_heads  # value heads of a key head
    both, joint = f"{blk}.ssm_ba.weight" in b.spec.tensors, f"{blk}.ssm_in.weight" in b.spec.tensors
    heads = spec.value_heads
    widths = {"ssm_in": spec.channels + spec.inner} if joint else {"attn_qkv": spec.channels, "attn_gate": spec.inner}
    widths |= {"ssm_ba": 2 * heads} if both else {"ssm_beta": heads, "ssm_alpha": heads}
    found = b.linear(x, {f"{blk}.{name}": (f"{blk}.{name}", width) for name, width in widths.items()})
    outs = dict(zip(widths, found, strict=True))
    if joint:
        qkv, z = b.value(f"{blk}.qkv", spec.channels), b.value(f"{blk}.z", spec.inner)
        values = shared * spec.value_dim
        sizes = spec.key_dim, spec.key_dim, values, values
        b.add_op(SplitHeads(b.item, outs["ssm_in"], (qkv, qkv, qkv, z), sizes, spec.key_heads))
    else:
        qkv, z = outs["attn_qkv"], outs["attn_gate"]
    if both:
        beta, alpha = b.value(f"{blk}.beta", heads), b.value(f"{blk}.alpha", heads)
        b.add_op(SplitHeads(b.item, outs["ssm_ba"], (beta, alpha), (shared, shared), spec.key_heads))
    else:
        beta, alpha = outs["ssm_beta"], outs["ssm_alpha"]
    return qkv, z, beta, alpha
