"""A block that one step after another fills says of each what a fresh one would."""

from __future__ import annotations

import numpy as np
import pytest

from kernels._cpu import Batch
from kernels.cuda.step_run import HostBlock

N, TABLES, BLOCKS = 3, 2, 4
Words = np.ndarray[tuple[int, ...], np.dtype[np.int32]]


def batch(sequences: list[int], blocks: int, first: int) -> Batch:
    """`sequences` of the tokens; each sequence has a row of `blocks` blocks in either table, and a slot."""
    count, tokens = max(sequences) + 1, len(sequences)
    positions = [first + sequences[:i].count(sequence) for i, sequence in enumerate(sequences)]
    tables = np.arange(TABLES * count * blocks, dtype=np.int32).reshape(TABLES * count, blocks) + 1
    numbers = np.arange(tokens, dtype=np.int32)
    slots = np.arange(2 * count, dtype=np.int32).reshape(count, 2) + 7
    placed, of = np.array(positions, np.int32), np.array(sequences, np.int32)
    return Batch(numbers + 5, placed, of, tables, numbers, slots, TABLES)


def filled(words: Words, block: HostBlock, given: Batch) -> tuple[list[list[int]], list[list[int]], Words, list[int]]:
    """Tokens to order; spans; block tables of the batch's sequences; their slots."""
    block.fill(given)
    n, count = len(given), len(given.block_tables) // TABLES
    tables = words[10 * n :].reshape(TABLES, n, BLOCKS)[:, :count, : given.block_tables.shape[1]]
    return words[: 5 * n].reshape(5, n).tolist(), words[5 * n : 8 * n].reshape(n, 3).tolist(), tables, (
        words[8 * n : 8 * n + 2 * count].tolist()
    )  # fmt: skip


@pytest.mark.parametrize("sequences", [[0, 0, 0], [0, 1, 1], [0, 1, 2], [0]])
def test_nothing_of_an_earlier_step_is_left(sequences: list[int]) -> None:
    n = len(sequences)
    size = n * (10 + TABLES * BLOCKS)
    used, fresh = np.full(size, -1, np.int32), np.full(size, -1, np.int32)
    block = HostBlock(used, n, TABLES)
    block.fill(batch([*range(n)], BLOCKS, 30))
    given = batch(sequences, 2, 9)
    rows, spans, tables, slots = filled(used, block, given)
    expected = filled(fresh, HostBlock(fresh, n, TABLES), given)
    assert (rows, spans, slots) == (expected[0], expected[1], expected[3])
    assert np.array_equal(tables.reshape(-1, 2), given.block_tables) and slots == given.slots.ravel().tolist()
    assert rows[0] == given.tokens.tolist() and rows[1] == given.positions.tolist()
    assert rows[2] == sequences and rows[3] == list(range(n)) and sorted(rows[4]) == list(range(n))
    assert [count for _, _, count in spans if count] == [sequences.count(s) for s in sorted(set(sequences))]
