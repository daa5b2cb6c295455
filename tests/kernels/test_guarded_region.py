from __future__ import annotations

import gc
import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from kernels import _cpu

PAGE = mmap.PAGESIZE


def mapped(path: Path, pages: int) -> mmap.mmap:
    path.write_bytes(b"\1" * pages * PAGE)
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def test_lost_pages_read_as_zeros(tmp_path: Path) -> None:
    region = _cpu.GuardedRegion(mapped(tmp_path / "f", 8))
    view = region.view()
    assert not region.lost and view.sum() == 8 * PAGE
    os.truncate(tmp_path / "f", 3 * PAGE)
    assert not region.lost  # nothing was touched
    assert view.sum() == 3 * PAGE
    assert region.lost


def test_regions_are_told_apart(tmp_path: Path) -> None:
    kept, cut = (_cpu.GuardedRegion(mapped(tmp_path / name, 2)) for name in ("kept", "cut"))
    os.truncate(tmp_path / "cut", 0)
    assert cut.view()[-1] == 0 and kept.view()[-1] == 1
    assert (cut.lost, kept.lost) == (True, False)


def test_a_view_keeps_mapping_and_guard_alive(tmp_path: Path) -> None:
    view = _cpu.GuardedRegion(mapped(tmp_path / "f", 2)).view()
    gc.collect()
    os.truncate(tmp_path / "f", 0)
    assert view[-1] == 0
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_places_are_given_back(tmp_path: Path) -> None:
    for _ in range(5000):  # more than there are places
        region = _cpu.GuardedRegion(mmap.mmap(-1, PAGE))
    assert not region.lost
    mapping = mapped(tmp_path / "f", 1)
    region = _cpu.GuardedRegion(mapping)
    with pytest.raises(BufferError):
        mapping.close()  # guarded memory cannot be unmapped
    del region
    mapping.close()


def test_populated_pages_are_in_memory(tmp_path: Path) -> None:
    region = _cpu.GuardedRegion(mapped(tmp_path / "f", 8))
    region.populate(PAGE + 1, 3 * PAGE)
    region.populate(8 * PAGE, 0)
    assert region.view().sum() == 8 * PAGE and not region.lost
    with pytest.raises(ValueError, match="outside"):
        region.populate(7 * PAGE, PAGE + 1)


def test_populating_what_is_gone_ends_nothing(tmp_path: Path) -> None:
    region = _cpu.GuardedRegion(mapped(tmp_path / "f", 8))
    os.truncate(tmp_path / "f", PAGE)
    region.populate(0, 8 * PAGE)
    assert region.view().sum() == PAGE and region.lost


def test_the_buffer_must_begin_on_a_page() -> None:
    with pytest.raises(RuntimeError, match="page boundary"):
        _cpu.GuardedRegion(np.zeros(2 * PAGE, np.uint8)[1:])  # numpy aligns to 16
    with pytest.raises(RuntimeError, match="page boundary"):
        _cpu.GuardedRegion(b"")
