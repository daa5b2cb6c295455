"""A second start finds the first one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from app.environment import DataFolder
from app.single_instance import SingleInstance


def test_the_second_start_calls_the_first(qapp, qtbot, tmp_path):
    folder = DataFolder(tmp_path)
    first, second = SingleInstance(folder), SingleInstance(folder)
    assert first.acquire()
    calls = []
    first.listen(lambda *call: calls.append(call))
    assert not second.acquire()
    assert second.call_the_first()
    qtbot.waitUntil(lambda: calls == [("", "")])
    assert second.call_the_first(tmp_path / "model.gguf")
    qtbot.waitUntil(lambda: calls[1:] == [(str(tmp_path / "model.gguf"), "")])
    first.release()
    assert second.acquire()
    second.release()


def test_another_data_folder_is_another_application(qapp, tmp_path):
    first, second = SingleInstance(DataFolder(tmp_path / "a")), SingleInstance(DataFolder(tmp_path / "b"))
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    assert first.acquire()
    assert second.acquire()
    first.release()
    second.release()


def test_a_folder_that_cannot_hold_a_lock_is_not_taken_for_a_running_window(qapp, tmp_path):
    instance = SingleInstance(DataFolder(tmp_path / "missing"))
    assert instance.acquire()
    instance.release()


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl+C of a POSIX terminal")
def test_ctrl_c_in_the_terminal_ends_the_window(tmp_path):
    command = [sys.executable, "-m", "app", "--data-dir", str(tmp_path)]
    process = subprocess.Popen(command, env=os.environ | {"QT_QPA_PLATFORM": "offscreen"})
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "conversations.db").exists() and time.monotonic() < deadline:  # made once it is painted
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT
    finally:
        process.kill()
        process.wait()
