"""Blocks handed out, shared, copied on write and given back: the pool's books are always right."""

from __future__ import annotations

import random

import numpy as np
import pytest

from engine.errors import OutOfMemoryError
from engine.gguf import QuantType
from engine.memory import KVPool, PrefixCache, SequenceState
from engine.models.graph import KVLayer

LAYERS = (KVLayer(2, 8, 4), KVLayer(1, 16, 16))


def make_pool(blocks: int = 8) -> KVPool:
    return KVPool(LAYERS, blocks, block_tokens=4)


def advance(state: SequenceState, tokens: list[int]) -> None:
    state.reserve(len(tokens))
    state.commit(tokens)


def test_bytes_follow_heads_and_dimensions() -> None:
    pool = make_pool()
    assert pool.block_bytes[0] == 4 * 2 * (2 * (8 + 4) + 1 * (16 + 16))
    assert KVPool.bytes_per_token(LAYERS) * 4 == pool.block_bytes[0]
    keys, values = pool.layer(0)
    assert keys.shape == (8, 4 * 2 * 8 * 2) and values.shape == (8, 4 * 2 * 4 * 2)
    assert keys.ctypes.data % 64 == 0


def test_quantised_cache_takes_fewer_bytes() -> None:
    layers = (KVLayer(2, 64, 64),)
    assert KVPool.bytes_per_token(layers, QuantType.Q8_0) == 2 * 2 * 68
    assert KVPool.bytes_per_token(layers, QuantType.F16) == 2 * 2 * 128


def test_impossible_size_is_out_of_memory() -> None:
    with pytest.raises(OutOfMemoryError, match="reserved"):
        KVPool(LAYERS, 1 << 50)


def test_reserve_takes_blocks_only_as_needed() -> None:
    pool = make_pool()
    state = SequenceState(pool)
    advance(state, [1, 2, 3, 4])
    assert len(state.block_table) == 1
    advance(state, [5])
    assert len(state.block_table) == 2 and state.nbytes == 2 * pool.block_bytes[0]
    state.release()
    assert state.length == 0
    pool.check_integrity([])


def test_reserve_that_fails_changes_nothing() -> None:
    pool = make_pool(blocks=2)
    state = SequenceState(pool)
    advance(state, [1, 2, 3])
    with pytest.raises(OutOfMemoryError):
        state.reserve(100)
    assert state.tokens == [1, 2, 3] and pool.free_blocks == (1,)
    pool.check_integrity([state.held_blocks])


def test_truncate_gives_back_whole_blocks() -> None:
    pool = make_pool()
    state = SequenceState(pool)
    advance(state, list(range(10)))
    state.truncate(5)
    assert state.tokens == [0, 1, 2, 3, 4] and len(state.block_table) == 2
    pool.check_integrity([state.held_blocks])


def test_fork_shares_until_one_writes() -> None:
    pool = make_pool()
    state = SequenceState(pool)
    advance(state, [1, 2, 3, 4, 5, 6])
    keys, _ = pool.layer(0)
    keys[state.block_table[1]] = 7
    twin = state.fork()
    assert twin.block_table == state.block_table and pool.free_blocks == (6,)
    advance(twin, [9])
    assert twin.block_table[0] == state.block_table[0] and twin.block_table[1] != state.block_table[1]
    assert np.array_equal(keys[twin.block_table[1]], keys[state.block_table[1]])
    pool.check_integrity([state.held_blocks, twin.held_blocks])
    state.release()
    assert twin.tokens == [1, 2, 3, 4, 5, 6, 9]
    pool.check_integrity([twin.held_blocks])


def test_fork_at_a_block_boundary_copies_nothing() -> None:
    pool = make_pool()
    state = SequenceState(pool)
    advance(state, [1, 2, 3, 4, 5])
    twin = state.fork(4)
    assert twin.blocks_missing(1) == (1,)
    advance(twin, [9])
    assert twin.block_table[0] == state.block_table[0]
    pool.check_integrity([state.held_blocks, twin.held_blocks])


def test_integrity_check_notices_a_lost_block() -> None:
    pool = make_pool()
    pool.allocate()
    with pytest.raises(AssertionError):
        pool.check_integrity([])


@pytest.mark.parametrize("seed", range(5))
def test_random_histories_keep_the_books(seed: int) -> None:
    rng, pool = random.Random(seed), make_pool(blocks=24)
    states = [SequenceState(pool)]
    for _ in range(400):
        state = rng.choice(states)
        match rng.randrange(5):
            case 0 | 1:
                tokens = [rng.randrange(9) for _ in range(rng.randrange(1, 9))]
                if state.blocks_missing(len(tokens)) <= pool.free_blocks:
                    expected = [*state.tokens, *tokens]
                    state.reserve(len(tokens))
                    written = state.block_table[state.length // pool.block_tokens :]
                    assert not any(map(pool.is_shared, written))
                    state.commit(tokens)
                    assert state.tokens == expected
            case 2:
                state.truncate(rng.randint(0, state.length))
            case 3 if len(states) < 6:
                states.append(state.fork(rng.randint(0, state.length)))
            case 4 if len(states) > 1:
                states.remove(state)
                state.release()
        pool.check_integrity([s.held_blocks for s in states])


class TestPrefixCache:
    def test_continues_what_it_kept(self) -> None:
        pool = make_pool()
        cache, state = PrefixCache(pool), SequenceState(pool)
        advance(state, [1, 2, 3, 4, 5])
        cache.keep(state)
        assert cache.take([1, 2, 3, 4, 5, 6]) is state
        pool.check_integrity([state.held_blocks])

    def test_last_token_is_always_left_to_run(self) -> None:
        pool = make_pool()
        cache, state = PrefixCache(pool), SequenceState(pool)
        advance(state, [1, 2, 3])
        cache.keep(state)
        again = cache.take([1, 2, 3])
        assert again.tokens == [1, 2]

    def test_branch_leaves_the_first_one_in_place(self) -> None:
        pool = make_pool()
        cache, state = PrefixCache(pool), SequenceState(pool)
        advance(state, [1, 2, 3, 4, 5, 6])
        cache.keep(state)
        branch = cache.take([1, 2, 3, 4, 9, 9])
        assert branch.tokens == [1, 2, 3, 4] and list(cache) == [state]
        pool.check_integrity([state.held_blocks, branch.held_blocks])

    def test_takes_the_longest(self) -> None:
        pool = make_pool()
        cache = PrefixCache(pool)
        for tokens in ([1, 2, 9], [1, 2, 3, 4], [5]):
            state = SequenceState(pool)
            advance(state, tokens)
            cache.keep(state)
        assert cache.take([1, 2, 3, 4, 7]).length == 4
        assert cache.take([8, 8]).length == 0

    def test_state_that_another_continues_is_dropped(self) -> None:
        pool = make_pool()
        cache = PrefixCache(pool)
        short, long = SequenceState(pool), SequenceState(pool)
        advance(short, [1, 2])
        advance(long, [1, 2, 3])
        cache.keep(short)
        cache.keep(long)
        assert list(cache) == [long]
        pool.check_integrity([long.held_blocks])

    def test_limit_and_eviction_drop_the_oldest(self) -> None:
        pool = make_pool()
        cache = PrefixCache(pool, limit=2)
        for token in (1, 2, 3):
            state = SequenceState(pool)
            advance(state, [token])
            cache.keep(state)
        assert [list(state.tokens) for state in cache] == [[2], [3]]
        assert cache.evict() and cache.evict() and not cache.evict()
        pool.check_integrity([])
