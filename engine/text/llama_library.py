"""llama.cpp's C library (through llama-cpp-python's ctypes declarations), loaded once, its log sent to `logging`.

Only the C declarations are imported; the package's own Python layer (`llama_cpp.Llama`, its chat formats and
caches) is never executed, which makes the first import several times faster.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import importlib.util
import logging
import os
import sys
import threading
import types
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernels import _cpu

log = logging.getLogger("llama.cpp")

# ggml_log_level in ggml.h; 5 continues the line before. Its "info" is a hundred lines per file: debugging, to us.
_LEVELS = {1: logging.DEBUG, 2: logging.DEBUG, 3: logging.INFO, 4: logging.WARNING}
_CONTINUED = 5


@functools.cache
def llama() -> Any:
    """The ctypes module `llama_cpp.llama_cpp`, with the library initialised and its log routed."""
    module = _import_declarations()
    _route_log(module)
    _load_backends(module)
    module.llama_backend_init()
    return module


def address_of(function: Any) -> int:
    """Where one of the library's functions begins, for native code that calls it itself."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@functools.cache
def library_version() -> str:
    """llama-cpp-python's version, without loading the library."""
    # importlib.metadata would tell it too, and take 40 ms of the time until a first token for its import. The package's
    # own source is not there in the bundle; the folder that names the version lies beside it everywhere.
    spec = importlib.util.find_spec("llama_cpp")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for found in Path(folder).parent.glob("llama_cpp_python-*.dist-info"):
            return found.name.removeprefix("llama_cpp_python-").removesuffix(".dist-info")
    return "unknown"


class _GgufParameters(ctypes.Structure):
    """gguf_init_params in gguf.h"""

    _fields_ = (("no_alloc", ctypes.c_bool), ("tensors", ctypes.c_void_p))


@functools.cache
def gguf_functions() -> Any:
    """ggml's functions that read metadata, with their `Parameters`; None where they cannot read it from memory.

    llama-cpp-python declares only llama.cpp's own.
    """
    module = llama()
    try:
        library = ctypes.CDLL(str(_folder(module) / "ggml-base.dll")) if sys.platform == "win32" else module._lib
    except OSError:  # it has another name there
        return None
    if not (hasattr(library, "gguf_init_from_buffer") and hasattr(module, "llama_model_init_from_user")):
        return None
    read, free = library.gguf_init_from_buffer, library.gguf_free
    read.restype, read.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, _GgufParameters]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    return types.SimpleNamespace(gguf_init_from_buffer=read, gguf_free=free, Parameters=_GgufParameters)


def _import_declarations() -> types.ModuleType:
    """`llama_cpp.llama_cpp` without running `llama_cpp/__init__.py`."""
    name = "llama_cpp"
    if name in sys.modules:
        return importlib.import_module("llama_cpp.llama_cpp")
    spec = importlib.util.find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError("llama-cpp-python is not installed")
    package = types.ModuleType(name)
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    sys.modules[name] = package
    try:
        return importlib.import_module("llama_cpp.llama_cpp")
    finally:
        # A later `import llama_cpp` by someone else finds the real package, with this submodule already loaded.
        del sys.modules[name]


def _load_backends(module: Any) -> None:
    """Where the processor's backend is a library of its own, as in the bundle, llama.cpp must be told where it lies.

    One that this processor cannot run is left alone: vocabularies need none, only models do.
    """
    if _backends(module).ggml_backend_reg_count() == 0:
        _backends(module).ggml_backend_load_all_from_path(os.fsencode(_folder(module)))


def can_run_models() -> bool:
    """Whether llama.cpp has kernels that this processor can run; the bundle's need AVX2."""
    return bool(_backends(llama()).ggml_backend_reg_count())


def _backends(module: Any) -> Any:
    """The library with the register of backends."""
    # The same handle as llama.cpp's own: a second copy of the library would have a register of its own.
    library = ctypes.CDLL(str(_folder(module) / "ggml.dll")) if sys.platform == "win32" else module._lib
    library.ggml_backend_reg_count.restype = ctypes.c_size_t
    return library


def _folder(module: Any) -> Path:
    """Where the libraries are."""
    return Path(module.__file__).parent / "lib"


class _LogRouter:
    """Joins the pieces that llama.cpp logs into lines; keeps recent errors for whoever reports a failure."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = ""
        self._level = logging.DEBUG
        self.errors: deque[str] = deque(maxlen=8)

    def receive(self, level: int, text: bytes, _user_data: object) -> None:
        with self._lock:
            if level != _CONTINUED:
                self._level = _LEVELS.get(level, logging.DEBUG)
            self._text += text.decode("utf-8", "replace")
            *lines, self._text = self._text.split("\n")
            lines = [line.strip() for line in lines if line.strip()]
            if self._level >= logging.WARNING:
                self.errors.extend(lines)
        for line in lines:
            log.log(self._level, "%s", line)


_router = _LogRouter()


@functools.cache
def _log_callback(module: Any) -> Any:
    """The C callback; the cache keeps it alive as long as the library may call it."""
    return module.llama_log_callback(_router.receive)


def _route_log(module: Any) -> None:
    module.llama_log_set(_log_callback(module), ctypes.c_void_p(0))


_silence_lock = threading.Lock()
_silent = 0  # how many loads want it; two may be under way at once


def silence_log() -> None:
    """Until as many calls of `restore_log`, llama.cpp logs nothing.

    A line that goes to `logging` waits for the interpreter's lock, and a load beside other work has a hundred lines.
    """
    global _silent
    module = llama()
    with _silence_lock:
        _silent += 1
        module.llama_log_set(module.llama_log_callback(_cpu.IGNORE_LOG), ctypes.c_void_p(0))


def restore_log() -> None:
    global _silent
    with _silence_lock:
        _silent -= 1
        if _silent == 0:
            _route_log(llama())


@contextlib.contextmanager
def collected_errors() -> Iterator[deque[str]]:
    """Within the block, error lines that llama.cpp logs gather in the value (at most the last eight)."""
    _route_log(llama())  # another user of the library in this process may have taken the log
    _router.errors.clear()
    yield _router.errors
