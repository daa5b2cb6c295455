"""Builds the CUDA kernels for the host apart from the package: changed sources, or with sanitizers.

The package's own build of them is kernels/host/units.cmake; the flags that matter are the same.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernels.cuda import source

HOST = source.FOLDER.parent / "host"
COMPILER = ("c++", "-std=c++20", "-fPIC", "-g", "-fno-strict-aliasing", "-fvisibility=hidden")
# Flags of the kernels, and what tells the scheduler, which is never instrumented itself, of the sanitizer.
SANITIZERS = {
    "": ((), ()),
    "address": (
        ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fsanitize-sections=shared_*"),
        ("-DTESSERA_ASAN",),
    ),
    "thread": (("-fsanitize=thread",), ("-DTESSERA_TSAN",)),
}


def build_library(
    folder: Path, units: Sequence[str], cuda: Path = source.FOLDER, host: Path = HOST, sanitizer: str = ""
) -> Path:
    """A library with these units, from the sources in `cuda` and `host`. Raises CalledProcessError."""
    flags, announced = SANITIZERS[sanitizer]
    includes = [f"-I{cuda}", f"-I{host}"]
    jobs = [
        [*COMPILER, "-O2", *announced, *includes, "-c", str(host / f"{name}.cpp"), "-o", str(folder / f"{name}.o")]
        for name in ("fibers", "collectives")
    ]
    for name in units:
        unit = source.units()[name]
        defines = [f"-DTESSERA_UNIT={name}", *([f"-DTYPE={unit.type}"] if unit.type else [])]
        files = ["-c", str(cuda / unit.file), "-o", str(folder / f"{name}.o")]
        jobs.append([*COMPILER, "-O1", *flags, *defines, *includes, "-x", "c++", *files])
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(_run, jobs))
    library = folder / "kernels.so"
    _run([*COMPILER, *flags, "-shared", *(job[-1] for job in jobs), "-o", str(library), "-pthread"])
    return library


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
