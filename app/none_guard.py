"""Keeps `None` alive under Python 3.11.

Since Python 3.12 `None`, `True` and `False` are immortal, and PySide6 6.12 returns them without counting the
reference. Under 3.11 every such call takes one away that was never given, until the interpreter aborts
("deallocating None"). A count that no process can use up makes them immortal there too.
"""

from __future__ import annotations

import ctypes
import sys

ENDLESS = 1 << 60


def hold_singletons() -> None:
    """Call once, before Qt is used. Does nothing where Python has immortal objects, or when called again."""
    if sys.version_info >= (3, 12) or sys.getrefcount(None) > ENDLESS // 2:
        return
    for singleton in (None, True, False, NotImplemented, Ellipsis):
        # The reference count is the first word of every object in CPython up to 3.11.
        ctypes.c_ssize_t.from_address(id(singleton)).value += ENDLESS
