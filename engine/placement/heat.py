"""Recorded heat: how often each expert of a model was used, kept between runs for the planner and the next start.

Counts decay with a half-life of about a conversation. Of a much longer time they would tell of no text any more: what
is hot in one is cold in the next, and what the planner needs is how unevenly *one* text spreads over the experts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.placement.items import ExpertBank
from engine.placement.shape import ModelShape

HALF_LIFE_TOKENS = 4096.0
FEWEST_TOKENS = 256.0  # recorded ones, for a plan to go by them
_DIGITS = 2

Counts = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class RecordedHeat:
    """`counts`: uses per expert by the bank's key, and `tokens` in which they were counted, both decayed."""

    tokens: float = 0.0
    counts: Counts = field(default_factory=dict)

    def after(self, counts: Counts, tokens: int) -> RecordedHeat:
        """With what `tokens` more tokens used."""
        kept = 0.5 ** (tokens / HALF_LIFE_TOKENS)
        new = {
            bank: [old * kept + more for old, more in zip(self.counts.get(bank, [0.0] * len(uses)), uses, strict=True)]
            for bank, uses in counts.items()
        }
        return RecordedHeat(self.tokens * kept + tokens, new)

    def of(self, banks: Sequence[ExpertBank]) -> list[list[float]] | None:
        """A row per bank, as the planner takes it; None where too little was recorded, or of another model."""
        rows = [list(self.counts.get(bank.key, ())) for bank in banks]
        if not banks or self.tokens < FEWEST_TOKENS:
            return None
        return rows if all(len(row) == bank.count for row, bank in zip(rows, banks, strict=True)) else None


class HeatStore:
    """One file per model in `folder`."""

    def __init__(self, folder: Path, shape: ModelShape) -> None:
        self.path = folder / f"{shape.fingerprint}.json"

    def load(self) -> RecordedHeat:
        """An empty record where there is none, or none that can be read."""
        try:
            stored = json.loads(self.path.read_text("utf-8"))
            counts = {str(bank): [float(uses) for uses in row] for bank, row in stored["counts"].items()}
            record = RecordedHeat(float(stored["tokens"]), counts)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            return RecordedHeat()
        numbers = [record.tokens, *(uses for row in counts.values() for uses in row)]
        return record if all(math.isfinite(number) and number >= 0 for number in numbers) else RecordedHeat()

    def save(self, record: RecordedHeat) -> None:
        """Written whole or not at all. OSError where it cannot be written."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        counts = {bank: [round(uses, _DIGITS) for uses in row] for bank, row in record.counts.items()}
        draft = self.path.with_suffix(".part")
        draft.write_text(json.dumps({"tokens": round(record.tokens, _DIGITS), "counts": counts}), "utf-8")
        draft.replace(self.path)
