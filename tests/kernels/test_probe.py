"""The bandwidth probe answers for any thread count and refuses nonsense."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from kernels import _cpu


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bandwidth_is_a_positive_rate(threads: int) -> None:
    assert _cpu.read_bandwidth(threads, bytes=1 << 20, repeats=1) > 0
    reader = _cpu.MemoryReader(_cpu.ThreadPool(threads), np.ones(1 << 20, np.uint8))
    assert min(reader.read() for _ in range(3)) > 0


def test_others_go_on_while_a_reader_chooses_its_way() -> None:
    pool, memory, gate, reached = _cpu.ThreadPool(1), np.ones(1 << 20, np.uint8), threading.Lock(), threading.Event()

    def other() -> None:
        with gate:
            reached.set()

    usual = sys.getswitchinterval()
    gate.acquire()
    thread = threading.Thread(target=other)
    thread.start()
    sys.setswitchinterval(1000.0)  # seconds: nobody is interrupted between two lines
    try:
        gate.release()
        for _ in range(20_000):  # until the system lets the other one run
            if reached.is_set():
                break
            _cpu.MemoryReader(pool, memory)
        assert reached.is_set()
    finally:
        sys.setswitchinterval(usual)
        thread.join()


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"threads": 1, "repeats": 0}, {"threads": 1, "bytes": 10}])
def test_nonsense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        _cpu.read_bandwidth(**wrong)


@pytest.mark.parametrize("size", [(1 << 20) - 1, 0])
def test_a_reader_refuses_nonsense_too(size: int) -> None:
    with pytest.raises(ValueError):
        _cpu.MemoryReader(_cpu.ThreadPool(1), np.ones(size, np.uint8))


@pytest.mark.parametrize(
    "memory", [np.ones(1 << 20, np.float32), np.ones(1 << 21, np.uint8)[::2]], ids=["values", "stride"]
)
def test_a_reader_takes_no_copies_that_would_be_gone(memory: np.ndarray) -> None:
    with pytest.raises(TypeError):
        _cpu.MemoryReader(_cpu.ThreadPool(1), memory)
