"""Small files between runs, damaged in every way: they count as absent, and nothing else is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.hub import scan
from engine.hub.journal import Source, journal_path, read_journal, save_journal
from engine.hub.library_store import LibraryStore
from engine.hub.places import Place
from engine.hub.queue_file import QueueFile
from engine.hub.records import read_record, record_path
from engine.hub.token import TokenStore
from engine.placement.hardware.store import load

DAMAGE = ["", "[" * 100_000, "{", "[]", "{}", "null", "7", "NaN", '"text"', "\0", '{"cpu": [], "gpu": 1, "source": []}',
          '{"models": [], "layers": 5, "source": {}, "synced": 1e999}', '[{"id": 1}]']  # fmt: skip


@pytest.mark.parametrize("text", DAMAGE, ids=range(len(DAMAGE)))
def test_damaged_files_count_as_absent(tmp_path: Path, text: str) -> None:
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    for path in (record_path(model), journal_path(model), tmp_path / "one.json", tmp_path / "a" / "b" / "c" / "d"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert read_record(model) is None
    assert read_journal(model) is None
    assert load(tmp_path / "one.json") is None
    assert LibraryStore(tmp_path / "one.json").get(model, "used") is None
    assert TokenStore(tmp_path / "one.json")._read().get("https://hub.example") is None
    queue = QueueFile(tmp_path / "one.json")
    assert queue.read() == []
    queue.close()
    findings = scan.Findings()
    (tmp_path / "manifests").mkdir()
    (tmp_path / "a").rename(tmp_path / "manifests" / "a")
    scan._ollama(Place(tmp_path, "Ollama", "ollama"), findings, set())
    assert findings.models == []


def test_a_journal_with_numbers_that_are_none_counts_as_absent(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    save_journal(model, Source("o/r", "main", "m.gguf", 4), 12345)
    text = journal_path(model).read_text()
    assert read_journal(model) is not None
    for number in ("1e999", "NaN", '"x"', "null"):
        journal_path(model).write_text(text.replace("12345", number))
        assert read_journal(model) is None
