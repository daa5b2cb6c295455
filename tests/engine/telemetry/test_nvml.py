"""NVML through a shared library that stands in for the driver's: every refusal is a gap, never an error."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.telemetry.nvml import NVML, NVMLError
from engine.telemetry.probe import GPUProbe
from engine.telemetry.snapshot import GPUReading

SOURCE = Path(__file__).parents[2] / "support" / "stand_in_nvml.c"
GiB = 1 << 30
OURS = frozenset((os.getpid(),))


@pytest.fixture
def library(tmp_path: Path) -> Callable[..., str]:
    """Builds a driver whose answers are `definitions`; its file."""

    def build(**definitions: str | int) -> str:
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        assert compiler is not None, "a C compiler is needed, as for the kernels"
        made = tmp_path / f"nvml{len(list(tmp_path.iterdir()))}.so"
        flags = [f"-D{name}={value}" for name, value in definitions.items()]
        subprocess.run([compiler, "-shared", "-fPIC", "-w", *flags, str(SOURCE), "-o", str(made)], check=True)
        return str(made)

    return build


def read(library: str) -> GPUReading:
    probe = GPUProbe((library,))
    (reading,) = probe.read(OURS)
    probe.close()
    return reading


def test_reads_everything_and_knows_which_way_bytes_flow(library):
    assert read(library()) == GPUReading(
        "Stand-in 24GB", 24 * GiB, 5 * GiB, 3 * GiB, 0.42, received=2_000_000 * 1024, sent=30_000 * 1024
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [(4, "refuses access"), (9, "not loaded"), (18, "differ in version"), (999, "error 999")],
)
def test_a_driver_that_refuses_is_a_sentence(library, code, words):
    probe = GPUProbe((library(INIT=code),))
    assert probe.read(OURS) == ()
    assert words in probe.problem


def test_no_driver_at_all(tmp_path):
    probe = GPUProbe((str(tmp_path / "no-such-library.so"),))
    assert probe.read(OURS) == () and probe.problem == "No NVIDIA driver is installed."


def test_a_library_that_is_no_driver(library, tmp_path):
    empty = tmp_path / "empty.c"
    empty.write_text("int nothing;")
    other = tmp_path / "other.so"
    subprocess.run(["cc", "-shared", "-fPIC", str(empty), "-o", str(other)], check=True)
    with pytest.raises(NVMLError):
        NVML.open((str(other),))


@pytest.mark.parametrize(
    ("definition", "missing"), [("MEMORY", ("total", "used")), ("LOAD", ("load",)), ("PROCESSES", ("ours",))]
)
def test_what_one_call_refuses_leaves_the_others(library, definition, missing):
    whole, reading = read(library()), read(library(**{definition: 3}))  # 3: not supported
    for field in ("total", "used", "ours", "load", "received", "sent"):
        assert getattr(reading, field) == (None if field in missing else getattr(whole, field))


def test_a_function_that_an_old_driver_lacks_is_not_missed(library):
    assert read(library(OLD_DRIVER=1)).ours == 3 * GiB


def test_a_card_in_slices_tells_no_load(library):
    reading = read(library(MIG=1))
    assert reading.is_slice and reading.load is None and reading.total == 24 * GiB


def test_memory_that_windows_manages_is_unknown_not_endless(library):
    assert read(library(OURS="0xffffffffffffffffull")).ours is None


def test_a_link_counter_that_ran_over_is_dropped_and_a_high_one_clamped(library):
    assert read(library(RECEIVED_KB="0xffffffffu")).received is None
    assert read(library(RECEIVED_KB="4000000000u")).received is None
    limit = 1.969e9 * 16
    assert read(library(RECEIVED_KB=f"{int(limit * 1.2 / 1024)}u")).received == limit
