"""The default thread count, on processors that this machine is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.runtime import threads


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(threads, "_CPUS", tmp_path / "cpu")
    monkeypatch.setattr(threads, "_INTEL_PERFORMANCE", tmp_path / "cpu_core" / "cpus")
    return tmp_path


def describe(machine: Path, siblings: dict[int, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for cpu, text in siblings.items():
        topology = machine / "cpu" / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(text + "\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(siblings))


def test_one_thread_per_core_with_smt(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    describe(machine, {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7", 4: "0,4", 5: "1,5", 6: "2,6", 7: "3,7"}, monkeypatch)
    assert threads.default_threads() == 4


def test_performance_cores_of_a_hybrid(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two performance cores of two threads each, four efficiency cores."""
    describe(machine, {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3", 4: "4", 5: "5", 6: "6", 7: "7"}, monkeypatch)
    (machine / "cpu_core").mkdir()
    (machine / "cpu_core" / "cpus").write_text("0-3\n")
    assert threads.default_threads() == 2


def test_big_cores_by_capacity(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    describe(machine, {cpu: str(cpu) for cpu in range(6)}, monkeypatch)
    for cpu in range(6):
        (machine / "cpu" / f"cpu{cpu}" / "cpu_capacity").write_text("1024" if cpu >= 4 else "400")
    assert threads.default_threads() == 2


def test_without_any_description_every_processor_counts(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    assert threads.default_threads() == 3


def test_affinity_is_respected(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    describe(machine, {0: "0,1", 1: "0,1", 2: "2,3", 3: "2,3"}, monkeypatch)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 3})
    assert threads.default_threads() == 1


def test_cpu_lists() -> None:
    assert threads.parse_cpu_list("0-3,8,10-11\n") == {0, 1, 2, 3, 8, 10, 11}
    assert threads.parse_cpu_list("") == frozenset()
