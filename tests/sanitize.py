"""`python -m tests.sanitize [address] [thread] [TEST…]`: the native tests, or these, on kernels built with sanitizers.

"address" includes undefined behaviour. Each kind gets an environment of its own under build/, which shares this one's
packages but not its installed Tessera, so that the sanitized extension is the one that loads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

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
TESTS = ("tests/kernels", "tests/engine/gguf")
UNTOUCHED = ("test_compile.py", "test_mutations.py")  # they run NVRTC and builds of their own


def main() -> int:
    kinds = [argument for argument in sys.argv[1:] if argument in FLAGS] or list(FLAGS)
    tests = [argument for argument in sys.argv[1:] if argument not in FLAGS]
    return max(_run(kind, tests) for kind in kinds)


def _run(kind: str, chosen: list[str]) -> int:
    python = _environment(kind)
    _build(kind, python)
    preload = " ".join(_library(name) for name in RUNTIMES[kind])
    environment = {**os.environ, **OPTIONS[kind], "LD_PRELOAD": preload, "QT_QPA_PLATFORM": "offscreen"}
    print(f"--- {kind} sanitizer", flush=True)
    # Thread tests alone under "thread": the rest runs in one thread and would only be slow.
    tests = chosen or (TESTS if kind == "address" else ("tests/kernels",))
    skipped = [f"--ignore=tests/kernels/cuda/{name}" for name in UNTOUCHED]
    # The AVX-512 tiers in software are a module of their own, which is not built here.
    command = [str(python), "-m", "pytest", "-q", "-x", "--timeout=1800", "-k", "not emulated", *skipped, *tests]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


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
    if not has_avx512:
        print("This processor lacks AVX-512: its tiers are left out of this build and of the tests.", flush=True)
    settings = [
        f"cmake.define.TESSERA_SANITIZE={FLAGS[kind]}",
        f"cmake.define.TESSERA_AVX512={'ON' if has_avx512 else 'OFF'}",
        f"build-dir=build/sanitize-{kind}/cmake",
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
