"""Expert slots: which experts of each bank are on the device, how recently each was used, and who should come next.

Tables change between steps only. An expert on its way to the device has its slot, but is absent until it is there, and
the CPU computes it; so nothing ever waits for the link.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kernels._cpu import UseCounts

Ids = npt.NDArray[np.int32]
Heat = npt.NDArray[np.float32]

# A use counts half after so many tokens: about a paragraph, within which a text keeps to its experts.
HALF_LIFE_TOKENS = 128.0
# An expert replaces one in a slot only if it was used this much more: one swap costs as much link time as
# computing the expert on the CPU costs memory traffic, so it has to be used several times more to pay.
ADVANTAGE = 1.5
MARGIN = 1.0
PINNED = np.float32(1e30)  # more heat than use ever gives


@dataclass(slots=True, eq=False)
class SlotTable:
    """One bank: `slots[e]` is expert e's slot or -1; `experts[s]` the expert in slot s or -1."""

    count: int
    experts: Ids
    slots: Ids = field(init=False)

    def __post_init__(self) -> None:
        self.slots = np.full(self.count, -1, np.int32)
        for slot, expert in enumerate(self.experts.tolist()):
            if expert >= 0:
                self.slots[expert] = slot

    @classmethod
    def of(cls, count: int, residents: Sequence[int]) -> SlotTable:
        return cls(count, np.array(residents, np.int32))

    def lookup(self, ids: Ids) -> Ids:
        """Slots of experts, of the same shape; -1 where one has none. IndexError for what is no expert."""
        found: Ids = self.slots.take(ids)
        return found

    def evict(self, slot: int) -> None:
        expert = int(self.experts[slot])
        if expert >= 0:
            self.slots[expert] = -1
        self.experts[slot] = -1

    def install(self, slot: int, expert: int) -> None:
        """`expert` is in `slot`, which was free."""
        assert self.experts[slot] < 0 and self.slots[expert] < 0
        self.experts[slot], self.slots[expert] = expert, slot

    @property
    def absent(self) -> npt.NDArray[np.bool_]:
        """Which experts the CPU computes."""
        return self.slots < 0

    @property
    def residents(self) -> tuple[int, ...]:
        return tuple(sorted(int(e) for e in self.experts if e >= 0))


@dataclass(frozen=True, slots=True, eq=False)
class Uses:
    """The experts that a step used in `banks`, as many in each: `ids` [banks, tokens, used]."""

    banks: tuple[str, ...]
    ids: Ids

    @classmethod
    def of(cls, used: Mapping[str, Ids]) -> tuple[Uses, ...]:
        """[tokens, used] per bank, those of one shape together; the first bank's come first."""
        alike: dict[tuple[int, ...], list[str]] = {}
        for bank, ids in used.items():
            alike.setdefault(ids.shape, []).append(bank)
        return tuple(cls(tuple(banks), np.stack([used[bank] for bank in banks])) for banks in alike.values())


@dataclass(frozen=True, slots=True)
class Promotion:
    """`expert` of `bank` should take `slot`."""

    bank: str
    expert: int
    slot: int


class ExpertHeat:
    """Decayed counts of each expert's uses, [banks, experts], all banks in one native call, since it runs between any
    two tokens."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = dict(counts)
        self._rows = {bank: row for row, bank in enumerate(counts)}
        self._native = UseCounts(list(counts.values()))
        self._values: Heat = self._native.values
        self._pins: Heat = self._native.pins  # added to the heat where it decides who is where
        self._recorded: Heat = self._native.recorded  # uses since `take_record`, not decayed
        self.recorded_tokens = 0
        # The banks' slot tables as a step has them, beside the heat: so all its uses are looked up at once.
        self.slots: Ids = self._native.places
        self._numbers: dict[tuple[str, ...], Ids] = {}  # of banks that are used together: their rows
        self._latest: tuple[tuple[str, ...], Ids] = (), np.empty(0, np.int32)
        self._hits = self._uses = 0

    def of(self, bank: str) -> Heat:
        row: Heat = self._values[self._rows[bank]]
        return row

    def pin(self, bank: str, wanted: Iterable[int], unwanted: Iterable[int]) -> None:
        """From now on, the hottest and the coldest experts of a bank whatever is used."""
        row = self._pins[self._rows[bank]]
        row[:] = 0
        row[list(wanted)], row[list(unwanted)] = PINNED, -PINNED

    def set_slots(self, bank: str, table: SlotTable) -> None:
        """Where a bank's experts are from the next step on."""
        self._native.set_places(self._rows[bank], table.slots, len(table.experts))

    def slots_of(self, bank: str) -> Ids:
        """What `set_slots` was told, always in the same memory."""
        row: Ids = self.slots[self._rows[bank], : self._counts[bank]]
        return row

    def note(self, uses: Sequence[Uses]) -> None:
        """The experts that a step used, all tokens alike; its arrays are free again. IndexError for what is none."""
        if not uses:
            return
        tokens = uses[0].ids.shape[1]
        decay = 0.5 ** (tokens / HALF_LIFE_TOKENS)
        for part in uses:
            self._hits += self._native.note(self._rows_of(part.banks), part.ids, decay)
            self._uses += part.ids.size
            decay = 1.0  # once per step
        self.recorded_tokens += tokens

    def _rows_of(self, banks: tuple[str, ...]) -> Ids:
        if banks is not self._latest[0]:  # hashing as many names costs more than counting their uses
            rows = self._numbers.get(banks)
            if rows is None:
                rows = self._numbers[banks] = np.array([self._rows[bank] for bank in banks], np.int32)
            self._latest = banks, rows
        return self._latest[1]

    @property
    def found(self) -> tuple[int, int]:
        """How many uses found their expert on the device, and of how many."""
        return self._hits, self._uses

    @property
    def hit_rate(self) -> float | None:
        """Share of all uses that found their expert on the device; None before the first."""
        return self._hits / self._uses if self._uses else None

    def take_record(self) -> tuple[dict[str, list[float]], int]:
        """Uses by bank, and in how many tokens, since the last time."""
        tokens, self.recorded_tokens = self.recorded_tokens, 0
        counts = {bank: self._recorded[row, : self._counts[bank]].tolist() for bank, row in self._rows.items()}
        self._recorded[:] = 0
        return counts, tokens

    def hottest(self, bank: str, count: int, number: int) -> tuple[int, ...]:
        """The `count` most used of a bank's `number` experts; the lower number where two are alike."""
        heat = (self.of(bank) + self._pins[self._rows[bank]])[:number]
        return tuple(int(e) for e in np.argsort(-heat, kind="stable")[:count])

    def promotions(self, banks: tuple[str, ...], limit: int) -> list[Promotion]:
        """Up to `limit` swaps that pay, the most profitable first, one per bank at most, in the slots that `set_slots`
        was told of: an empty one first, else that of the least used."""
        swaps = self._native.swaps(self._rows_of(banks), limit, ADVANTAGE, MARGIN)
        return [Promotion(banks[number], expert, slot) for number, expert, slot in swaps]
