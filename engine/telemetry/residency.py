"""ResidencySnapshot: where every part of a model lies right now, as plain values that may cross a thread."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.placement.pins import Pin


@dataclass(frozen=True, slots=True)
class ItemResidency:
    """A placement item, by its name in the graph ("blk.3.attn"). `layer` is -1 outside the layers."""

    name: str
    kind: str  # as placement names it: "attention", "feed-forward", …
    layer: int
    on_device: bool
    weight_bytes: int
    state_bytes: int  # of the whole context
    reason: str


@dataclass(frozen=True, slots=True)
class BankResidency:
    """A layer's experts. `residents` are on the device; `heat` is each expert's recent use, decayed, per token."""

    name: str
    layer: int
    count: int
    used: int  # per token
    slots: int
    expert_bytes: int
    residents: tuple[int, ...]
    heat: tuple[float, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class RamUse:
    """RAM that a running model takes, in bytes, and `limit`, its budget; None: whatever the machine has.

    `weights` are read from the file's mapping, so they are page cache. `state` is what the caches of the whole context
    take once they are full; `used_state` what they take now, and `kept_state` how much of that waits for the next turn.
    `on_disk`: keys of items (with -1) and of banks with an expert's number, most of whose pages are not in RAM.
    """

    weights: int
    state: int
    overhead: int  # values between operations, and the process itself
    used_state: int = 0
    kept_state: int = 0
    limit: int | None = None
    on_disk: frozenset[tuple[str, int]] = field(default=frozenset())

    @property
    def total(self) -> int:
        """What counts against the budget."""
        return self.weights + self.state + self.overhead


@dataclass(frozen=True, slots=True)
class ResidencySnapshot:
    """`used_bytes` is what counts against the budget: weights, slots, caches, staging and workspaces.

    Speeds are tokens per second; predicted ones are the plan's, measured ones None until enough was decoded.
    `pace`: how many times longer than by the machine's rates each lane ("CPU", "GPU") in use was measured to take,
    where that made a new plan. `prefetch_depth`: items in RAM for which there are buffers, through which they come for
    a step; `lent`: names of those that lie in some of them while an answer is written.
    """

    device: str  # as shown to people; "CPU" where there is no other
    budget_bytes: int
    used_bytes: int
    items: tuple[ItemResidency, ...] = ()
    banks: tuple[BankResidency, ...] = ()
    hit_rate: float | None = None
    promoted: int = 0  # experts that took a slot since the model was loaded
    bytes_to_device: int = 0  # over the link since then, counted by the executor: weights, caches, activations
    bytes_to_host: int = 0
    predicted_decode: float | None = None
    measured_decode: float | None = None
    notes: tuple[str, ...] = field(default=())
    pins: frozenset[Pin] = field(default=frozenset())
    pace: tuple[tuple[str, float], ...] = ()
    prefetch_depth: int = 0
    lent: frozenset[str] = frozenset()
