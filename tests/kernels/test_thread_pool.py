"""The thread pool: one caller at a time, parking, fork, shutdown."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from kernels import _cpu
from tests.support import program_reference as ref


def program(operations: int = 40, width: int = 64) -> _cpu.Program:
    p = _cpu.Program()
    x, y = p.value(width), p.value(width)
    for _ in range(operations):
        p.add(x, x, y)
    p.finish()
    return p


def run(p: _cpu.Program, pool: _cpu.ThreadPool, tokens: int = 1) -> None:
    p.run(pool, ref.batch(range(tokens), tables=[[0]]))


@pytest.mark.parametrize("threads", [0, -1, 1025])
def test_number_of_threads_is_checked(threads: int) -> None:
    with pytest.raises(ValueError, match=r"threads must be 1\.\.1024"):
        _cpu.ThreadPool(threads)


@pytest.mark.parametrize("spin", [-1, 1_000_001])
def test_spin_time_is_checked(spin: int) -> None:
    with pytest.raises(ValueError, match="spin_microseconds"):
        _cpu.ThreadPool(1, spin)


def test_many_pools_start_and_stop() -> None:
    p = program(3)
    for i in range(60):
        pool = _cpu.ThreadPool(1 + i % 5, spin_microseconds=0)
        if i % 2:
            run(p, pool)


@pytest.mark.parametrize("spin", [0, 50])
def test_parked_threads_wake_up(spin: int) -> None:
    p, pool = program(), _cpu.ThreadPool(4, spin)
    for _ in range(20):
        run(p, pool, 8)
        time.sleep(0.002)


def test_an_idle_pool_takes_no_processor_time() -> None:
    p, pool = program(), _cpu.ThreadPool(3)
    run(p, pool)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.15


def test_pinning_leaves_the_caller_as_it_was() -> None:
    before = os.sched_getaffinity(0)
    pool = _cpu.ThreadPool(2, pin=True)
    run(program(), pool)
    assert os.sched_getaffinity(0) == before


def test_one_caller_at_a_time() -> None:
    """Two programs on one pool from two threads: every run either completes or is refused with the reason."""
    pool, outcomes = _cpu.ThreadPool(2), []

    def work() -> None:
        p = program(200, 512)
        for _ in range(60):
            try:
                run(p, pool, 16)
                outcomes.append("done")
            except RuntimeError as error:
                outcomes.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {"done", "this thread pool already runs something; it serves one caller at a time"}
    assert "done" in outcomes


FORKED = """
import os, sys
import numpy as np
from kernels import _cpu
from tests.support import program_reference as ref
from tests.kernels.test_thread_pool import program, run
p, pool = program(), _cpu.ThreadPool(2)
run(p, pool)
child = os.fork()
if child == 0:
    try:
        run(p, pool)
    except RuntimeError as error:
        run(p, _cpu.ThreadPool(2))
        del pool
        os._exit(0 if "before a fork" in str(error) else 1)
    os._exit(2)
run(p, pool)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(
    "libtsan" in os.environ.get("LD_PRELOAD", ""), reason="ThreadSanitizer ends a forked child that starts threads"
)
def test_a_forked_child_is_told() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=True, timeout=60)


def test_more_threads_than_work() -> None:
    p = _cpu.Program()
    x = p.value(3)
    p.scale(x, 2.0)
    p.finish()
    p.write(x, np.ones((1, 3), np.float32))
    run(p, _cpu.ThreadPool(8))
    assert p.read(x).tolist() == [[2, 2, 2]]
