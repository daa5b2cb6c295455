"""PrefixCache: states of finished answers, kept so that the next turn need not read the conversation again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from engine.memory.kv_pool import KVPool
from engine.memory.sequence_state import SequenceState


class PrefixCache:
    """Up to `limit` states, the least recently used one dropped first, or earlier when blocks run short."""

    def __init__(self, pool: KVPool, limit: int = 8) -> None:
        self._pool = pool
        self._limit = limit
        self._states: list[SequenceState] = []  # the most recently used one last

    @property
    def nbytes(self) -> int:
        """Memory of all states; what two of them share counts twice."""
        return sum(state.nbytes for state in self._states)

    def __iter__(self) -> Iterator[SequenceState]:
        return iter(self._states)

    def take(self, tokens: Sequence[int]) -> SequenceState:
        """A state that holds the longest known beginning of `tokens`, always short of its last one.

        The last token is left out because its logits are needed. A kept state that goes no further than that is
        handed over, any other is forked and stays.
        """
        lengths = [state.reusable(common_prefix(state.tokens, tokens[:-1])) for state in self._states]
        if not lengths or max(lengths) == 0:
            return SequenceState(self._pool)
        best = int(np.argmax(lengths))
        state = self._states.pop(best)
        if state.length == lengths[best]:
            return state
        self._states.append(state)
        return state.fork(lengths[best])

    def remember(self, state: SequenceState) -> None:
        """Keeps a fork of a state that will go on, where it could not be cut back to this position later."""
        if self._pool.forgets and (self._pool.slots.free or not self._pool.is_recurrent):
            self.keep(state.fork())

    def keep(self, state: SequenceState) -> None:
        """Takes over `state`. One that it continues needs no second place, where it can be cut back to it."""
        if state.length == 0:
            state.release()
            return
        state.drop_reserved()
        self._states.append(state)
        for other in self._states[:-1]:
            length = common_prefix(other.tokens, state.tokens)
            if length == other.length == state.reusable(length):
                self._drop(other)
        while len(self._states) > self._limit:
            self.evict()

    def evict(self) -> bool:
        """Drops the least recently used state; False if there is none."""
        if not self._states:
            return False
        self._drop(self._states[0])
        return True

    def clear(self) -> None:
        while self.evict():
            pass

    def _drop(self, state: SequenceState) -> None:
        self._states.remove(state)
        state.release()


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """How many leading tokens are the same."""
    length = min(len(a), len(b))
    different = np.flatnonzero(np.asarray(a[:length]) != np.asarray(b[:length]))
    return int(different[0]) if different.size else length
