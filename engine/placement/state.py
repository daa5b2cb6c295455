"""What one layer remembers of a sequence, in bytes: KV cache, windowed or latent KV, or a recurrent state."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from engine.models.graph import STATE_SLOTS, positions_kept

F16_BYTES = 2.0
Q8_0_BYTES = 34 / 32
VALUE_BYTES = {"f16": F16_BYTES, "q8_0": Q8_0_BYTES}  # by LoadOptions.kv_type
_Q8_0_BLOCK = 32


class StateKind(enum.Enum):
    FULL = "full"  # keys and values of every position
    WINDOW = "window"  # attention sees the last `window` positions only
    LATENT = "latent"  # one compressed row per position, shared by all heads (multi-head latent attention)
    RECURRENT = "recurrent"  # a fixed size, whatever the depth
    NONE = "none"


@dataclass(frozen=True, slots=True)
class StateShape:
    """One layer's part of a SequenceState.

    FULL and WINDOW keep `kv_heads × (key_dim + value_dim)` values per position; our own cache has room for the WINDOW
    of two sequences and a step's tokens (`positions_kept`). LATENT keeps `key_dim` values (the compressed row with its
    rotary part); values are read out of the same row. RECURRENT keeps `recurrent_bytes` per slot.
    """

    kind: StateKind
    heads: int = 0
    kv_heads: int = 0
    key_dim: int = 0
    value_dim: int = 0
    window: int = 0
    recurrent_bytes: int = 0

    def positions_seen(self, depth: int) -> int:
        """Positions that attention reads at this depth."""
        return min(depth, self.window) if self.kind is StateKind.WINDOW else self.positions_held(depth)

    def positions_held(self, context: int) -> int:
        """Positions in our own cache at a context of this many tokens."""
        if self.kind in (StateKind.RECURRENT, StateKind.NONE):
            return 0
        return positions_kept(self.window, context)

    @property
    def values_per_position(self) -> int:
        if self.kind is StateKind.LATENT:
            return self.key_dim
        return self.kv_heads * (self.key_dim + self.value_dim)

    def bytes(self, context: int, value_bytes: float = F16_BYTES, *, windows_only: bool = False) -> int:
        """Memory held for a context. `value_bytes`: of one cached value (F16_BYTES, Q8_0_BYTES); `windows_only`: by a
        cache that holds a single window.

        Recurrent states are kept in slots, of which there is a fixed number.
        """
        positions = self.positions_seen(context) if windows_only else self.positions_held(context)
        cache = int(positions * self.values_per_position * value_bytes)
        return cache + STATE_SLOTS * self.recurrent_bytes

    def read_bytes(self, depth: int, value_bytes: float = F16_BYTES) -> int:
        """Memory traffic of one decode step at this depth; a recurrent state is read and written."""
        return int(self.positions_seen(depth) * self.values_per_position * value_bytes) + 2 * self.recurrent_bytes

    @property
    def rows(self) -> tuple[int, ...]:
        """Values per position and head of each array that is kept."""
        if self.kind is StateKind.LATENT:
            return (self.key_dim,)
        return (self.key_dim, self.value_dim) if self.kv_heads else ()

    @property
    def rows_per_key(self) -> float:
        """Query heads that read the same key."""
        return self.heads / self.kv_heads if self.kv_heads else 1.0

    def scores(self, depth: int) -> int:
        """Numbers that one token's softmax takes at this depth."""
        return self.positions_seen(depth) * self.heads

    def macs(self, depth: int) -> int:
        """Multiply-accumulates of one token's attention at this depth, scores and mix together."""
        if self.kind is StateKind.RECURRENT:
            return 2 * self.recurrent_bytes // 4  # the float32 state is read out and updated once
        value_dim = self.key_dim if self.kind is StateKind.LATENT else self.value_dim
        return self.positions_seen(depth) * self.heads * (self.key_dim + value_dim)


def cached_value_bytes(states: Iterable[StateShape], kv_type: str) -> float:
    """Of one cached value, as the engines keep it: in 16 bits, whatever is asked for, where a head's values do not make
    whole blocks of Q8_0. `kv_type` is LoadOptions'."""
    odd = any(row % _Q8_0_BLOCK for state in states for row in state.rows)
    return F16_BYTES if odd else VALUE_BYTES[kv_type]
