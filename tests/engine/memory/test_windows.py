"""Layers with a window keep the window: blocks behind it go back, and what needs them again is read again."""

from __future__ import annotations

import random

import pytest

from engine.memory import KVPool, PrefixCache, SequenceState
from engine.models.graph import MOST_STEP_TOKENS, KVLayer, first_seen, positions_kept

WINDOW, CHUNK = 40, 64
LAYERS = (KVLayer(1, 8, 8), KVLayer(2, 8, 4, WINDOW), KVLayer(2, 8, 4, WINDOW), KVLayer(1, 4, 4, -CHUNK))


@pytest.fixture
def pool() -> KVPool:
    return KVPool(LAYERS, 128)


def advance(state: SequenceState, count: int, step: int = 100) -> None:
    for begin in range(0, count, step):
        tokens = list(range(state.length, state.length + min(step, count - begin)))
        state.reserve(len(tokens))
        state.commit(tokens)


def check(pool: KVPool, *states: SequenceState) -> None:
    pool.check_integrity([state.held_blocks for state in states])


def test_memory_does_not_grow_with_the_context(pool: KVPool) -> None:
    assert pool.windows == (0, -CHUNK, WINDOW)
    kept = [positions_kept(window, 128 * 32) for window in pool.windows]
    assert kept == [4096, 2 * (64 + 64) + 512, 2 * (40 + 64) + 512]
    assert [pool.layer_bytes(i)[0] for i in (0, 1, 3)] == [128 * 32 * 16, 23 * 32 * 2 * 16, 24 * 32 * 8]
    assert KVPool.bytes_per_token(LAYERS) == 32
    assert KVPool.fixed_bytes(LAYERS, 4096) == kept[2] * 2 * 2 * 24 + kept[1] * 16
    assert KVPool.fixed_bytes(LAYERS, 100) == 100 * (2 * 2 * 24 + 16)


def test_blocks_behind_a_window_are_given_back(pool: KVPool) -> None:
    state = SequenceState(pool)
    for length in range(100, 2000, 100):
        advance(state, 100)
        full, chunk, window = state.held_blocks
        assert len(full) == -(-length // 32)
        seen = [first_seen(length, w) for w in (-CHUNK, WINDOW)]
        assert [len(full) - len(held) for held in (chunk, window)] <= [position // 32 for position in seen]
        assert len(window) <= 1 + (WINDOW + 64) // 32 and len(chunk) <= (CHUNK + 64) // 32
        assert all(len(table) == len(full) for table in state.block_tables)
        check(pool, state)
    state.release()
    check(pool)


def test_the_largest_step_of_two_sequences_finds_room(pool: KVPool) -> None:
    first, second = SequenceState(pool), SequenceState(pool)
    advance(first, 1000)
    advance(second, 1000)
    first.reserve(MOST_STEP_TOKENS)
    check(pool, first, second)


def test_only_what_the_windows_hold_is_taken_up_again(pool: KVPool) -> None:
    state = SequenceState(pool)
    advance(state, 500)
    assert state.reusable(500) == 500 and state.reusable(500 - 32) == 500 - 32
    assert state.reusable(300) == 0 and state.reusable(0) == 0
    state.truncate(480)
    assert state.tokens == list(range(480))
    advance(state, 200)
    check(pool, state)


def test_a_conversation_goes_back_to_the_end_of_its_prompt(pool: KVPool) -> None:
    """The template may leave out what was thought: then the state remembered there is the one to go on with."""
    cache, state = PrefixCache(pool), SequenceState(pool)
    advance(state, 700)
    cache.remember(state)
    advance(state, 300, step=1)
    cache.keep(state)
    assert [kept.length for kept in cache] == [700, 1000]
    turn = cache.take([*range(700), 7, 7, 7])
    assert turn.length == 700
    check(pool, turn, *cache)
    again = cache.take([*range(1000), 8])
    assert again.length == 1000 and cache.take([*range(400), 9]).length == 0
    check(pool, turn, again, *cache)


def test_a_fork_keeps_what_it_needs_while_the_other_goes_on(pool: KVPool) -> None:
    state = SequenceState(pool)
    advance(state, 130)
    twin = state.fork(110)
    advance(state, 300)
    assert twin.reusable(110) == 110
    advance(twin, 3)
    check(pool, state, twin)
    state.release()
    advance(twin, 200)
    check(pool, twin)


@pytest.mark.parametrize("seed", range(4))
def test_random_histories_keep_the_books(pool: KVPool, seed: int) -> None:
    rng, states = random.Random(seed), [SequenceState(pool)]
    for _ in range(300):
        state = rng.choice(states)
        length = state.reusable(max(0, state.length - rng.randrange(150)))
        match rng.randrange(5):
            case 0 | 1:
                count = rng.randrange(1, 200)
                if all(map(int.__le__, state.blocks_missing(count), pool.free_blocks)):
                    advance(state, count, step=count)
            case 2:
                state.truncate(length)
            case 3 if len(states) < 4:
                states.append(state.fork(length))
            case 4 if len(states) > 1:
                states.remove(state)
                state.release()
        check(pool, *states)
