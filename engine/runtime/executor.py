"""Executor: runs a lowered graph on a batch of tokens from one or several sequences."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.errors import OutOfMemoryError
from engine.memory.sequence_state import SequenceState
from engine.runtime.lowering import CpuProgram
from kernels._cpu import Batch, ThreadPool

Logits = npt.NDArray[np.float32]

LARGEST_MICRO_BATCH = 512
_FIRST_MICRO_BATCH = 128
_SMALLEST_MICRO_BATCH = 32
_PATIENCE = 0.05  # seconds between two looks at `interrupted`


class Interrupted(Exception):  # noqa: N818 - it is no error
    """A step was left between two slices; nothing was committed."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next `tokens` of one sequence, with room for them reserved; logits are wanted from row `logits_from` on."""

    state: SequenceState
    tokens: Sequence[int]
    logits_from: int

    @property
    def outputs(self) -> int:
        return len(self.tokens) - self.logits_from


class Executor:
    """Runs chunks; adapts the micro-batch so that a step can be left within about `_PATIENCE`."""

    def __init__(self, program: CpuProgram, pool: ThreadPool, check_weights: Callable[[], None] = lambda: None) -> None:
        self._program = program
        self.pool = pool
        self._check_weights = check_weights  # raises where the weights that a run has just read cannot be trusted
        self._quick_tokens = 0  # batches up to this size run in one call
        self.micro_batch = _FIRST_MICRO_BATCH  # tokens per step that suit this model on this machine

    def run(self, chunks: Sequence[Chunk], interrupted: Callable[[], bool] = lambda: False) -> Logits:
        """Logits [sum of chunks' outputs, vocabulary], valid until the next run. Interrupted if asked to leave.

        FileChangedError where the model's file was cut or changed under it, OutOfMemoryError where there is no
        room for the values between the operations.
        Writes the chunks' keys and values into reserved cells; committing them is the caller's.
        """
        batch = make_batch(chunks)
        tokens = sum(len(chunk.tokens) for chunk in chunks)
        program = self._program
        slices = program.slices if tokens > self._quick_tokens else ((0, -1),)
        begin = slice_begin = time.perf_counter()
        longest = 0.0
        for first, last in slices:
            try:
                program.program.run(self.pool, batch, first, last)
            except MemoryError as error:
                raise OutOfMemoryError(
                    f"There is no memory left to compute {tokens} tokens at once.",
                    done="What was said so far is kept.",
                    remedy="Close other programs, or choose a shorter context.",
                ) from error
            now = time.perf_counter()
            longest, slice_begin = max(longest, now - slice_begin), now
            if len(slices) > 1 and interrupted():
                raise Interrupted
        self._check_weights()
        self._adapt(tokens, slice_begin - begin, longest)
        return program.program.read(program.logits)

    def _adapt(self, tokens: int, seconds: float, longest_slice: float) -> None:
        if seconds < _PATIENCE:
            self._quick_tokens = max(self._quick_tokens, tokens)
        elif tokens <= self._quick_tokens:
            self._quick_tokens = tokens - 1
        if tokens >= self.micro_batch and longest_slice < _PATIENCE / 2:
            self.micro_batch = min(LARGEST_MICRO_BATCH, 2 * self.micro_batch)
        elif tokens > _SMALLEST_MICRO_BATCH and longest_slice > _PATIENCE:
            self.micro_batch = max(_SMALLEST_MICRO_BATCH, tokens // 2)


def make_batch(chunks: Sequence[Chunk]) -> Batch:
    """The kernels' view of `chunks`: tokens with their positions, block tables, and the rows that want logits.

    Runs between any two tokens, so it makes few arrays: lists first, each converted once.
    """
    tokens: list[int] = []
    positions: list[int] = []
    sequences: list[int] = []
    outputs: list[int] = []
    for row, chunk in enumerate(chunks):
        count, length = len(chunk.tokens), chunk.state.length
        outputs.extend(range(len(tokens) + chunk.logits_from, len(tokens) + count))
        tokens.extend(chunk.tokens)
        positions.extend(range(length, length + count))
        sequences.extend([row] * count)
    widest = max(len(chunk.state.block_table) for chunk in chunks)
    tables = [[*chunk.state.block_table, *[0] * (widest - len(chunk.state.block_table))] for chunk in chunks]
    return Batch(*(np.array(part, np.int32) for part in (tokens, positions, sequences, tables, outputs)))
