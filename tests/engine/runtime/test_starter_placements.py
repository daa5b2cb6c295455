"""The starter model under teacher forcing: the greedy tokens of the CPU alone under any placement."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tests.support.hybrid_model import HybridModel, random_placement
from tests.support.native_model import NativeModel

ANSWERS = json.loads((Path(__file__).parents[2] / "data" / "smollm2_answers.json").read_text())


@pytest.mark.parametrize("seed", [1, 2])
def test_same_tokens_and_logits(starter_model: Path, seed: int) -> None:
    """Both sides run the same kernels here, so the bits are the same as long as batches are."""
    prompt, answer = ANSWERS[seed]["prompt"], ANSWERS[seed]["answer"][:12]
    reference = NativeModel(starter_model, context=256)
    state = reference.new_state()
    rows = [reference.extend(state, prompt)[-1:]]
    rows += [reference.extend(state, [token]) for token in answer[:-1]]
    model = HybridModel(starter_model)
    model.place(random_placement(model.graph, Random(seed)))
    assert np.array_equal(model.teacher_forced(prompt, answer), np.concatenate(rows))
    model.close()
