"""What changes between captured steps: the block of their batch, and pointer tables."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from kernels._cpu import QUANT_TYPES, Batch
from kernels.cuda.footprint import NoKernels
from kernels.cuda.memory import Array, HostMemory
from kernels.cuda.program import CudaProgram
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
    block = HostBlock(used, TABLES)
    block.fill(batch([*range(n)], BLOCKS, 30))
    given = batch(sequences, 2, 9)
    rows, spans, tables, slots = filled(used, block, given)
    expected = filled(fresh, HostBlock(fresh, TABLES), given)
    assert (rows, spans, slots) == (expected[0], expected[1], expected[3])
    assert np.array_equal(tables.reshape(-1, 2), given.block_tables) and slots == given.slots.ravel().tolist()
    assert rows[0] == given.tokens.tolist() and rows[1] == given.positions.tolist()
    assert rows[2] == sequences and rows[3] == list(range(n)) and sorted(rows[4]) == list(range(n))
    assert [count for _, _, count in spans if count] == [sequences.count(s) for s in sorted(set(sequences))]


class LateMemory(HostMemory):
    """What is sent arrives when it is waited for; until then only the sender holds it."""

    def __init__(self) -> None:
        super().__init__()
        self.sets = 0
        self.sent: list[tuple[int, weakref.ref[Array]]] = []

    def set(self, address: int, array: Array) -> None:
        self.sets += 1
        super().set(address, array)

    def send(self, address: int, array: Array) -> None:
        assert array.flags.c_contiguous
        self.sent.append((address, weakref.ref(array)))


def test_tables_of_moved_experts_are_sent_and_held() -> None:
    """A pointer for every expert that has a place and 0 for the others; one copy for all tables, not waited for."""
    experts, held, q8_0 = 5, 3, 8
    memory = LateMemory()
    program = CudaProgram(NoKernels(), memory)
    x, ids, weights, out = program.value(32), program.value(2, ids=True), program.value(2), program.value(32)
    stacks = [program.weight(q8_0, 32, 32, held) for _ in range(6)]
    size = 32 * QUANT_TYPES[q8_0][2]
    begins = [memory.allocate(size * held) for _ in stacks]
    for stack, begin in zip(stacks, begins, strict=True):
        whole = memory._arrays[begin]
        program.bind_weight(stack, memoryview(whole), begin - whole.ctypes.data)
    masks = [program.expert_mask(experts) for _ in range(2)]
    for mask, at in zip(masks, (0, 3), strict=True):
        program.set_expert_places(mask, np.array([2, -1, 0, -1, 1], np.int32))
        gate, up, down = stacks[at : at + 3]
        program.experts(x, ids, weights, gate, up, down, out, mask=mask)
    one = np.zeros(1, np.int32)
    program.run(None, Batch(one, one, one, np.zeros((1, 1), np.int32), one, None, 1))
    sets = memory.sets
    program.refresh()
    assert memory.sent == [], "nothing has changed"

    moved = [np.array(places, np.int32) for places in ([0, -1, -1, 1, 2], [-1, 1, 0, 2, -1])]
    for mask, places in zip(masks, moved, strict=True):
        program.set_expert_places(mask, places)
    program.refresh()
    gc.collect()
    assert len(memory.sent) == 1 and memory.sets == sets
    tables = memory.sent[0][1]()
    assert tables is not None, "still on its way"
    for number, begin in enumerate(begins):
        places, row = moved[number // 3].tolist(), tables[number * experts :][:experts]
        assert row.tolist() == [begin + size * place if place >= 0 else 0 for place in places]
    program.refresh()
    assert len(memory.sent) == 1
    program.close()
