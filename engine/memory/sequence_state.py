"""SequenceState: what a model remembers of one sequence, behind one face for every kind of memory."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import OutOfMemoryError
from engine.memory.kv_pool import KVPool


class SequenceState:
    """Tokens whose keys and values are in the pool, and the blocks that hold them.

    A step reserves room, runs, and commits; a step that fails in between leaves the state as it was, because cells
    past the committed length are never read, and recurrent layers write a slot that nobody reads before.
    """

    def __init__(self, pool: KVPool) -> None:
        self._pool = pool
        self._tokens: list[int] = []
        self._blocks: list[int] = []
        self._slot: int | None = None  # of recurrent layers: after all tokens
        self._next_slot: int | None = None  # reserved: after the next ones, too

    @property
    def tokens(self) -> Sequence[int]:
        return self._tokens

    @property
    def block_table(self) -> Sequence[int]:
        return self._blocks

    @property
    def slots(self) -> tuple[int, int] | tuple[()]:
        """Where recurrent layers find their state (-1: it begins here), and where they leave it; () without such."""
        if self._next_slot is None:
            return ()
        return -1 if self._slot is None else self._slot, self._next_slot

    @property
    def held_slots(self) -> list[int]:
        return [slot for slot in (self._slot, self._next_slot) if slot is not None]

    @property
    def length(self) -> int:
        return len(self._tokens)

    @property
    def nbytes(self) -> int:
        """Memory that this sequence keeps in use; shared blocks count for each that shares them."""
        return len(self._blocks) * self._pool.bytes_per_block + len(self.held_slots) * self._pool.bytes_per_slot

    def blocks_missing(self, tokens: int) -> int:
        """Free blocks that `reserve(tokens)` takes."""
        total = self._pool.blocks_for(self.length + tokens)
        return max(0, total - len(self._blocks)) + (1 if tokens and self._tail_is_shared() else 0)

    def reserve(self, tokens: int) -> None:
        """Makes room for `tokens` more. OutOfMemoryError, with nothing changed, when the pool has too few blocks."""
        missing = self.blocks_missing(tokens)
        if missing > self._pool.free_blocks:
            raise OutOfMemoryError(
                f"The context memory has {self._pool.free_blocks} free blocks, and {missing} are needed.",
                remedy="Choose a longer context.",
            )
        if tokens and self._pool.is_recurrent and self._next_slot is None:
            if not self._pool.slots.free:
                raise OutOfMemoryError("All states are in use.", remedy="Ask again when an answer has ended.")
            self._next_slot = self._pool.slots.allocate()
        if tokens and self._tail_is_shared():
            own = self._pool.allocate()
            self._pool.copy(self._blocks[self._tail], own)
            self._pool.release(self._blocks[self._tail])
            self._blocks[self._tail] = own
        while len(self._blocks) < self._pool.blocks_for(self.length + tokens):
            self._blocks.append(self._pool.allocate())

    def commit(self, tokens: Sequence[int]) -> None:
        """The cells of `tokens`, reserved before, have been written."""
        assert self._pool.blocks_for(self.length + len(tokens)) <= len(self._blocks)
        self._tokens.extend(tokens)
        if self._next_slot is not None:
            self._drop_slot(self._slot)
            self._slot, self._next_slot = self._next_slot, None

    def drop_reserved(self) -> None:
        """Gives back the slot that `reserve` took for a step that will not come."""
        self._drop_slot(self._next_slot)
        self._next_slot = None

    def reusable(self, length: int) -> int:
        """How many of the first `length` tokens a fork can keep: recurrent layers have all or nothing."""
        return length if length == self.length or not self._pool.is_recurrent else 0

    def truncate(self, length: int) -> None:
        """Forgets everything from position `length` on, which must be `reusable`."""
        assert 0 <= length <= self.length and length == self.reusable(length)
        if length == 0:
            for slot in self.held_slots:
                self._drop_slot(slot)
            self._slot = self._next_slot = None
        del self._tokens[length:]
        for block in self._blocks[self._pool.blocks_for(length) :]:
            self._pool.release(block)
        del self._blocks[self._pool.blocks_for(length) :]

    def fork(self, length: int | None = None) -> SequenceState:
        """A second state with the same first `length` tokens, sharing their blocks until either writes.

        `length` must be `reusable`.
        """
        length = self.length if length is None else length
        assert 0 <= length <= self.length and length == self.reusable(length)
        twin = SequenceState(self._pool)
        twin._tokens = self._tokens[:length]
        twin._blocks = self._blocks[: self._pool.blocks_for(length)]
        for block in twin._blocks:
            self._pool.retain(block)
        if length and self._slot is not None:
            twin._slot = self._slot
            self._pool.slots.retain(self._slot)
        return twin

    def release(self) -> None:
        self.truncate(0)

    def _drop_slot(self, slot: int | None) -> None:
        if slot is not None:
            self._pool.slots.release(slot)

    @property
    def _tail(self) -> int:
        """Index of the block that the next token goes to."""
        return self.length // self._pool.block_tokens

    def _tail_is_shared(self) -> bool:
        return self._tail < len(self._blocks) and self._pool.is_shared(self._blocks[self._tail])
