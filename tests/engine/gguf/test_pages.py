"""Pages of a file that were copied elsewhere leave this process's memory, and come back when they are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.gguf import GGUFFile
from engine.runtime.placement import Placement
from tests.support.hybrid_model import HybridModel, banks_of, items_of
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
SMAPS = Path("/proc/self/smaps")
MODEL = TinyModel("qwen3moe", layers=2)


def resident(path: Path) -> int:
    """Bytes of the file that are in this process's memory."""
    entries = re.findall(rf"^[0-9a-f-]+ .*{re.escape(path.name)}\n(?:.*\n)*?Rss: +(\d+) kB", SMAPS.read_text(), re.M)
    return 1024 * sum(map(int, entries))


@pytest.mark.skipif(not SMAPS.exists(), reason="told on Linux only")
def test_released_pages_are_given_back_and_read_again(tiny_models: Write) -> None:
    path = tiny_models(MODEL)
    with GGUFFile.open(path) as gguf:
        name = "blk.0.ffn_gate_exps.weight"
        bytes_ = np.frombuffer(gguf.buffer(name), np.uint8)
        before = bytes_.copy()
        full = resident(path)
        gguf.release_pages(name, 0, len(bytes_))
        assert full - resident(path) >= len(bytes_) - (8 << 10)
        gguf.release_pages(name, 5, 6)  # less than a page: nothing happens
        assert np.array_equal(bytes_, before)
        gguf.check_unchanged()


@pytest.mark.skipif(not SMAPS.exists(), reason="told on Linux only")
def test_what_is_on_a_device_is_not_in_ram_as_well(tiny_models: Write) -> None:
    path = tiny_models(MODEL)
    model = HybridModel(path)
    items = frozenset(item for item in items_of(model.graph) if item != "embedding")
    model.place(Placement(items, banks_of(model.graph)))
    assert resident(path) < path.stat().st_size // 4
    model.close()
