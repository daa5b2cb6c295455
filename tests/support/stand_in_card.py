"""A card for tests: the cuda device over the stand-in driver (kernels/host/stand_in_driver.cpp)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.runtime.devices.cuda.device import CudaDevice
from engine.runtime.devices.cuda.find import find_card
from kernels.cuda import nvrtc
from kernels.cuda.driver import Driver
from kernels.cuda.host import library_path

PLENTY = 1 << 30
CONTEXT_BYTES = 96 << 20
_baseline = 0  # that other tests of this process have left


@functools.cache
def stand_in() -> Driver:
    return Driver(library_path())


def set_card(total: int = 8 << 30, context_bytes: int = CONTEXT_BYTES, pinned: int = PLENTY) -> None:
    sizes = (ctypes.c_size_t(size) for size in (total, context_bytes, pinned))
    stand_in().library.stand_in_set_memory(*sizes)
    global _baseline
    _baseline = _used()


def fail_allocation(number: int) -> None:
    """The allocation of that number from now on fails, once; 0: none."""
    stand_in().library.stand_in_fail_allocation(ctypes.c_size_t(number))


def set_graph_order(order: int) -> None:
    """0: of a graph's nodes that may run next, the last captured; else any, seeded so."""
    stand_in().library.stand_in_set_graph_order(ctypes.c_uint(order))


def charged() -> int:
    """Bytes that the driver counts as in use since `set_card`."""
    return _used() - _baseline


def _used() -> int:
    used = stand_in().library.stand_in_used
    used.restype = ctypes.c_size_t
    return int(used())


def calls(function: str) -> int:
    """How often it was called."""
    count = stand_in().library.stand_in_calls
    count.restype = ctypes.c_uint64
    return int(count(function.encode()))


def open_card(cache: Path, limit: int = PLENTY) -> CudaDevice:
    facts = find_card(library_path()).facts
    assert facts is not None
    return CudaDevice(stand_in(), cache, facts, limit)


@contextmanager
def no_compiler() -> Iterator[None]:
    """The stand-in reads no images, so none are made."""
    known = nvrtc.load_or_compile
    nvrtc.load_or_compile = lambda *_: b"image"  # type: ignore[assignment]
    try:
        yield
    finally:
        nvrtc.load_or_compile = known
