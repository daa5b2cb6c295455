"""A file that is cut, replaced or touched while it is mapped is an error; the process lives on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.gguf import FileChangedError, GGUFFile, QuantType
from tests.support.gguf_writer import GGUFBuilder

ROWS = 1 << 14


@pytest.fixture
def model(tmp_path: Path) -> Path:
    ones = np.ones((ROWS, 64), np.float32)  # 4 MiB
    return GGUFBuilder().tensor("a", (ROWS, 64), QuantType.F32, ones).tensor("b", (8,)).write(tmp_path / "m.gguf")


def test_reading_past_the_cut_gives_zeros_and_an_error(model: Path) -> None:
    with GGUFFile.open(model) as file:
        values = np.frombuffer(file.buffer("a"), np.float32)
        file.check_unchanged()
        os.truncate(model, 1 << 20)
        total = float(values.sum())  # would end the process
        assert 0 < total < ROWS * 64
        assert values[-1] == 0
        with pytest.raises(FileChangedError, match=r"m\.gguf was cut from .* to 1048576 bytes") as error:
            file.check_unchanged()
        assert error.value.remedy


def test_restoring_the_size_does_not_hide_that_data_was_lost(model: Path) -> None:
    status = model.stat()
    with GGUFFile.open(model) as file:
        buffer = file.buffer("a")
        os.truncate(model, 4096)
        assert buffer[-1] == 0
        os.truncate(model, status.st_size)
        os.utime(model, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(FileChangedError, match="could not be read"):
            file.check_unchanged()


def test_a_cut_inside_the_last_page_is_noticed(model: Path) -> None:
    with GGUFFile.open(model) as file:
        file.buffer("b")
        os.truncate(model, model.stat().st_size - 40)  # no fault: the page is still there
        with pytest.raises(FileChangedError):
            file.check_unchanged()


def test_writing_over_it_is_noticed(model: Path) -> None:
    with GGUFFile.open(model) as file, model.open("r+b") as writer:
        file.buffer("a")
        writer.seek(-64, os.SEEK_END)
        writer.write(b"x")
        writer.flush()
        os.utime(model)
        with pytest.raises(FileChangedError, match="was changed by another program"):
            file.check_unchanged()


def test_deleting_or_replacing_the_name_does_no_harm(model: Path, tmp_path: Path) -> None:
    with GGUFFile.open(model) as file:
        GGUFBuilder().write(tmp_path / "new.gguf").replace(model)
        assert np.frombuffer(file.buffer("a"), np.float32).sum() == ROWS * 64
        file.check_unchanged()


def test_a_cut_before_the_first_read(model: Path) -> None:
    with GGUFFile.open(model) as file:
        os.truncate(model, 100)
        with pytest.raises(FileChangedError):
            file.buffer("a")


CHILD = """
import faulthandler, mmap, os, sys
{first}
from engine.gguf import GGUFFile
file = GGUFFile.open(sys.argv[1])
buffer = file.buffer("a")
{second}
other = os.open(sys.argv[1] + ".other", os.O_RDWR | os.O_CREAT)
os.truncate(other, 8192)
unguarded = mmap.mmap(other, 8192)
os.truncate(sys.argv[1], 0)
print(buffer[-1], flush=True)
os.truncate(other, 0)
unguarded[5000]
"""


@pytest.mark.parametrize("crash_reporter", [True, False])
def test_other_bus_errors_still_end_the_process(model: Path, crash_reporter: bool) -> None:
    script = CHILD.format(first="faulthandler.enable()" if crash_reporter else "", second="")
    done = subprocess.run([sys.executable, "-c", script, model], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0\n"  # ours was handled
    assert done.returncode == -7  # SIGBUS
    assert ("Bus error" in done.stderr) == crash_reporter
