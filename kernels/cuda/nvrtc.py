"""Compiles units to machine code with NVRTC, by ctypes. Needs neither a GPU nor a driver nor CUDA's headers.

NVRTC is the one that torch's CUDA build depends on (nvidia-cuda-nvrtc); the tests pin the same package.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kernels.cuda import source

OPTIONS = ("-std=c++20", "-default-device")


class NvrtcError(RuntimeError):
    """NVRTC is missing or refused; the message holds its log."""


class Image(NamedTuple):
    data: bytes  # machine code for sm_NN, PTX text for compute_NN
    log: str  # what the assembler says of registers and spills


_first: list[Path] = []  # folders that are looked into before those of Python packages


def search_first(folder: Path) -> None:
    """Look for NVRTC in `folder` before anywhere else, from now on. A library that is loaded stays."""
    if folder not in _first:
        _first.insert(0, folder)


def find() -> Path | None:
    """The library's file, not loaded; None where there is none."""
    pattern = "nvrtc64_*_0.dll" if sys.platform == "win32" else "libnvrtc.so.*"
    return next((path for folder in _library_folders() for path in sorted(folder.glob(pattern))), None)


@functools.cache
def _library() -> ctypes.CDLL:
    path = find()
    if path is None:
        raise NvrtcError("NVRTC was not found: install GPU support, or the Python package nvidia-cuda-nvrtc")
    builtins = "nvrtc-builtins64_*.dll" if sys.platform == "win32" else "libnvrtc-builtins.so.*"
    for part in path.parent.glob(builtins):
        ctypes.CDLL(str(part))  # the wheel gives NVRTC no path to find it by
    return ctypes.CDLL(str(path))


def _library_folders() -> list[Path]:
    folders = [*_first]
    nvidia = importlib.util.find_spec("nvidia")
    for root in (nvidia.submodule_search_locations or []) if nvidia else []:
        for name in ("cu13", "cuda_nvrtc"):
            folders += [Path(root, name, "lib"), Path(root, name, "bin"), Path(root, name, "bin", "x86_64")]
    torch = importlib.util.find_spec("torch")
    for root in (torch.submodule_search_locations or []) if torch else []:
        folders.append(Path(root, "lib"))
    return [folder for folder in folders if folder.is_dir()]


def _check(code: int, log: str = "") -> None:
    if code:
        library = _library()
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise NvrtcError(f"NVRTC: {library.nvrtcGetErrorString(code).decode()}\n{log}".rstrip())


@functools.cache
def version() -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


@functools.cache
def supported() -> tuple[int, ...]:
    """Compute capabilities (10 * major + minor) that NVRTC makes machine code for, rising."""
    count = ctypes.c_int()
    _check(_library().nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    found = (ctypes.c_int * count.value)()
    _check(_library().nvrtcGetSupportedArchs(found))
    return tuple(sorted(found))


def target(capability: int) -> str:
    """sm_NN for a GPU that NVRTC knows; for a newer one the newest PTX, which its driver finishes."""
    if capability in supported():
        return f"sm_{capability}"
    older = [known for known in supported() if known < capability]
    if not older:
        raise NvrtcError(f"this GPU's compute capability {capability / 10} is older than {supported()[0] / 10}")
    return f"compute_{older[-1]}"


def compile_unit(unit: source.Unit, target: str) -> Image:
    """Machine code for target "sm_NN", PTX for "compute_NN". Raises NvrtcError with the compiler's log."""
    library, program = _library(), ctypes.c_void_p()
    headers = source.headers()
    _check(
        library.nvrtcCreateProgram(
            ctypes.byref(program),
            unit.text.encode(),
            unit.file.encode(),
            len(headers),
            _strings(headers.values()),
            _strings(headers),
        )
    )
    try:
        options = [*OPTIONS, f"--gpu-architecture={target}"]
        if unit.type:
            options.append(f"-DTYPE={unit.type}")
        if target.startswith("sm_"):
            options.append("--ptxas-options=-v")
        code = library.nvrtcCompileProgram(program, len(options), _strings(options))
        log = _get("ProgramLog", program).rstrip(b"\0").decode()
        _check(code, log)
        return Image(_get("CUBIN" if target.startswith("sm_") else "PTX", program), log)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _strings(items: Iterable[str]) -> ctypes.Array[ctypes.c_char_p]:
    encoded = [item.encode() for item in items]
    return (ctypes.c_char_p * len(encoded))(*encoded)


def _get(what: str, program: ctypes.c_void_p) -> bytes:
    library, size = _library(), ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    out = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, out))
    return out.raw


def load_or_compile(unit: source.Unit, target: str, folder: Path) -> bytes:
    """The image of a unit from the cache in `folder`, or compiled and put there. Safe beside other processes."""
    name = f"{unit.name}-{target}-{source.digest(unit, *OPTIONS, str(version()))}"
    path = folder / name
    try:
        return path.read_bytes()
    except FileNotFoundError:
        image = compile_unit(unit, target).data
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{name}.{os.getpid()}"
        part.write_bytes(image)
        part.replace(path)
        return image
