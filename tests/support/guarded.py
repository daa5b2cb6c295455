"""Memory beside pages nobody may touch: a read past its ends kills the process instead of passing unseen."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray


@contextmanager
def guarded(data: NDArray[np.uint8], *, at_begin: bool = False) -> Iterator[NDArray[np.uint8]]:
    """A copy of `data` whose last byte is the last one before an inaccessible page; or whose first is the first one
    behind such a page."""
    page = mmap.PAGESIZE
    body = -(-data.size // page) * page
    memory = mmap.mmap(-1, body + page)
    anchor = ctypes.c_char.from_buffer(memory)
    libc = ctypes.CDLL(None, use_errno=True)
    fence = ctypes.c_void_p(ctypes.addressof(anchor) + (0 if at_begin else body))
    if libc.mprotect(fence, ctypes.c_size_t(page), 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    copy = np.frombuffer(memory, np.uint8, data.size, page if at_begin else body - data.size)
    copy[:] = data.reshape(-1)
    try:
        yield copy
    finally:
        libc.mprotect(fence, ctypes.c_size_t(page), mmap.PROT_READ | mmap.PROT_WRITE)
        del copy, anchor
