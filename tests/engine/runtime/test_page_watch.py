"""Which weights are on the disk only: as the page cache has them, without reading one."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.gguf import GGUFFile
from engine.memory import page_cache
from engine.memory.page_cache import pages_in_ram
from engine.memory.weight_store import WeightStore
from engine.models import build_graph, load_spec
from engine.runtime import page_watch
from engine.runtime.page_watch import PageWatch
from tests.support.tiny_models import TinyModel


def test_a_page_that_was_just_read_is_there(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(os.urandom(40 * mmap.PAGESIZE))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = memoryview(mapped)
        assert sum(view) and pages_in_ram(view) is not None
        assert np.all(pages_in_ram(view)) and len(pages_in_ram(view)) == 40
        part = view[100 : 3 * mmap.PAGESIZE + 1]
        assert len(pages_in_ram(part)) == 4
        part.release()
        view.release()


def test_a_system_that_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "_mincore", lambda: None)
    assert pages_in_ram(memoryview(b"1234")) is None


def test_items_and_experts_are_looked_at_a_few_at_a_time(
    tiny_models: Callable[[TinyModel], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may drop any page at any time, so the page cache is played: expert 3 of every bank is gone."""
    with GGUFFile.open(tiny_models(TinyModel("qwen3moe", layers=3))) as gguf:
        graph = build_graph(load_spec(gguf))
        weights = WeightStore(gguf, graph.weights)
        watch = PageWatch(graph, weights)
        banks = dict(watch._experts)

        def played(buffer: memoryview) -> np.ndarray:
            pages = np.ones(64, bool)
            pages[64 * 3 // 8 : 64 * 4 // 8] = False
            return pages

        monkeypatch.setattr(page_watch, "pages_in_ram", played)
        watch.look()
        first = set(watch.on_disk)
        for _ in range(8):
            watch.look()
        assert set(banks.values()) == {8} and first < watch.on_disk
        assert watch.on_disk == {(key, 3) for key in banks}
        monkeypatch.setattr(page_watch, "pages_in_ram", lambda _buffer: np.ones(64, bool))
        for _ in range(8):
            watch.look()
        assert not watch.on_disk
