"""What was freed goes back to the system."""

from __future__ import annotations

import ctypes
import sys

import psutil
import pytest

from engine.memory.heap import release_freed_memory


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc keeps freed memory")
def test_freed_memory_goes_back() -> None:
    lib = ctypes.CDLL(None)
    lib.malloc.restype, lib.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    blocks = [lib.malloc(64 << 10) for _ in range(512)]  # below the size that gets a mapping of its own
    for block in blocks:
        ctypes.memset(block, 1, 64 << 10)
    for block in blocks[:-1]:  # the last one keeps the heap from shrinking by itself
        lib.free(block)
    before = psutil.Process().memory_info().rss
    release_freed_memory()
    assert before - psutil.Process().memory_info().rss > 16 << 20
    lib.free(blocks[-1])
