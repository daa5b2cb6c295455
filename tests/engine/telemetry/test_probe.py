"""The probe thread: true readings of this very process, and an end when asked."""

from __future__ import annotations

import mmap
import threading
import time
from dataclasses import FrozenInstanceError

import pytest

from engine.telemetry.probe import Probe, ProcessProbe
from engine.telemetry.snapshot import GPUReading, TelemetrySnapshot

MiB = 1 << 20


def test_held_memory_rises_with_what_is_taken_and_falls_again():
    probe = ProcessProbe()
    before = probe.read()
    taken = mmap.mmap(-1, 96 * MiB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    taken.write(b"\1" * (96 * MiB))
    during = probe.read()
    taken.close()
    after = probe.read()
    assert during.held - before.held == pytest.approx(96 * MiB, abs=16 * MiB)
    assert during.held - after.held == pytest.approx(96 * MiB, abs=16 * MiB)


def test_a_mapped_file_is_page_cache_not_held(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(b"\1" * (64 * MiB))
    probe = ProcessProbe()
    before = probe.read()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) == 64 * MiB // mmap.PAGESIZE
        during = probe.read()
    assert during.mapped - before.mapped == pytest.approx(64 * MiB, abs=8 * MiB)
    assert during.held - before.held < 16 * MiB


def test_processor_time_is_ours():
    probe = ProcessProbe()
    probe.read()
    end = time.thread_time() + 0.2
    start = time.monotonic()
    while time.thread_time() < end:
        pass
    reading = probe.read()
    elapsed = time.monotonic() - start
    assert reading.own_cpu * probe._cores * elapsed >= 0.15
    assert 0 <= reading.cpu_load <= 1


def test_snapshots_come_until_the_probe_is_closed():
    found: list[TelemetrySnapshot] = []
    several = threading.Event()

    def take(snapshot: TelemetrySnapshot) -> None:
        found.append(snapshot)
        if len(found) >= 3:
            several.set()

    probe = Probe(take, interval=0.02, libraries=("no-such-driver.so",))
    probe.start()
    assert several.wait(10)
    probe.close()
    count = len(found)
    time.sleep(0.1)
    assert len(found) == count
    assert [s.time for s in found] == sorted(s.time for s in found)
    assert found[0].gpu is None and "driver" in found[0].gpu_problem
    assert found[0].ram_total >= found[0].ram_used > 0
    with pytest.raises(FrozenInstanceError):
        found[0].held = 0  # type: ignore[misc]


def test_the_largest_card_counts():
    small = GPUReading("small", 4, 0, None, None, None, None)
    large = GPUReading("large", 8, 0, None, None, None, None)
    unknown = GPUReading("unknown", None, None, None, None, None, None)
    snapshot = TelemetrySnapshot(0.0, 8, 4, 1, 1, 0.0, 0.0, None, (small, unknown, large))
    assert snapshot.gpu is large and snapshot.others == 3
