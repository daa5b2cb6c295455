"""Which weights are on the disk only: as the page cache has them, without reading one."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.gguf import GGUFFile
from engine.memory import page_cache
from engine.memory.page_cache import shares_in_ram
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
        assert sum(view) and shares_in_ram(view) == [1.0]
        assert shares_in_ram(view, 5) == [1.0] * 5
        part = view[100 : 3 * mmap.PAGESIZE + 1]
        assert shares_in_ram(part) == [1.0] and shares_in_ram(part, 4) == [1.0] * 4
        assert shares_in_ram(part, 7) == [1.0] * 7
        part.release()
        view.release()


def test_a_system_that_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "_mincore", lambda: None)
    assert shares_in_ram(memoryview(b"1234")) is None


@pytest.mark.parametrize(("size", "windows"), [(40, 1), (40, 5), (7, 7), (3, 5), (1, 1), (4000, 128)])
def test_pages_around_the_middles_of_equal_parts_are_asked_for(
    size: int, windows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page cache is played, since the system may drop any page at any time: each second part is there. What the
    system says in other bits does not count."""
    memory = mmap.mmap(-1, size * mmap.PAGESIZE)
    begin = np.frombuffer(memory, np.uint8).ctypes.data
    asked: list[range] = []

    def played(address: int, length: int, into: int) -> int:
        pages = range((address - begin) // mmap.PAGESIZE, (address - begin + length) // mmap.PAGESIZE)
        asked.append(pages)
        for number, page in enumerate(pages):
            ctypes.c_ubyte.from_address(into + number).value = 0x20 | (page * windows // size % 2)
        return 0

    monkeypatch.setattr(page_cache, "_mincore", lambda: played)
    shares = shares_in_ram(memoryview(memory), windows)
    assert shares is not None and len(shares) == len(asked) == windows
    assert all(pages[0] >= 0 and pages[-1] < size and len(pages) <= 16 for pages in asked)
    if size >= windows:
        assert shares == [number % 2 for number in range(windows)]


def test_items_and_experts_are_looked_at_a_few_at_a_time(
    tiny_models: Callable[[TinyModel], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system may drop any page at any time, so the page cache is played: expert 3 of every bank is gone."""
    with GGUFFile.open(tiny_models(TinyModel("qwen3moe", layers=3))) as gguf:
        graph = build_graph(load_spec(gguf))
        weights = WeightStore(gguf, graph.weights)
        watch = PageWatch(graph, weights)
        banks = dict(watch._experts)

        def played(_buffer: memoryview, windows: int) -> list[float]:
            return [0.0 if windows == 8 and number == 3 else 1.0 for number in range(windows)]

        monkeypatch.setattr(page_watch, "shares_in_ram", played)
        watch.look()
        first = set(watch.on_disk)
        for _ in range(8):
            watch.look()
        assert set(banks.values()) == {8} and first < watch.on_disk
        assert watch.on_disk == {(key, 3) for key in banks}
        monkeypatch.setattr(page_watch, "shares_in_ram", lambda _buffer, windows: [1.0] * windows)
        for _ in range(8):
            watch.look()
        assert not watch.on_disk
