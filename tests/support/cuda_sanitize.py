"""Runs the CUDA kernels' tests with sanitizers: python -m tests.support.cuda_sanitize address thread

"address" is AddressSanitizer and UndefinedBehaviorSanitizer (out-of-bounds and misaligned accesses, of global and of
shared memory), "thread" is ThreadSanitizer (races between the threads of a block: fibers that only barriers order).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from kernels.cuda import source
from tests.support.cuda_build import SANITIZERS, build_library

RUNTIMES = {"address": ("libasan.so", "libubsan.so"), "thread": ("libtsan.so",)}
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1", "TSAN_OPTIONS": "halt_on_error=1:report_bugs=1"}
TESTS = ("test_rows.py", "test_matrices.py", "test_experts.py", "test_attention.py")


def preload(sanitizer: str) -> str:
    """The runtimes must come before Python's own libraries."""
    found = []
    for name in RUNTIMES[sanitizer]:
        command = ["c++", f"-print-file-name={name}"]
        found.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    return " ".join(found)


def run(
    sanitizer: str, library: Path, selection: list[str], files: tuple[str, ...] = TESTS
) -> subprocess.CompletedProcess[str]:
    folder = Path(__file__).parents[1] / "kernels" / "cuda"
    tests = [str(folder / name) for name in files]
    # -s: the report of a dying process must not go into pytest's capture.
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-x", f"--cuda-library={library}", *selection, *tests]
    # One thread in BLAS, which is not instrumented: its memory would look as if threads raced for it.
    environment = {**os.environ, **OPTIONS, "OPENBLAS_NUM_THREADS": "1", "LD_PRELOAD": preload(sanitizer)}
    return subprocess.run(command, env=environment, text=True, check=False, capture_output=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sanitizers", nargs="+", choices=sorted(set(SANITIZERS) - {""}))
    parser.add_argument("-k", dest="selection", help="pytest's -k: which tests")
    options = parser.parse_args()
    failures = 0
    for sanitizer in options.sanitizers:
        with tempfile.TemporaryDirectory() as folder:
            library = build_library(Path(folder), list(source.units()), sanitizer=sanitizer)
            result = run(sanitizer, library, ["-k", options.selection] if options.selection else [])
        lines = result.stdout.splitlines()
        print(f"{sanitizer}:", *lines[-1 if result.returncode == 0 else -60 :], sep="\n")
        if result.returncode:
            print(result.stderr[-8000:])
            failures += 1
    return failures


if __name__ == "__main__":
    sys.exit(main())
