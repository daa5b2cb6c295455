"""Models, placements and comparisons for the tests of captured steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from engine.memory.sequence_state import SequenceState
from engine.runtime.expert_slots import Ids, Uses
from engine.runtime.placement import Placement
from tests.support.hybrid_model import HybridModel, banks_of, items_of
from tests.support.logit_bounds import bounds
from tests.support.native_model import Logits
from tests.support.stand_in_card import calls
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
MODELS = {
    "dense": TinyModel("llama", "Q8_0", layers=2, feed_forward=256, vocabulary=256),
    "experts": TinyModel("qwen3moe", "Q8_0", layers=2, feed_forward=256, experts=4, vocabulary=256),
}
TOKENS = np.random.default_rng(4).integers(0, 256, 18).tolist()
PROMPT = 10


def mixed(model: HybridModel) -> Placement:
    """The first layer's attention stays on the CPU, and so do half of the experts or the last feed-forward block."""
    items = [i for i in items_of(model.graph) if i not in ("embedding", "blk.0.attn", "blk.1.ffn")]
    return Placement(frozenset(items), dict.fromkeys(banks_of(model.graph), 2))


def near(rows: Logits, reference: Logits, shape: TinyModel) -> bool:
    return bounds(reference, "Q8_0", shape.layers).allow(rows - reference)


def decode(model: HybridModel, steps: int = len(TOKENS) - PROMPT) -> tuple[SequenceState, Logits]:
    state = model.new_state()
    model.extend(state, TOKENS[:PROMPT])
    return state, np.concatenate([model.extend(state, [t]) for t in TOKENS[PROMPT : PROMPT + steps]])


def by_bank(uses: Sequence[Uses]) -> dict[str, Ids]:
    return {bank: ids.copy() for part in uses for bank, ids in zip(part.banks, part.ids, strict=True)}


def counted(function: str, work: Callable[[], object]) -> int:
    before = calls(function)
    work()
    return calls(function) - before
