"""Handing over by flags: they belong to who watches them, in whatever state a step is left."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from engine.runtime.devices.cuda.copies import HostBuffer
from engine.runtime.devices.cuda.hand_over import MappedFlags
from kernels._cpu import HostCopy, HostSegment


class Pinned:
    """Memory that counts as pinned. What is given back is kept, to see whether anybody still looks at it."""

    def __init__(self, is_pinned: bool = True) -> None:
        self.is_pinned = is_pinned
        self.held: list[HostBuffer] = []
        self.given_back: list[np.ndarray] = []

    def allocate(self, size: int) -> HostBuffer:
        memory = np.zeros(size, np.uint8)
        self.held.append(HostBuffer(memory, memory.ctypes.data if self.is_pinned else 0))
        return self.held[-1]

    def free(self, buffer: HostBuffer) -> None:
        self.held.remove(buffer)
        self.given_back.append(buffer.bytes)


def watched(pinned: Pinned, target: np.ndarray, source: np.ndarray) -> tuple[MappedFlags, HostCopy]:
    """Flags for one task, which is to copy `source`."""
    copy = HostCopy()
    copy.add(target.ctypes.data, source.ctypes.data, source.nbytes)
    card: Any = SimpleNamespace(streams={"host": 0})
    return MappedFlags(card, cast(Any, None), cast(Any, pinned), [cast(HostSegment, copy)]), copy


@pytest.mark.parametrize("begins", [False, True])
def test_nobody_looks_at_flags_that_are_gone(begins: bool) -> None:
    """Also where a step was begun whose flags no card will raise."""
    pinned, target, source = Pinned(), np.zeros(4, np.uint8), np.full(4, 7, np.uint8)
    hand_over, _copy = watched(pinned, target, source)
    assert len(pinned.held) == 1, "they are of its own"
    if begins:
        hand_over.begin()
    hand_over.close()
    assert not pinned.held
    (flags,) = pinned.given_back
    flags.view(np.uint32)[0] = 1
    hand_over.cancel()
    assert flags.view(np.uint32)[0] == 1 and not target.any(), "nobody has seen it"


def test_a_raised_flag_runs_its_task_and_is_answered() -> None:
    pinned, target, source = Pinned(), np.zeros(4, np.uint8), np.full(4, 7, np.uint8)
    hand_over, _copy = watched(pinned, target, source)
    hand_over.begin()
    flags = pinned.held[0].bytes.view(np.uint32)
    flags[0] = 1
    until = time.monotonic() + 30
    while not flags[1] and time.monotonic() < until:
        time.sleep(0.001)
    assert target.tolist() == [7] * 4 and flags[0] == 0
    hand_over.close()


def test_flags_that_cannot_be_pinned_are_told() -> None:
    pinned = Pinned(is_pinned=False)
    hand_over, _copy = watched(pinned, np.zeros(1, np.uint8), np.zeros(1, np.uint8))
    assert not hand_over.is_pinned
    hand_over.close()
    assert not pinned.held
