"""The only way off the main thread and back, where garbage is collected, and how long threads wait for Python."""

from __future__ import annotations

import gc
import sys
import threading

import pytest

from app.background import Background, MainThread
from app.garbage import GarbageCollection


@pytest.fixture
def background(qapp):
    main = MainThread()
    yield Background(main)
    main.close()


def test_results_and_errors_come_back_on_the_main_thread(background, qtbot):
    seen = []

    def work():
        seen.append(("work", threading.current_thread() is threading.main_thread()))
        return 7

    background.run_in_background(work, lambda value: seen.append((value, threading.current_thread().name)))
    qtbot.waitUntil(lambda: len(seen) == 2)
    assert seen == [("work", False), (7, "MainThread")]
    background.run_in_background(lambda: 1 / 0, None, lambda error: seen.append(type(error)))
    qtbot.waitUntil(lambda: len(seen) == 3)
    assert seen[2] is ZeroDivisionError


def test_nothing_comes_back_after_the_window_is_gone(qapp, qtbot):
    main = MainThread()
    seen = []
    main.post(lambda: seen.append(1))
    main.close()
    qtbot.wait(30)
    assert seen == []


def test_garbage_is_collected_on_the_main_thread_only(qapp):
    collection = GarbageCollection()
    threads = []

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            threads.append(threading.current_thread().name)

    def litter():
        for _ in range(3000):
            Cycle()

    try:
        thread = threading.Thread(target=litter)
        thread.start()
        thread.join()
        assert threads == []  # Python alone would have collected 3000 objects long ago
        assert collection.collect_if_due() >= 0
        gc.collect()
        assert set(threads) == {"MainThread"}
    finally:
        collection.stop()
    assert gc.isenabled()


def test_threads_do_not_wait_for_each_other_as_long_as_python_would_let_them(start):
    sys.setswitchinterval(0.005)  # Python's own
    start()
    assert sys.getswitchinterval() <= 0.001
