"""Expert slots: which experts of each bank are on the device, how recently each was used, and who should come next.

Tables change between steps only. An expert on its way to the device has its slot, but is absent until it is there, and
the CPU computes it; so nothing ever waits for the link.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

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


@dataclass(frozen=True, slots=True)
class Promotion:
    """`expert` of `bank` should take `slot`."""

    bank: str
    expert: int
    slot: int


class ExpertHeat:
    """Decayed counts of each expert's uses, [banks, experts]; all banks in few array operations, since it runs once
    per token."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = dict(counts)
        self._rows = {bank: row for row, bank in enumerate(counts)}
        self.values: Heat = np.zeros((len(counts), max(counts.values(), default=0)), np.float32)
        self._pins: Heat = np.zeros_like(self.values)  # added to the heat where it decides who is where
        self._recorded: Heat = np.zeros_like(self.values)  # uses since `take_record`, not decayed
        self.recorded_tokens = 0

    def of(self, bank: str) -> Heat:
        row: Heat = self.values[self._rows[bank]]
        return row

    def pin(self, bank: str, wanted: Iterable[int], unwanted: Iterable[int]) -> None:
        """From now on, the hottest and the coldest experts of a bank whatever is used."""
        row = self._pins[self._rows[bank]]
        row[:] = 0
        row[list(wanted)], row[list(unwanted)] = PINNED, -PINNED

    def note(self, used: Mapping[str, Ids]) -> None:
        """Counts the experts that a step used, [tokens, used] per bank, after its tokens' decay."""
        if not used:
            return
        tokens = len(next(iter(used.values())))
        self.values *= np.float32(0.5 ** (tokens / HALF_LIFE_TOKENS))
        experts = self.values.shape[1]
        offsets = np.repeat([self._rows[bank] * experts for bank in used], [ids.size for ids in used.values()])
        flat = np.concatenate([ids.ravel() for ids in used.values()]) + offsets
        uses = np.bincount(flat, minlength=self.values.size).reshape(self.values.shape)
        self.values += uses
        self._recorded += uses
        self.recorded_tokens += tokens

    def take_record(self) -> tuple[dict[str, list[float]], int]:
        """Uses by bank, and in how many tokens, since the last time."""
        counts = {bank: self._recorded[row, : self._counts[bank]].tolist() for bank, row in self._rows.items()}
        tokens, self.recorded_tokens = self.recorded_tokens, 0
        self._recorded[:] = 0
        return counts, tokens

    def hottest(self, bank: str, count: int, number: int) -> tuple[int, ...]:
        """The `count` most used of a bank's `number` experts; the lower number where two are alike."""
        heat = (self.of(bank) + self._pins[self._rows[bank]])[:number]
        return tuple(int(e) for e in np.argsort(-heat, kind="stable")[:count])

    def promotions(self, tables: Mapping[str, SlotTable], limit: int) -> list[Promotion]:
        """Up to `limit` swaps that pay, the most profitable first, one per bank at most."""
        if not tables:
            return []
        banks = list(tables)
        rows = np.array([self._rows[bank] for bank in banks])
        heat = self.values[rows] + self._pins[rows]
        slots = np.zeros(heat.shape, np.int32)
        for row, table in enumerate(tables.values()):
            slots[row, : table.count] = table.slots
        wanted = np.where(slots < 0, heat, -PINNED)
        candidates = wanted.argmax(axis=1)
        gains = wanted[np.arange(len(rows)), candidates]
        found: list[tuple[float, Promotion]] = []
        for row in np.argsort(-gains)[: max(limit, 0)]:
            bank = banks[row]
            slot, coldest = _coldest(tables[bank], heat[row])
            gain = float(gains[row])
            if gain > coldest * ADVANTAGE + MARGIN:
                found.append((gain - coldest, Promotion(bank, int(candidates[row]), slot)))
        return [promotion for _, promotion in sorted(found, key=lambda pair: -pair[0])]


def _coldest(table: SlotTable, heat: Heat) -> tuple[int, float]:
    """The slot to give up, and how much its expert was used; an empty one first."""
    values = np.where(table.experts >= 0, heat[np.maximum(table.experts, 0)], -1.0)
    slot = int(values.argmin())
    return slot, max(0.0, float(values[slot]))
