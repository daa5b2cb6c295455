"""Family: what metadata cannot tell about an architecture, fixed by its reference implementation."""

from __future__ import annotations

from dataclasses import dataclass

from engine.models.spec import Activation, Gating, RopeMode


@dataclass(frozen=True, slots=True)
class Family:
    """One transformer architecture by its GGUF name; the defaults describe llama.

    Biases, tied output and rope factors need no entry: the file's tensors show them.
    """

    architecture: str
    rope_mode: RopeMode = "norm"
    qk_norm: bool = False  # q and k are RMS-normalised per head before they turn
    latent: bool = False  # multi-head latent attention
    recurrent: bool = False  # layers may be gated delta nets
    tiled_value_heads: bool = False  # delta nets deal their value heads out to key heads in turn
    gated_attention: bool = False  # each head has a gate, in the same matrix as its query
    ffn_norm: str = "ffn_norm"  # the tensor of the norm before the feed-forward block
    activation: Activation = "silu"
    experts: bool = False  # layers with a router (`ffn_gate_inp`) may occur
    gating: Gating = "softmax"
    normalise_experts: bool = True  # default of the key expert_weights_norm
    ignored_tensors: tuple[str, ...] = ()  # name endings that carry nothing the graph needs
