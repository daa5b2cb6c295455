"""Flags between a card and the host: raised when what was before is done, awaited and taken down."""

from __future__ import annotations

import numpy as np

from tests.support.cuda_machine import Machine


def test_flags_are_raised_and_taken_down(machine: Machine) -> None:
    flags = machine.put(np.array([0, 7, 0], np.uint32))
    machine.operations.raise_flag(flags)
    assert machine.get(flags).tolist() == [1, 7, 0]
    machine.operations.await_flag(flags)
    assert machine.get(flags).tolist() == [0, 7, 0], "it was raised, so it is not waited for"
    machine.operations.raise_flag(flags + 8)
    assert machine.get(flags).tolist() == [0, 7, 1]
