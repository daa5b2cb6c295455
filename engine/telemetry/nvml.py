"""NVML read through ctypes: the few calls that a probe needs, each of which may fail by itself.

Functions, structs and codes as in NVIDIA's NVML API reference (nvml.h, version 12). `NVML.open` takes the library's
name, so that a test can build a stand-in; a missing, forbidden or mismatched driver is a sentence, never an error.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import Structure, byref, c_int, c_uint, c_ulonglong, c_void_p, create_string_buffer
from typing import Any

SUCCESS = 0
_NOT_SUPPORTED = 3
_REASONS = {
    4: "The NVIDIA driver refuses access to this user.",
    9: "The NVIDIA driver is installed but not loaded.",
    12: "No NVIDIA driver is installed.",
    18: "The NVIDIA driver and its library differ in version; a restart usually helps.",
}
# PCIe counters, as the card sees them.
_SENT, _RECEIVED = 0, 1
# Per lane and direction in bytes per second after line coding, by PCIe generation.
_LANE_RATES = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
_MOST_PROCESSES = 256
_NOT_AVAILABLE = (1 << 64) - 1


class _Memory(Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class _Utilization(Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class _Process(Structure):
    _fields_ = (("pid", c_uint), ("used", c_ulonglong), ("gpu_instance", c_uint), ("compute_instance", c_uint))


class NVMLError(Exception):
    """`code` as in nvmlReturn_t."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(_REASONS.get(code, f"NVML answered with error {code}."))


def default_libraries() -> tuple[str, ...]:
    if sys.platform == "win32":
        return ("nvml.dll",)
    return ("libnvidia-ml.so.1", "libnvidia-ml.so")


class NVML:
    """An initialised library. Calls return None where the driver gives no value."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._check("nvmlInit_v2")

    @classmethod
    def open(cls, libraries: tuple[str, ...] | None = None) -> NVML:
        """The first of `libraries` that can be loaded. NVMLError says why there is none."""
        for name in libraries or default_libraries():
            try:
                library = ctypes.CDLL(name)
            except OSError:
                continue
            return cls(library)
        raise NVMLError(12)

    def close(self) -> None:
        self._call("nvmlShutdown")

    def handles(self) -> list[c_void_p]:
        count = c_uint()
        self._check("nvmlDeviceGetCount_v2", byref(count))
        found = []
        for index in range(min(count.value, 64)):
            handle = c_void_p()
            if self._call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle)) == SUCCESS:
                found.append(handle)
        return found

    def name(self, handle: c_void_p) -> str:
        text = create_string_buffer(96)
        code = self._call("nvmlDeviceGetName", handle, text, c_uint(len(text)))
        return text.value.decode(errors="replace") if code == SUCCESS else "NVIDIA GPU"

    def memory(self, handle: c_void_p) -> tuple[int, int] | None:
        """Total and used bytes."""
        memory = _Memory()
        if self._call("nvmlDeviceGetMemoryInfo", handle, byref(memory)) != SUCCESS:
            return None
        return int(memory.total), min(int(memory.used), int(memory.total))

    def is_unified(self, handle: c_void_p) -> bool:
        """Cards that share the system's memory (Jetson, GB10) have no memory to tell of: "not supported"."""
        return self._call("nvmlDeviceGetMemoryInfo", handle, byref(_Memory())) == _NOT_SUPPORTED

    def load(self, handle: c_void_p) -> float | None:
        """0..1."""
        use = _Utilization()
        if self._call("nvmlDeviceGetUtilizationRates", handle, byref(use)) != SUCCESS or use.gpu > 100:
            return None
        return int(use.gpu) / 100

    def is_slice(self, handle: c_void_p) -> bool:
        current, pending = c_uint(), c_uint()
        code = self._call("nvmlDeviceGetMigMode", handle, byref(current), byref(pending))
        return code == SUCCESS and current.value == 1

    def memory_of(self, handle: c_void_p, processes: frozenset[int]) -> int | None:
        """Bytes that the driver charges to the processes; None where it does not tell (WDDM, containers)."""
        found = [self._processes(kind, handle) for kind in ("Compute", "Graphics")]
        if all(entries is None for entries in found):
            return None
        ours = {entry.pid: int(entry.used) for entries in found for entry in entries or () if entry.pid in processes}
        if any(used == _NOT_AVAILABLE for used in ours.values()):
            return None
        return sum(ours.values())

    def _processes(self, kind: str, handle: c_void_p) -> list[_Process] | None:
        count = c_uint(_MOST_PROCESSES)
        entries = (_Process * _MOST_PROCESSES)()
        code = self._call(f"nvmlDeviceGet{kind}RunningProcesses_v3", handle, byref(count), entries)
        return list(entries[: min(count.value, _MOST_PROCESSES)]) if code == SUCCESS else None

    def link_limit(self, handle: c_void_p) -> float | None:
        """Bytes per second that the card's link can carry one way."""
        generation, width = c_uint(), c_uint()
        if self._call("nvmlDeviceGetMaxPcieLinkGeneration", handle, byref(generation)) != SUCCESS:
            return None
        if self._call("nvmlDeviceGetMaxPcieLinkWidth", handle, byref(width)) != SUCCESS:
            return None
        return _LANE_RATES.get(int(generation.value), _LANE_RATES[6]) * int(width.value)

    def traffic(self, handle: c_void_p, limit: float | None) -> tuple[float | None, float | None]:
        """Bytes per second received and sent by the card. The driver counts for 20 ms per call."""
        return self._throughput(handle, _RECEIVED, limit), self._throughput(handle, _SENT, limit)

    def _throughput(self, handle: c_void_p, counter: int, limit: float | None) -> float | None:
        """Counters that wrap or fail read as nonsense: more than twice the link's rate is no reading at all."""
        kilobytes = c_uint()
        if self._call("nvmlDeviceGetPcieThroughput", handle, c_int(counter), byref(kilobytes)) != SUCCESS:
            return None
        value = int(kilobytes.value) * 1024.0
        if kilobytes.value == 0xFFFFFFFF or (limit is not None and value > 2 * limit):
            return None
        return value if limit is None else min(value, limit)

    def _check(self, function: str, *arguments: Any) -> None:
        code = self._call(function, *arguments)
        if code != SUCCESS:
            raise NVMLError(code)

    def _call(self, function: str, *arguments: Any) -> int:
        """The function's code; 13 (function not found) where this driver lacks it."""
        try:
            return int(getattr(self._library, function)(*arguments))
        except AttributeError:
            return 13
