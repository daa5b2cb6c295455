"""Family: what metadata cannot tell about an architecture, fixed by its reference implementation."""

from __future__ import annotations

from dataclasses import dataclass

from engine.models.spec import Activation, Gating, NormPlacement, QKNorm, RopeMode, Temperature


@dataclass(frozen=True, slots=True)
class Family:
    """One transformer architecture by its GGUF name; the defaults describe llama.

    Biases, tied output and rope factors need no entry: the file's tensors show them.
    """

    architecture: str
    rope_mode: RopeMode = "norm"
    latent: bool = False  # multi-head latent attention
    recurrent: bool = False  # layers may be gated delta nets
    tiled_value_heads: bool = False  # delta nets deal their value heads out to key heads in turn
    gated_attention: bool = False  # each head has a gate, in the same matrix as its query
    unrotated_period: int = 0  # of so many layers, the last does without positions; 0: all turn
    temperature: Temperature | None = None  # of the queries of layers without positions
    temperature_key: bool = False  # attention.temperature_scale may give all layers one
    qk_norm: QKNorm = "none"
    qk_norm_optional: bool = False  # only where the file has its tensors
    norm_after_rope: bool = False  # q and k turn before they are normalised
    unnormalised_experts: int = 0  # a model of so many experts has no norms of q and k
    norms: NormPlacement = "before"
    ffn_norm: str = "ffn_norm"  # the tensor of the norm before the feed-forward block
    activation: Activation = "silu"
    sinks: bool = False  # each head has a logit that competes with the keys
    window_period: int = 0  # of so many layers, the last sees all positions, the others a window; 0: no windows
    window: int | None = None  # default of the key attention.sliding_window; None: required
    chunk: int = 0  # layers with a window see their chunk of so many positions; a key may only repeat it
    window_rope_base: float = 0.0  # of layers with a window; 0: as the others
    window_rope_scaled: bool = True  # whether they scale positions as the others do
    soft_caps: tuple[float, float] = (0.0, 0.0)  # defaults of the keys attn_ and final_logit_softcapping; 0: none
    scaled_embedding: bool = False  # by the root of the width
    scales: bool = False  # embedding, residual stream and logits are scaled by keys
    wide_scale_layers: int = 0  # a model of so many layers scales queries by width / heads, not by the head's size
    experts: bool = False  # layers with a router (`ffn_gate_inp`) may occur
    gating: Gating = "softmax"
    normalise_experts: bool = True  # default of the key expert_weights_norm
    weighs_input: bool = False  # a router's weight multiplies what its expert reads
    ignored_tensors: tuple[str, ...] = ()  # name endings that carry nothing the graph needs
    unbuilt: tuple[str, ...] = ()  # keys of which only the first neutral value is known here

    @property
    def read_keys(self) -> frozenset[str]:
        """Of the keys that other families must not have, those that this one reads."""
        caps = zip(("attn_logit_softcapping", "final_logit_softcapping"), self.soft_caps, strict=True)
        keys = {key for key, cap in caps if cap}
        if self.scales:
            keys |= {"embedding_scale", "residual_scale", "logit_scale"}
        return frozenset(keys | ({"attention.temperature_scale"} if self.temperature_key else set()))
