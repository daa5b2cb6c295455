"""Answers of models that forget, in a session: taken up again where a state ends, and more at once than find room."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.memory import PrefixCache
from engine.sequence import Sequence
from engine.session import Session
from engine.text.detokenizer import Detokenizer
from engine.text.stopping import StopMatcher
from engine.text.tokenizer import Tokenizer
from tests.support.native_model import NativeModel
from tests.support.tiny_models import TinyModel
from tests.support.tiny_qwen3next import TinyQwen3Next

LENGTH = 8
WINDOWS = TinyModel("gemma3", layers=3, overrides=(("gemma3.attention.sliding_window_pattern", 2),))


@pytest.mark.parametrize(("variant", "scale"), [(TinyQwen3Next(layers=3), 1), (WINDOWS, 8)], ids=["slots", "windows"])
def test_answers_are_those_of_a_fresh_start(
    tiny_models: Callable[[TinyModel], Path], variant: TinyModel, scale: int
) -> None:
    """`scale`: prompts so many times as long, with room for them all in layers that forget nothing."""
    path = tiny_models(variant)
    tokenizer, model = Tokenizer.load(str(path)), NativeModel(path, context=512 * scale)
    cache = PrefixCache(model.model.pool)
    session = Session(model.model.executor, cache, 512 * scale, lambda token: False, lambda event: None)
    random = np.random.default_rng(0)

    def ask(tokens: list[int]) -> Sequence:
        greedy = lambda logits, row: int(logits[row].argmax())  # noqa: E731
        texts = Detokenizer(tokenizer), StopMatcher([])
        sequence = Sequence("", list(tokens), LENGTH, cache.take(tokens), greedy, *texts, 0.0)
        session.add(sequence)
        return sequence

    def finish() -> None:
        while session.sequences:
            session.step()

    prompt = random.integers(0, 512, 50 * scale).tolist()
    first = ask(prompt)
    finish()
    branch, turn = ask([*prompt, 7, 8, 9]), ask([*first.tokens, 1, 2])
    assert branch.reused_tokens == len(prompt)  # what was remembered at the prompt's end
    assert turn.reused_tokens == len(first.tokens) - 1
    others = [ask(random.integers(0, 512, 30 * scale).tolist()) for _ in range(3)]  # five at once, on four slots
    finish()
    fresh = NativeModel(path, context=512 * scale)
    for sequence in (first, branch, turn, *others):
        answer = fresh.greedy(sequence.tokens[: sequence.prompt_tokens], LENGTH)
        assert sequence.tokens[sequence.prompt_tokens :] == answer
    kept = list(cache)
    model.model.pool.check_integrity(
        [state.held_blocks for state in kept], [slot for state in kept for slot in state.held_slots]
    )
