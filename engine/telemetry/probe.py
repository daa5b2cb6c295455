"""One thread that looks at the machine four times a second and hands out frozen snapshots."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from ctypes import c_void_p

import psutil

from engine.telemetry.nvml import NVML, NVMLError
from engine.telemetry.snapshot import GPUReading, TelemetrySnapshot

INTERVAL = 0.25
# Walking the process table costs milliseconds: children (the compatibility engine) are looked for every five seconds.
_CHILDREN_EVERY = 20


class GPUProbe:
    """The cards' readings. A driver that is lost while we run is a reason, too."""

    def __init__(self, libraries: tuple[str, ...] | None = None) -> None:
        self.problem = ""
        self._nvml: NVML | None = None
        self._cards: list[tuple[c_void_p, str, float | None, bool, bool]] = []
        try:
            nvml = NVML.open(libraries)
            self._cards = [
                (h, nvml.name(h), nvml.link_limit(h), nvml.is_slice(h), nvml.is_unified(h)) for h in nvml.handles()
            ]
            self._nvml = nvml
            self.problem = "" if self._cards else "The NVIDIA driver reports no GPU."
        except NVMLError as error:
            self.problem = str(error)

    def read(self, processes: frozenset[int]) -> tuple[GPUReading, ...]:
        if self._nvml is None:
            return ()
        return tuple(self._read(self._nvml, *card, processes) for card in self._cards)

    def _read(
        self,
        nvml: NVML,
        handle: c_void_p,
        name: str,
        limit: float | None,
        is_slice: bool,
        is_unified: bool,
        processes: frozenset[int],
    ) -> GPUReading:
        memory = nvml.memory(handle)
        received, sent = nvml.traffic(handle, limit)
        return GPUReading(
            name,
            total=memory[0] if memory else None,
            used=memory[1] if memory else None,
            ours=nvml.memory_of(handle, processes),
            load=None if is_slice else nvml.load(handle),
            received=received,
            sent=sent,
            is_unified=is_unified,
            is_slice=is_slice,
        )

    def close(self) -> None:
        if self._nvml is not None:
            self._nvml.close()
            self._nvml = None


class ProcessProbe:
    """RAM, processor and disk of this process and its children."""

    def __init__(self) -> None:
        self._own = psutil.Process()
        self._children: list[psutil.Process] = []
        self._round = 0
        self._cores = psutil.cpu_count() or 1
        self._cpu_seconds: dict[int, float] = {}
        self._read_bytes: dict[int, int] = {}
        self._time = time.monotonic()
        psutil.cpu_percent(None)  # the first answer is of the time since this

    @property
    def pids(self) -> frozenset[int]:
        return frozenset((self._own.pid, *(child.pid for child in self._children)))

    def read(self, gpus: tuple[GPUReading, ...] = (), problem: str = "") -> TelemetrySnapshot:
        if self._round % _CHILDREN_EVERY == 0:
            with suppress(psutil.Error):
                self._children = self._own.children(recursive=True)
        self._round += 1
        now = time.monotonic()
        elapsed = max(1e-3, now - self._time)
        self._time = now
        held, mapped, cpu, disk = self._sums()
        memory = psutil.virtual_memory()
        return TelemetrySnapshot(
            now,
            ram_total=int(memory.total),
            ram_used=int(memory.total - memory.available),
            held=held,
            mapped=mapped,
            cpu_load=min(1.0, psutil.cpu_percent(None) / 100),
            own_cpu=min(1.0, cpu / elapsed / self._cores),
            disk_read=None if disk is None else disk / elapsed,
            gpus=gpus,
            gpu_problem=problem,
        )

    def _sums(self) -> tuple[int, int, float, float | None]:
        """Held and mapped bytes; processor seconds and bytes read since the last time."""
        held = mapped = 0
        cpu, disk, disk_known = 0.0, 0.0, False
        for process in (self._own, *self._children):
            with suppress(psutil.Error):
                with process.oneshot():
                    info, times = process.memory_info(), process.cpu_times()
                shared = int(getattr(info, "shared", 0))  # Linux: pages of files and of shared memory
                held, mapped = held + max(0, int(info.rss) - shared), mapped + shared
                cpu += _growth(self._cpu_seconds, process.pid, times.user + times.system)
                read = _read_bytes(process)
                if read is not None:
                    disk, disk_known = disk + _growth(self._read_bytes, process.pid, read), True
        return held, mapped, cpu, disk if disk_known else None


def _growth(before: dict[int, float] | dict[int, int], pid: int, value: float) -> float:
    last = before.get(pid, value)
    before[pid] = value  # type: ignore[assignment]
    return max(0.0, value - last)


def _read_bytes(process: psutil.Process) -> int | None:
    """Bytes read from disk so far, pages of mapped files included; None where the system does not tell."""
    try:
        return int(process.io_counters().read_bytes)
    except (psutil.Error, AttributeError, NotImplementedError, OSError):
        return None


class Probe:
    """Calls `on_snapshot` on its own thread, every `interval` seconds, until `close`."""

    def __init__(
        self,
        on_snapshot: Callable[[TelemetrySnapshot], None],
        interval: float = INTERVAL,
        libraries: tuple[str, ...] | None = None,
    ) -> None:
        self._on_snapshot = on_snapshot
        self._interval = interval
        self._libraries = libraries
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.cpu_seconds = 0.0  # spent by the thread so far

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        _lower_priority()
        gpus, process = GPUProbe(self._libraries), ProcessProbe()
        due = time.monotonic()
        while not self._stop.is_set():
            self._on_snapshot(process.read(gpus.read(process.pids), gpus.problem))
            self.cpu_seconds = time.thread_time()
            due = max(due + self._interval, time.monotonic())  # late, as after sleep: no hurry to catch up
            self._stop.wait(due - time.monotonic())
        gpus.close()


def _lower_priority() -> None:
    """Readings may come late; tokens may not. Only Linux has priorities per thread."""
    if hasattr(os, "SCHED_IDLE"):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
