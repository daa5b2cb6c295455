"""What a tensor is for, by its name. The names are those that llama.cpp's converters write for every architecture."""

from __future__ import annotations

import enum
import re


class TensorRole(enum.Enum):
    """Values are words for people."""

    EMBEDDING = "embedding"
    OUTPUT = "output"
    NORM = "norms"
    ROPE = "rope factors"
    MIXER = "attention"  # and what stands in its place: state space, linear attention, convolution
    FEED_FORWARD = "feed-forward"
    ROUTER = "router"
    EXPERTS = "experts"
    SHARED_EXPERTS = "shared experts"
    PREDICTION = "extra prediction"  # heads that guess more than one token ahead
    OTHER = "other"


_LAYER = re.compile(r"blk\.(\d{1,9})\.(.+)")
# The first that matches decides; patterns are tried on the name without "blk.N.".
_RULES: tuple[tuple[re.Pattern[str], TensorRole], ...] = tuple(
    (re.compile(pattern), role)
    for pattern, role in (
        (r"nextn\.", TensorRole.PREDICTION),
        (r"rope_(freqs|factors)", TensorRole.ROPE),
        (r".*norm(_[a-z0-9]+)*\.(weight|bias)$", TensorRole.NORM),
        (r"(token_embd|token_types|position_embd|per_layer_(token|model))", TensorRole.EMBEDDING),
        (r"output\.", TensorRole.OUTPUT),
        (r"ffn_gate_inp|exp_probs_b", TensorRole.ROUTER),
        (r"ffn_\w*_(sh|ch)exps?\b", TensorRole.SHARED_EXPERTS),
        (r"ffn_\w*_exps\b|ffn_(gate|up|down)\.\d+\.", TensorRole.EXPERTS),
        (r"ffn_", TensorRole.FEED_FORWARD),
        (r"attn_|ssm_|shortconv|time_mix|channel_mix|indexer", TensorRole.MIXER),
    )
)


def tensor_role(name: str) -> TensorRole:
    match = _LAYER.fullmatch(name)
    rest = match[2] if match else name
    return next((role for pattern, role in _RULES if pattern.match(rest)), TensorRole.OTHER)


def layer_of(name: str) -> int | None:
    """The number N of "blk.N.…"; None outside the layers."""
    match = _LAYER.fullmatch(name)
    return int(match[1]) if match else None
