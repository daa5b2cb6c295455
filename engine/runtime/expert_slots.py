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
_COUNTED_AT_ONCE = 4  # steps: array operations on few numbers cost what they cost, however few those are
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
    """Decayed counts of each expert's uses, [banks, experts]; all banks in few array operations, and some steps at
    once, since it runs between any two tokens. Whoever asks for heat finds all that was noted in it."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = dict(counts)
        self._rows = {bank: row for row, bank in enumerate(counts)}
        self._values: Heat = np.zeros((len(counts), max(counts.values(), default=0)), np.float32)
        self._pins: Heat = np.zeros_like(self._values)  # added to the heat where it decides who is where
        self._recorded: Heat = np.zeros_like(self._values)  # uses since `take_record`, not decayed
        self._recorded_tokens = 0
        # The banks' slot tables as a step has them, beside the heat: so all its uses are looked up at once.
        self.slots: Ids = np.full(self._values.shape, -1, np.int32)
        # Of the banks noted last: where their rows begin in the flat array. Compared, mostly with themselves, because
        # hashing as many names costs more than counting their uses.
        self._begins: list[tuple[tuple[str, ...], Ids]] = []
        self._noted: list[Ids] = []  # not counted yet: places in the flat array of all
        self._noted_steps = self._noted_tokens = 0
        self._hits = self._uses = 0

    def of(self, bank: str) -> Heat:
        self._count()
        row: Heat = self._values[self._rows[bank]]
        return row

    def pin(self, bank: str, wanted: Iterable[int], unwanted: Iterable[int]) -> None:
        """From now on, the hottest and the coldest experts of a bank whatever is used."""
        row = self._pins[self._rows[bank]]
        row[:] = 0
        row[list(wanted)], row[list(unwanted)] = PINNED, -PINNED

    def set_slots(self, bank: str, slots: Ids) -> None:
        """Where a bank's experts are from the next step on; -1: not on the device."""
        self._count()
        self.slots[self._rows[bank], : len(slots)] = slots

    def slots_of(self, bank: str) -> Ids:
        """What `set_slots` was told, always in the same memory."""
        row: Ids = self.slots[self._rows[bank], : self._counts[bank]]
        return row

    def note(self, uses: Sequence[Uses]) -> None:
        """The experts that a step used; its arrays are free again."""
        if not uses:
            return
        if [part.banks for part in uses] != [banks for banks, _ in self._begins]:
            width = self._values.shape[1]
            self._begins = [(part.banks, width * self._numbers(part.banks)[:, None, None]) for part in uses]
        for part, (_, begins) in zip(uses, self._begins, strict=True):
            self._noted.append((part.ids + begins).ravel())
        self._noted_steps += 1
        self._noted_tokens += uses[0].ids.shape[1]
        if self._noted_steps >= _COUNTED_AT_ONCE:
            self._count()

    def _count(self) -> None:
        """Counts what was noted, all tokens alike, after their decay."""
        if not self._noted:
            return
        flat, tokens = np.concatenate(self._noted), self._noted_tokens
        self._noted, self._noted_steps, self._noted_tokens = [], 0, 0
        self._values *= np.float32(0.5 ** (tokens / HALF_LIFE_TOKENS))
        for counts in (self._values, self._recorded):
            np.add.at(counts.reshape(-1), flat, np.float32(1))
        self._recorded_tokens += tokens
        self._hits += int(np.count_nonzero(self.slots.reshape(-1)[flat] >= 0))
        self._uses += flat.size

    def _numbers(self, banks: tuple[str, ...]) -> Ids:
        """The banks' rows."""
        return np.array([self._rows[bank] for bank in banks], np.int32)

    @property
    def found(self) -> tuple[int, int]:
        """How many uses found their expert on the device, and of how many."""
        self._count()
        return self._hits, self._uses

    @property
    def hit_rate(self) -> float | None:
        """Share of all uses that found their expert on the device; None before the first."""
        hits, uses = self.found
        return hits / uses if uses else None

    @property
    def recorded_tokens(self) -> int:
        """Since `take_record`."""
        self._count()
        return self._recorded_tokens

    def take_record(self) -> tuple[dict[str, list[float]], int]:
        """Uses by bank, and in how many tokens, since the last time."""
        tokens, self._recorded_tokens = self.recorded_tokens, 0
        counts = {bank: self._recorded[row, : self._counts[bank]].tolist() for bank, row in self._rows.items()}
        self._recorded[:] = 0
        return counts, tokens

    def hottest(self, bank: str, count: int, number: int) -> tuple[int, ...]:
        """The `count` most used of a bank's `number` experts; the lower number where two are alike."""
        heat = (self.of(bank) + self._pins[self._rows[bank]])[:number]
        return tuple(int(e) for e in np.argsort(-heat, kind="stable")[:count])

    def promotions(self, tables: Mapping[str, SlotTable], limit: int) -> list[Promotion]:
        """Up to `limit` swaps that pay, the most profitable first, one per bank at most. `tables` are what
        `set_slots` was told."""
        if not tables:
            return []
        self._count()
        banks = tuple(tables)
        rows = slice(None) if len(banks) == len(self._rows) and banks == tuple(self._rows) else self._numbers(banks)
        heat = self._values[rows] + self._pins[rows]
        wanted = np.where(self.slots[rows] < 0, heat, -PINNED)
        candidates = wanted.argmax(axis=1)
        gains = wanted.max(axis=1)
        found: list[tuple[float, Promotion]] = []
        for row in np.argsort(-gains)[: max(limit, 0)].tolist():
            bank, gain = banks[row], float(gains[row])
            if gain <= MARGIN:
                break
            slot, coldest = _coldest(tables[bank], heat[row])
            if gain > coldest * ADVANTAGE + MARGIN:
                found.append((gain - coldest, Promotion(bank, int(candidates[row]), slot)))
        return [promotion for _, promotion in sorted(found, key=lambda pair: -pair[0])]


def _coldest(table: SlotTable, heat: Heat) -> tuple[int, float]:
    """The slot to give up, and how much its expert was used; an empty one first."""
    experts = table.experts
    empty = int(experts.argmin())
    if experts[empty] < 0:
        return empty, 0.0
    values = heat.take(experts)
    slot = int(values.argmin())
    return slot, max(0.0, float(values[slot]))
