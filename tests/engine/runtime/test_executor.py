"""Steps on a tiny model: any cut of the work gives the same logits, and a step that is left leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.memory import PrefixCache
from engine.runtime.executor import Chunk, Interrupted
from engine.runtime.placement import Placement
from tests.support.hybrid_model import HybridModel
from tests.support.native_model import Logits, NativeModel
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]

RNG = np.random.default_rng(11)
FIRST, SECOND, THIRD = (RNG.integers(0, 512, size).tolist() for size in (70, 45, 9))


@pytest.fixture(scope="module", params=["llama", "qwen3moe"])
def model(request: pytest.FixtureRequest, tiny_models: Write) -> NativeModel:
    return NativeModel(tiny_models(TinyModel(request.param, "F32")), context=1024)


def assert_same(a: Logits, b: Logits) -> None:
    """The same sums; only their order differs between one token and many, and which way a key rounds to F16."""
    assert a.shape == b.shape
    assert np.abs(a - b).max() <= 1e-3 * b.std()


def test_sequences_in_one_step_equal_each_alone(model: NativeModel) -> None:
    states = [model.new_state() for _ in range(3)]
    together = model.extend_together(list(zip(states, (FIRST, SECOND, THIRD), strict=True)))
    for logits, tokens in zip(together, (FIRST, SECOND, THIRD), strict=True):
        assert_same(logits, model.logits(tokens))
    decode = model.extend_together([(states[0], [5]), (states[1], [6]), (states[2], [7])])
    for logits, tokens in zip(decode, ([*FIRST, 5], [*SECOND, 6], [*THIRD, 7]), strict=True):
        assert_same(logits, model.logits(tokens)[-1:])
    for state in states:
        state.release()


def test_one_sequence_decodes_while_another_reads_its_prompt(model: NativeModel) -> None:
    state, other = model.new_state(), model.new_state()
    model.extend(state, FIRST)
    one, many = model.extend_together([(state, [5]), (other, SECOND)])
    assert_same(one, model.logits([*FIRST, 5])[-1:])
    assert_same(many, model.logits(SECOND))
    state.release()
    other.release()


@pytest.mark.parametrize("kept", [1, 31, 32, 33, 64, 69])
def test_truncated_state_continues_as_a_fresh_one(model: NativeModel, kept: int) -> None:
    state = model.new_state()
    model.extend(state, FIRST)
    state.truncate(kept)
    assert_same(model.extend(state, SECOND), model.logits([*FIRST[:kept], *SECOND])[kept:])
    state.release()


@pytest.mark.parametrize("kept", [20, 32, 70])
def test_forks_go_their_own_ways(model: NativeModel, kept: int) -> None:
    state = model.new_state()
    model.extend(state, FIRST)
    twin = state.fork(kept)
    theirs, ours = model.extend(twin, SECOND), model.extend(state, THIRD)
    assert_same(theirs, model.logits([*FIRST[:kept], *SECOND])[kept:])
    assert_same(ours, model.logits([*FIRST, *THIRD])[len(FIRST) :])
    twin.release()
    state.release()


def test_reused_prefix_equals_a_fresh_run(model: NativeModel) -> None:
    cache, state = PrefixCache(model.model.pool), model.new_state()
    model.extend(state, FIRST)
    cache.keep(state)
    prompt = [*FIRST[:50], *SECOND]
    reused = cache.take(prompt)
    assert reused.length == 50
    assert_same(model.extend(reused, prompt[50:]), model.logits(prompt)[50:])
    reused.release()
    cache.clear()


def test_only_the_rows_asked_for_come_back(model: NativeModel) -> None:
    state = model.new_state()
    state.reserve(len(FIRST))
    logits = model.model.executor.run([Chunk(state, FIRST, len(FIRST) - 2)]).copy()
    assert_same(logits, model.logits(FIRST)[-2:])
    state.reserve(len(FIRST))
    assert model.model.executor.run([Chunk(state, FIRST, len(FIRST))]).shape[0] == 0
    state.release()


def test_interrupted_step_can_be_repeated(model: NativeModel) -> None:
    state, asked = model.new_state(), iter([False, True])
    state.reserve(len(FIRST))
    model.model.executor._strides.clear()
    with pytest.raises(Interrupted):
        model.model.executor.run([Chunk(state, FIRST, 0)], lambda: next(asked))
    assert state.length == 0
    assert_same(model.extend(state, FIRST), model.logits(FIRST))
    state.release()


def test_an_answer_holds_no_memory_of_its_prompt(model: NativeModel) -> None:
    """And gives the same bits with new memory as with what it has, then the prompt too."""
    state, program = model.new_state(), model.model.executor._program.program
    read = model.extend(state, FIRST)
    prompt = program.held_bytes
    first = model.extend(state, [5])
    answer = program.held_bytes
    assert answer < prompt / 2
    state.truncate(len(FIRST))
    np.testing.assert_array_equal(model.extend(state, [5]), first)
    assert program.held_bytes == answer
    state.release()
    np.testing.assert_array_equal(model.logits(FIRST), read)


@pytest.mark.parametrize("family", ["llama", "qwen3moe"])
def test_an_answer_on_two_devices_holds_no_memory_of_its_prompt(family: str, tiny_models: Write) -> None:
    model = HybridModel(tiny_models(TinyModel(family, "F32", layers=3)))
    model.place(Placement(frozenset(["blk.1.attn", "blk.2.attn", "blk.2.ffn"])))
    cpu = model.executor._sides[False].program.program
    state = model.new_state()
    read, prompt = model.extend(state, FIRST), cpu.held_bytes
    first, answer = model.extend(state, [5]), cpu.held_bytes
    assert answer < prompt / 2
    state.truncate(len(FIRST))
    np.testing.assert_array_equal(model.extend(state, [5]), first)
    assert cpu.held_bytes == answer
    state.release()
    state = model.new_state()
    np.testing.assert_array_equal(model.extend(state, FIRST), read)
    state.release()
    model.close()


def test_books_are_right_at_the_end(model: NativeModel) -> None:
    model.model.pool.check_integrity([])
