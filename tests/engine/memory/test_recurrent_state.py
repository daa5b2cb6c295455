"""States of recurrent layers: written to a slot nobody reads, shared by forks, taken up again only where they end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.errors import OutOfMemoryError
from engine.gguf import GGUFFile
from engine.memory import KVPool, PrefixCache, SequenceState
from engine.models import build_graph, load_spec
from engine.models.graph import STATE_SLOTS, KVLayer, StateLayer
from engine.placement.shape import ModelShape
from engine.runtime.executor import Chunk, Interrupted
from tests.support.native_model import NativeModel
from tests.support.tiny_models import TinyModel
from tests.support.tiny_qwen3next import TinyQwen3Next

Write = Callable[[TinyModel], Path]
LAYERS = [StateLayer(6, 8), KVLayer(1, 32, 32), StateLayer(6, 8)]
TOKENS = np.random.default_rng(3).integers(0, 512, 40).tolist()


@pytest.fixture
def pool() -> KVPool:
    return KVPool(LAYERS, 16)


def step(state: SequenceState, tokens: list[int]) -> None:
    state.reserve(len(tokens))
    state.commit(tokens)


def test_memory_is_counted(pool: KVPool) -> None:
    assert [array.shape for array in pool.layer(0)] == [(STATE_SLOTS, 24), (STATE_SLOTS, 32)]
    assert pool.bytes_per_slot == 2 * 56 and KVPool.fixed_bytes(LAYERS, 1000) == STATE_SLOTS * 112
    assert KVPool.bytes_per_token(LAYERS) == 128 and pool.block_bytes[0] == 32 * 128
    state = SequenceState(pool)
    step(state, [1, 2])
    assert state.nbytes == pool.held_bytes == pool.block_bytes[0] + pool.bytes_per_slot


def test_a_step_reads_one_slot_and_writes_another(pool: KVPool) -> None:
    state = SequenceState(pool)
    assert state.slots == ()
    state.reserve(3)
    assert state.slots == (-1, 0)
    state.reserve(3)  # a step that was left and is repeated takes no further slot
    assert state.slots == (-1, 0)
    state.commit([1, 2, 3])
    state.reserve(1)
    assert state.slots == (0, 1)
    pool.check_integrity([state.held_blocks], state.held_slots)
    state.commit([4])
    assert state.held_slots == [1]
    state.release()
    pool.check_integrity([])


def test_a_fork_shares_its_slot_until_either_goes_on(pool: KVPool) -> None:
    state = SequenceState(pool)
    step(state, [1, 2])
    twin = state.fork()
    step(state, [3])
    assert twin.held_slots == [0] and state.held_slots == [1]
    step(twin, [4])
    assert twin.held_slots == [2]
    pool.check_integrity([state.held_blocks, twin.held_blocks], state.held_slots + twin.held_slots)
    assert state.reusable(3) == 3 and state.reusable(2) == 0


def test_without_a_free_slot_nothing_changes(pool: KVPool) -> None:
    states = [SequenceState(pool) for _ in range(STATE_SLOTS + 1)]
    for state in states[:-1]:
        step(state, [1])
    with pytest.raises(OutOfMemoryError):
        states[-1].reserve(1)
    assert states[-1].slots == () and not states[-1].block_table


def test_only_whole_states_are_taken_up_again(pool: KVPool) -> None:
    cache = PrefixCache(pool)
    state = SequenceState(pool)
    step(state, [1, 2, 3])
    cache.remember(state)
    step(state, [4, 5])
    cache.keep(state)
    assert sorted(kept.length for kept in cache) == [3, 5]
    assert cache.take([1, 2, 3, 9]).tokens == [1, 2, 3]  # not four of five tokens
    assert cache.take([1, 2, 3, 4, 9]).length == 0
    assert cache.take([1, 2, 3, 4, 5, 6]).length == 5


def test_a_state_that_will_not_run_gives_its_slot_back(pool: KVPool) -> None:
    cache = PrefixCache(pool)
    state = SequenceState(pool)
    step(state, [1])
    state.reserve(1)
    cache.keep(state)
    assert pool.slots.free == STATE_SLOTS - 1


def test_a_branch_gives_the_logits_of_a_fresh_start(tiny_models: Write) -> None:
    model = NativeModel(tiny_models(TinyQwen3Next()))
    alone = model.logits(TOKENS)
    trunk = model.new_state()
    model.extend(trunk, TOKENS[:20])
    branch = trunk.fork()
    model.extend(trunk, TOKENS[5:11])
    ours = np.concatenate([model.extend(branch, TOKENS[20:31]), model.extend(branch, TOKENS[31:])])
    assert np.abs(ours - alone[20:]).max() <= 1e-3 * alone.std()


def test_a_step_that_was_left_is_repeated_from_the_same_state(tiny_models: Write) -> None:
    path = tiny_models(TinyQwen3Next())
    alone, model = NativeModel(path).logits(TOKENS), NativeModel(path)
    state = model.new_state()
    model.extend(state, TOKENS[:4])
    state.reserve(36)
    first = model.model.pool.layer(0)[1][state.held_slots[1]]  # of the first layer
    with pytest.raises(Interrupted):
        model.model.executor.run([Chunk(state, TOKENS[4:], 0)], lambda: bool(first.any()))
    assert np.abs(model.extend(state, TOKENS[4:]) - alone[4:]).max() <= 1e-3 * alone.std()


def test_the_planner_counts_the_same_memory(tiny_models: Write) -> None:
    with GGUFFile.open(tiny_models(TinyQwen3Next(layers=4))) as gguf:
        layers, shape = build_graph(load_spec(gguf)).kv_layers, ModelShape.from_gguf(gguf)
    assert [type(layer) for layer in layers] == [StateLayer, KVLayer] * 2
    assert shape.state_bytes(1000) == 1000 * KVPool.bytes_per_token(layers) + KVPool.fixed_bytes(layers, 1000)
