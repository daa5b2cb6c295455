"""How a library entry is put into words, alike in the table and in the drawer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from app.library.pill import Mood
from app.library.results_model import short_count
from app.model_files import format_bytes
from app.placement.words import gib
from app.translation import tr

if TYPE_CHECKING:
    from engine.hub.library import LibraryEntry

MOODS: dict[str, Mood] = {
    "READY": "good",
    "IN_USE": "good",
    "DOWNLOADING": "quiet",
    "INCOMPLETE": "fair",
    "CORRUPT": "bad",
    "UNSUPPORTED": "bad",
    "CRASHED": "bad",
}


def state_words(entry: LibraryEntry) -> str:
    if entry.missing:
        numbers = ", ".join(str(number) for number in entry.missing[:3])
        return tr("Shard {numbers} missing", numbers=numbers)
    return tr(entry.state.value)


def title_words(entry: LibraryEntry) -> str:
    """The title, and a mark where the file lies in a folder of somebody else's."""
    if not is_elsewhere(entry):
        return entry.title
    return tr("{title}  ·  outside the models folder", title=entry.title)


def is_elsewhere(entry: LibraryEntry) -> bool:
    """Neither in the models folder nor among Tessera's own files."""
    from engine.hub.places import INSTALLATION

    return not entry.ours and entry.origin != INSTALLATION


def last_used_words(entry: LibraryEntry, now: datetime | None = None) -> str:
    if entry.last_used is None:
        return tr("never")
    days = ((now or datetime.now(UTC)) - entry.last_used).days
    if days <= 0:
        return tr("today")
    return tr("yesterday") if days == 1 else tr("{days} days ago", days=days)


def context_words(entry: LibraryEntry) -> str:
    length = entry.facts.context_length if entry.facts is not None else 0
    return f"{length:,}" if length else ""


def family_words(entry: LibraryEntry) -> str:
    return entry.facts.architecture if entry.facts is not None else ""


def fact_rows(entry: LibraryEntry, kv_type: str) -> list[tuple[str, str]]:
    """What the drawer lists, as (name, value). `kv_type`: of keys and values, as it is set."""
    facts = entry.facts
    size = tr("{file} ({memory} of memory)", file=format_bytes(entry.size), memory=gib(entry.size))
    rows = [(tr("Size"), size), (tr("Quantisation"), entry.quantization or tr("not named"))]
    if facts is not None:
        engine = tr("Tessera's own engine") if facts.native else tr("compatibility engine (llama.cpp)")
        rows += [
            (tr("Family"), facts.architecture or tr("not named")),
            (tr("Runs on"), engine),
            (tr("Parameters"), short_count(facts.parameters)),
            (tr("Layers"), str(facts.layers)),
            (tr("Context"), tr("{count} tokens", count=f"{facts.context_length:,}")),
            (tr("Cache"), tr("{size} per 1,000 tokens", size=gib(round(1000 * facts.bytes_per_token(kv_type))))),
        ]
        if facts.expert_bytes:
            share = round(100 * facts.expert_bytes / max(1, facts.tensor_bytes))
            rows.append((tr("Experts"), tr("{share} % of its bytes", share=share)))
    rows.append((tr("Found in"), tr(entry.origin)))
    if is_elsewhere(entry):
        rows.append((tr("Folder"), str(entry.path.parent)))
    if entry.repository:
        rows.append((tr("From"), entry.repository))
    rows.append((tr("Checksum"), tr("compared and equal") if entry.verified else tr("not compared yet")))
    rows.append((tr("Last used"), last_used_words(entry)))
    return rows
