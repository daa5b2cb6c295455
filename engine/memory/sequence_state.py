"""SequenceState: what a model remembers of one sequence, behind one face for every kind of memory."""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import OutOfMemoryError
from engine.memory.kv_pool import KVPool
from engine.models.graph import first_seen

_STEP_BACK = 32  # positions by which a state with windows can be cut back at least


class SequenceState:
    """Tokens whose keys and values are in the pool, and the blocks that hold them.

    A step reserves room, runs, and commits; a step that fails in between leaves the state as it was, because cells
    past the committed length are never read, and recurrent layers write a slot that nobody reads before. Blocks that
    no window reaches any more are given back when a step is committed.
    """

    def __init__(self, pool: KVPool) -> None:
        self._pool = pool
        self._tokens: list[int] = []
        self._tables: list[list[int]] = [[] for _ in pool.windows]  # block numbers; 0 where one was given back
        self._begins = [0] * len(pool.windows)  # by table: the first block that is still held
        self._slot: int | None = None  # of recurrent layers: after all tokens
        self._next_slot: int | None = None  # reserved: after the next ones, too
        self._room = 0  # positions below it are known to have cells of their own; 0: to be looked up

    @property
    def tokens(self) -> Sequence[int]:
        return self._tokens

    @property
    def block_table(self) -> Sequence[int]:
        """Of layers that see everything."""
        return self._tables[0]

    @property
    def block_tables(self) -> Sequence[Sequence[int]]:
        """By the pool's tables, all of one length. Blocks that no window reaches have any number."""
        return self._tables

    @property
    def held_blocks(self) -> list[list[int]]:
        """The same without what was given back."""
        return [table[begin:] for table, begin in zip(self._tables, self._begins, strict=True)]

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
        blocks = sum(len(held) * size for held, size in zip(self.held_blocks, self._pool.block_bytes, strict=True))
        return blocks + len(self.held_slots) * self._pool.bytes_per_slot

    def blocks_missing(self, tokens: int) -> tuple[int, ...]:
        """Free blocks that `reserve(tokens)` takes, by table."""
        more = max(0, self._pool.blocks_for(self.length + tokens) - len(self._tables[0]))
        return tuple(more + (1 if tokens and self._tail_is_shared(table) else 0) for table in range(len(self._tables)))

    def reserve(self, tokens: int) -> None:
        """Makes room for `tokens` more. OutOfMemoryError, with nothing changed, when the pool has too few blocks."""
        if len(self._tokens) + tokens <= self._room:  # so it is between most tokens of an answer
            return
        for missing, free in zip(self.blocks_missing(tokens), self._pool.free_blocks, strict=True):
            if missing > free:
                raise OutOfMemoryError(
                    f"The context memory has {free} free blocks, and {missing} are needed.",
                    remedy="Choose a longer context.",
                )
        if tokens and self._pool.is_recurrent and self._next_slot is None:
            if not self._pool.slots.free:
                raise OutOfMemoryError("All states are in use.", remedy="Ask again when an answer has ended.")
            self._next_slot = self._pool.slots.allocate()
        for number, table in enumerate(self._tables):
            if tokens and self._tail_is_shared(number):
                own = self._pool.allocate(number)
                self._pool.copy(table[self._tail], own, number)
                self._pool.release(table[self._tail], number)
                table[self._tail] = own
            while len(table) < self._pool.blocks_for(self.length + tokens):
                table.append(self._pool.allocate(number))
        if tokens and not self._pool.is_recurrent:  # whose next step needs another slot
            self._room = len(self._tables[0]) * self._pool.block_tokens

    def commit(self, tokens: Sequence[int]) -> None:
        """The cells of `tokens`, reserved before, have been written."""
        self._tokens.extend(tokens)
        assert len(self._tokens) <= len(self._tables[0]) * self._pool.block_tokens
        if self._next_slot is not None:
            self._drop_slot(self._slot)
            self._slot, self._next_slot = self._next_slot, None
        if len(self._tables) > 1:
            self._release_passed()

    def _release_passed(self) -> None:
        """Gives back the blocks that no window reaches any more."""
        for number, window in enumerate(self._pool.windows[1:], start=1):
            seen = first_seen(max(0, self.length - _STEP_BACK), window) // self._pool.block_tokens
            for index in range(self._begins[number], seen):
                self._pool.release(self._tables[number][index], number)
                self._tables[number][index] = 0
            self._begins[number] = max(self._begins[number], seen)

    def drop_reserved(self) -> None:
        """Gives back the slot that `reserve` took for a step that will not come."""
        self._drop_slot(self._next_slot)
        self._next_slot = None

    def reusable(self, length: int) -> int:
        """How many of the first `length` tokens a fork can keep: recurrent layers have all or nothing, and so have
        windows that have passed."""
        if self._pool.is_recurrent and length != self.length:
            return 0
        seen = (first_seen(length, window) // self._pool.block_tokens for window in self._pool.windows)
        return length if all(map(int.__ge__, seen, self._begins)) else 0

    def truncate(self, length: int) -> None:
        """Forgets everything from position `length` on, which must be `reusable`."""
        assert 0 <= length <= self.length and length == self.reusable(length)
        if length == 0:
            for slot in self.held_slots:
                self._drop_slot(slot)
            self._slot = self._next_slot = None
        self._room = 0
        del self._tokens[length:]
        end = self._pool.blocks_for(length)
        for number, table in enumerate(self._tables):
            for block in table[max(end, self._begins[number]) :]:
                self._pool.release(block, number)
            del table[end:]
            self._begins[number] = min(self._begins[number], end)

    def fork(self, length: int | None = None) -> SequenceState:
        """A second state with the same first `length` tokens, sharing their blocks until either writes.

        `length` must be `reusable`.
        """
        length = self.length if length is None else length
        assert 0 <= length <= self.length and length == self.reusable(length)
        self._room = 0
        twin = SequenceState(self._pool)
        twin._tokens = self._tokens[:length]
        twin._tables = [table[: self._pool.blocks_for(length)] for table in self._tables]
        twin._begins = [min(begin, len(twin._tables[0])) for begin in self._begins]
        for number, held in enumerate(twin.held_blocks):
            for block in held:
                self._pool.retain(block, number)
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

    def _tail_is_shared(self, table: int) -> bool:
        blocks = self._tables[table]
        return self._tail < len(blocks) and self._pool.is_shared(blocks[self._tail], table)
