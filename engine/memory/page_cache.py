"""Which pages of a mapping are in RAM, as the system's page cache has them."""

from __future__ import annotations

import ctypes
import mmap
import sys
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt


@cache
def _mincore() -> Any:
    """mincore(2) of the C library; None where there is none (Windows)."""
    if sys.platform == "win32":
        return None
    try:
        function = ctypes.CDLL(None).mincore
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    return function


def pages_in_ram(buffer: memoryview) -> npt.NDArray[np.bool_] | None:
    """For each page that a mapped buffer touches, whether it is in RAM; None where the system does not tell.

    Reads no page. Takes about 10 ns per page.
    """
    function = _mincore()
    if function is None or not len(buffer):
        return None
    begin = np.frombuffer(buffer, np.uint8).ctypes.data
    first = begin // mmap.PAGESIZE * mmap.PAGESIZE
    size = begin + len(buffer) - first
    found = np.empty(-(-size // mmap.PAGESIZE), np.uint8)
    if function(first, size, found.ctypes.data):
        return None
    return (found & 1).astype(bool)
