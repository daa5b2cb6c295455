"""What the table of models shows: models on disk, and downloads as models to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app.translation import engine_text, sentences, tr

if TYPE_CHECKING:
    from engine.hub.download_status import DownloadStatus
    from engine.hub.library import LibraryEntry


def table_entries(entries: Sequence[LibraryEntry], statuses: Sequence[DownloadStatus]) -> list[LibraryEntry]:
    """Entries plus one row per unfinished download; the shards that have arrived already are not a second row."""
    from engine.hub.download_status import State
    from engine.hub.library import EntryState, LibraryEntry
    from engine.hub.names import quantization_label

    under_way = [one for one in statuses if one.state is not State.DONE]
    names = {(one.folder, file.name) for one in under_way for file in one.files}
    rows = [
        entry
        for entry in entries
        if not any((folder, file.name) in names for file in entry.files for folder in file.parents)
    ]
    for one in under_way:
        percent = 100 * one.done // max(1, one.size)
        rows.append(
            LibraryEntry(
                path=one.folder / one.name,
                files=(),
                title=one.name,
                quantization=quantization_label(one.name),
                size=one.size,
                state=EntryState.DOWNLOADING if one.state in (State.RUNNING, State.QUEUED) else EntryState.INCOMPLETE,
                why=f"{tr(one.state.value)}, {percent} %. {engine_text(one.note)}".strip(),
                origin="Tessera",
                ours=True,
                verified=False,
                facts=None,
                repository=one.repository,
            )
        )
    return rows


def mark_crashed(entries: Sequence[LibraryEntry], crashes: Mapping[str, int]) -> list[LibraryEntry]:
    """Models that would be ready, were it not for the crashes that they were in; `crashes` are counts by path."""
    from engine.hub.library import EntryState

    marked = []
    for entry in entries:
        count = crashes.get(str(entry.path), 0)
        if count and entry.state is EntryState.READY:
            why = sentences(
                tr("Tessera has crashed {count} times with {name}.", count=count, name=entry.title),
                tr("It is not loaded by itself any more. It may run now, or after an update."),
            )
            entry = replace(entry, state=EntryState.CRASHED, why=why)
        marked.append(entry)
    return marked
