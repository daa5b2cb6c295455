"""`python -m tests.sanitize [address] [thread] [TEST…]`: the native tests, or these, on kernels built with sanitizers.

"address" includes undefined behaviour. Each kind gets an environment of its own under build/, which shares this one's
packages but not its installed Tessera, so that the sanitized extension is the one that loads.

Of parametrised tests those cases run in which all pairs of parameter values meet (tests/support/all_pairs.py): all of
the kernels, types, tiers and shapes, each type on each tier, each order of CUDA threads. The starter model reads a few
dozen tokens, as a fault shows at the first token of a shape. One process per group of tests, each with a row in
build/sanitize.md as soon as it has ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

from kernels import _cpu

ROOT = Path(__file__).parents[1]
FLAGS = {"address": "address,undefined", "thread": "thread"}
RUNTIMES = {"address": ("libasan.so", "libubsan.so"), "thread": ("libtsan.so",)}
OPTIONS = {
    # Python itself leaks by design; leak reports would drown ours.
    # Bus errors are our own handler's.
    "address": {
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_sigbus=0",
        "UBSAN_OPTIONS": "halt_on_error=1",
    },
    "thread": {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"},
}
# One thread in BLAS, which is not instrumented: its memory would look as if threads raced for it.
QUIET = {"QT_QPA_PLATFORM": "offscreen", "OPENBLAS_NUM_THREADS": "1"}
STARTER = "tests/oracle/test_starter_model.py"
# Tests of one process. ThreadSanitizer needs half a minute to start one.
GROUPS = {
    "CPU kernels": ("tests/kernels", "--ignore=tests/kernels/cuda", "--ignore=tests/kernels/test_matmul.py"),
    "CUDA kernels on the host": (
        "tests/kernels/cuda",
        # They run NVRTC and builds of their own.
        "--ignore=tests/kernels/cuda/test_compile.py",
        "--ignore=tests/kernels/cuda/test_mutations.py",
    ),
    "GGUF reader": ("tests/engine/gguf",),
    "starter model against llama.cpp": (STARTER,),
    "tiny models against llama.cpp": ("tests/oracle", f"--ignore={STARTER}"),
    "matrix products": ("tests/kernels/test_matmul.py",),
}
ONE_THREAD = ("GGUF reader",)  # nothing to see for ThreadSanitizer
TABLE = ROOT / "build" / "sanitize.md"


def main() -> int:
    kinds = [argument for argument in sys.argv[1:] if argument in FLAGS] or list(FLAGS)
    chosen = tuple(argument for argument in sys.argv[1:] if argument not in FLAGS)
    TABLE.parent.mkdir(exist_ok=True)
    _tell("| sanitizer | tests | passed | failed | skipped | minutes | commit, date |", "w")
    _tell("|---|---|---|---|---|---|---|")
    failures = 0
    for kind in kinds:
        python = _environment(kind)
        _build(kind, python)
        groups = {"chosen": chosen} if chosen else GROUPS
        for name, tests in groups.items():
            if not (kind == "thread" and name in ONE_THREAD):
                failures += _run(kind, python, name, tests) != 0
    print(f"Table: {TABLE}", flush=True)
    return 1 if failures else 0


def _run(kind: str, python: Path, name: str, tests: tuple[str, ...]) -> int:
    preload = " ".join(_library(name) for name in RUNTIMES[kind])
    environment = {**os.environ, **OPTIONS[kind], **QUIET, "LD_PRELOAD": preload}
    print(f"--- {kind} sanitizer: {name}", flush=True)
    report = ROOT / "build" / f"sanitize-{kind}" / "report.xml"
    report.unlink(missing_ok=True)
    # -s: the report of a dying process must not go into pytest's capture.
    command = [str(python), "-m", "pytest", "-v", "-s", "--brief", "--timeout=1800", f"--junitxml={report}", *tests]
    begin = time.monotonic()
    status = subprocess.run(command, cwd=ROOT, env=environment).returncode
    minutes = (time.monotonic() - begin) / 60
    _tell(f"| {kind} | {name} | {_counts(report, status)} | {minutes:.1f} | {_commit()}, {date.today()} |")
    return status


def _counts(report: Path, status: int) -> str:
    """Passed, failed and skipped; pytest writes no report when a sanitizer ends the process."""
    if not report.exists():
        return f"ended with status {status} | | "
    suite = ElementTree.parse(report).getroot().find("testsuite")
    assert suite is not None
    total, failed, broken, skipped = (int(suite.attrib[key]) for key in ("tests", "failures", "errors", "skipped"))
    return f"{total - failed - broken - skipped} | {failed + broken} | {skipped}"


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _tell(line: str, mode: str = "a") -> None:
    print(line, flush=True)
    with TABLE.open(mode, encoding="utf-8") as table:
        table.write(line + "\n")


def _environment(kind: str) -> Path:
    folder = ROOT / "build" / f"sanitize-{kind}"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        # A plain path: the .pth files in there, our own editable install among them, are not followed.
        shared = folder / "lib" / version / "site-packages" / "shared.pth"
        shared.write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python


def _build(kind: str, python: Path) -> None:
    has_avx512 = _cpu.best_tier().startswith("avx512")
    settings = [
        f"cmake.define.TESSERA_SANITIZE={FLAGS[kind]}",
        f"cmake.define.TESSERA_AVX512={'ON' if has_avx512 else 'OFF'}",
        f"cmake.define.TESSERA_EMULATE_AVX512={'OFF' if has_avx512 else 'ON'}",
        f"build-dir=build/sanitize-{kind}/cmake",
        "install.strip=false",  # reports name functions and lines
    ]
    command = [str(python), "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "-e", "."]
    for setting in settings:
        command += ["-C", setting]
    subprocess.run(command, cwd=ROOT, check=True)


def _library(name: str) -> str:
    found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
