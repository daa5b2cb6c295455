"""Executor: runs a lowered graph on a batch of tokens from one or several sequences."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from engine.errors import OutOfMemoryError
from engine.memory.sequence_state import SequenceState
from engine.models.graph import MOST_STEP_TOKENS
from engine.runtime.devices.streams import Span
from engine.runtime.lowering import CpuProgram
from kernels._cpu import Batch, ThreadPool

Logits = npt.NDArray[np.float32]

LARGEST_MICRO_BATCH = MOST_STEP_TOKENS
ANSWERING = 16  # tokens at most of a step in which answers go on and no prompt is read
_FIRST_MICRO_BATCH = 128
_SMALLEST_MICRO_BATCH = 32
_GLANCE = 0.02  # seconds between two looks at `interrupted`, where the operations allow it
_PATIENCE = 0.08  # and at most


class Interrupted(Exception):  # noqa: N818 - it is no error
    """A step was left between two slices; nothing was committed."""


class Chunk(NamedTuple):  # made between any two tokens: 0.6 µs, and a frozen dataclass takes 1.1
    """The next `tokens` of one sequence, with room for them reserved; logits are wanted from row `logits_from` on."""

    state: SequenceState
    tokens: Sequence[int]
    logits_from: int

    @property
    def outputs(self) -> int:
        return len(self.tokens) - self.logits_from


class StepRunner(Protocol):
    """What a session needs of an executor."""

    micro_batch: int  # tokens per step that suit the model on this machine

    def run(self, chunks: Sequence[Chunk], interrupted: Callable[[], bool] = ...) -> Logits:
        """See `Executor.run`."""


class Executor:
    """Runs chunks; adapts the micro-batch so that a step can be left within `_PATIENCE`."""

    def __init__(
        self, program: CpuProgram, pool: ThreadPool, check_weights: Callable[[], object] = lambda: None
    ) -> None:
        self._program = program
        self.pool = pool
        self._check_weights = check_weights  # raises where the weights that a run has just read cannot be trusted
        self._strides: dict[int, int] = {}  # cuts between two looks, for about so many tokens (by power of two)
        self.micro_batch = _FIRST_MICRO_BATCH  # tokens per step that suit this model on this machine
        self._room = 0  # tokens that the program has memory for
        self.trace: list[Span] | None = None  # what ran, where that is wanted
        self.trace_path: Path | None = None  # where it is written in the end

    def run(self, chunks: Sequence[Chunk], interrupted: Callable[[], bool] = lambda: False) -> Logits:
        """Logits [sum of chunks' outputs, vocabulary], valid until the next run. Interrupted if asked to leave.

        FileChangedError where the model's file was cut or changed under it, OutOfMemoryError where there is no
        room for the values between the operations.
        Writes the chunks' keys and values into reserved cells; committing them is the caller's.
        """
        tokens = sum(len(chunk.tokens) for chunk in chunks)
        program, cuts = self._program, self._program.cuts
        batch = make_batch(chunks)
        if tokens <= ANSWERING < self._room:  # what a prompt took goes back to the system
            program.program.trim()
            self._room = 0
        self._room = max(self._room, tokens)
        at, end, stride = 0, len(cuts) - 1, self._strides.get(tokens.bit_length(), 1)
        longest, before = 0.0, time.perf_counter()
        while at < end:
            first, at = at, min(at + stride, end)
            self._run_part(batch, cuts[first], cuts[at], tokens)
            now = time.perf_counter()
            if self.trace is not None:
                self.trace.append(Span("CPU", "CPU", f"operations {cuts[first]} … {cuts[at]}", before, now))
            elapsed, before = now - before, now
            longest = max(longest, elapsed)
            if at - first == stride:  # the last part may be short
                stride = _next_stride(stride, elapsed, end)
            if at < end and interrupted():
                raise Interrupted
        self._check_weights()
        self._strides[tokens.bit_length()] = stride
        self._adapt(tokens, longest)
        return program.program.read(program.logits)

    def _run_part(self, batch: Batch, first: int, last: int, tokens: int) -> None:
        try:
            self._program.program.run(self.pool, batch, first, last)
        except MemoryError as error:
            raise OutOfMemoryError(
                f"There is no memory left to compute {tokens} tokens at once.",
                done="What was said so far is kept.",
                remedy="Close other programs, or choose a shorter context.",
            ) from error

    def _adapt(self, tokens: int, longest: float) -> None:
        """Smaller micro-batches where a single operation takes too long, larger ones where there is time."""
        if longest > _PATIENCE and tokens > _SMALLEST_MICRO_BATCH:
            self.micro_batch = max(_SMALLEST_MICRO_BATCH, tokens // 2)
        elif longest < _PATIENCE / 2 and tokens >= self.micro_batch:
            self.micro_batch = min(LARGEST_MICRO_BATCH, 2 * self.micro_batch)


def _next_stride(stride: int, elapsed: float, most: int) -> int:
    """How far to run before the next look for an interruption, so that looks come about every `_GLANCE`."""
    if elapsed > _GLANCE:
        return max(1, stride // 2)
    return min(2 * stride, most) if elapsed < _GLANCE / 2 else stride


def make_batch(chunks: Sequence[Chunk]) -> Batch:
    """The kernels' view of `chunks`: tokens with their positions, block tables, and the rows that want logits.

    Runs between any two tokens, so it makes lists and no arrays.
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
    by_state = [chunk.state.block_tables for chunk in chunks]
    tables = [table for number in zip(*by_state, strict=True) for table in number]
    slots = [slot for chunk in chunks for slot in chunk.state.slots]
    return Batch.of(tokens, positions, sequences, tables, outputs, slots, len(by_state[0]))
