"""Free memory as the system tells it, or the control group where that is less."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import OutOfMemoryError
from engine.memory import available


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(available, "_CGROUP", tmp_path)
    return tmp_path


def test_without_a_control_group_the_system_counts(group: Path) -> None:
    assert available.available_memory() > 1 << 20


@pytest.mark.parametrize(("limit", "used", "free"), [("1000", "400", 600), ("1000", "2000", 0)])
def test_control_group_limits(group: Path, limit: str, used: str, free: int) -> None:
    (group / "memory.max").write_text(limit + "\n")
    (group / "memory.current").write_text(used + "\n")
    assert available.available_memory() == free


def test_control_group_without_a_limit(group: Path) -> None:
    (group / "memory.max").write_text("max\n")
    assert available.available_memory() > 1 << 20


def test_shortage_names_both_sizes_and_the_remedy(group: Path) -> None:
    (group / "memory.max").write_text(str(3 << 20))
    (group / "memory.current").write_text("0")
    available.require_memory(3 << 20, "A cache", remedy="")
    available.require_memory(4 << 20, "A cache", freed=1 << 20, remedy="")
    with pytest.raises(OutOfMemoryError, match=r"A cache needs 4 MiB of memory, and 3 MiB are free\.") as caught:
        available.require_memory(4 << 20, "A cache", remedy="Choose less.")
    assert caught.value.remedy == "Choose less."


@pytest.mark.parametrize(("count", "text"), [(0, "0 MiB"), (1, "1 MiB"), (5 << 20, "5 MiB"), (3 << 30, "3.0 GiB")])
def test_sizes_as_people_read_them(count: int, text: str) -> None:
    assert available.format_bytes(count) == text
