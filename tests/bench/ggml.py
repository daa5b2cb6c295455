"""Products and a layer of experts in ggml, llama.cpp's tensor library, as llama.cpp builds it: for comparison only.

llama-cpp-python declares next to nothing of ggml, so the few functions of ggml.h and ggml-backend.h are declared here.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from engine.benchmark.llama_cpp_contestant import silent_library

_F32, _Q4_K, _I32 = 0, 12, 26  # ggml_type
_WORK_BYTES = 512 << 20
_SUCCESS = 0


class _InitParams(ctypes.Structure):
    _fields_ = (("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


_POINTER, _INT64, _SIZE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t
_DECLARATIONS: dict[str, tuple[Any, list[Any]]] = {
    "ggml_init": (_POINTER, [_InitParams]),
    "ggml_free": (None, [_POINTER]),
    "ggml_new_tensor_2d": (_POINTER, [_POINTER, ctypes.c_int, _INT64, _INT64]),
    "ggml_new_tensor_3d": (_POINTER, [_POINTER, ctypes.c_int, _INT64, _INT64, _INT64]),
    "ggml_get_data": (_POINTER, [_POINTER]),
    "ggml_mul_mat": (_POINTER, [_POINTER] * 3),
    "ggml_mul_mat_id": (_POINTER, [_POINTER] * 4),
    "ggml_swiglu_split": (_POINTER, [_POINTER] * 3),
    "ggml_mul": (_POINTER, [_POINTER] * 3),
    "ggml_add": (_POINTER, [_POINTER] * 3),
    "ggml_view_2d": (_POINTER, [_POINTER, _POINTER, _INT64, _INT64, _SIZE, _SIZE]),
    "ggml_new_graph": (_POINTER, [_POINTER]),
    "ggml_build_forward_expand": (None, [_POINTER, _POINTER]),
    "ggml_backend_alloc_ctx_tensors_from_buft": (_POINTER, [_POINTER, _POINTER]),
    "ggml_backend_buffer_free": (None, [_POINTER]),
    "ggml_backend_tensor_set": (None, [_POINTER, _POINTER, _SIZE, _SIZE]),
    "ggml_backend_cpu_buffer_type": (_POINTER, []),
    "ggml_graph_compute_with_ctx": (ctypes.c_int, [_POINTER, _POINTER, ctypes.c_int]),
    "ggml_cpu_init": (None, []),
    "_Z35ggml_backend_cpu_repack_buffer_typev": (_POINTER, []),  # declared in C++ only
}


def _library() -> Any:
    folder = Path(llama_cpp.__file__).parent / "lib"
    parts = [ctypes.CDLL(str(folder / f"lib{name}.so")) for name in ("ggml-base", "ggml-cpu")]
    functions = SimpleNamespace()
    for name, (result, arguments) in _DECLARATIONS.items():
        function = next(getattr(part, name) for part in parts if hasattr(part, name))
        function.restype, function.argtypes = result, arguments
        setattr(functions, name, function)
    functions.silence = silent_library()
    functions.ggml_cpu_init()
    return functions


class _Weights:
    """Tensors `shapes` (dimensions, fastest first) of one type in a buffer of the processor's backend."""

    def __init__(self, lib: Any, kind: int, shapes: dict[str, tuple[int, ...]], *, repacked: bool) -> None:
        self._lib = lib
        self._context = lib.ggml_init(_InitParams(1 << 20, None, True))
        self._tensors = {}
        for name, shape in shapes.items():
            make = lib.ggml_new_tensor_3d if len(shape) == 3 else lib.ggml_new_tensor_2d
            self._tensors[name] = make(self._context, kind, *shape)
        repack = lib._Z35ggml_backend_cpu_repack_buffer_typev
        where = repack() if repacked else lib.ggml_backend_cpu_buffer_type()
        self._buffer = lib.ggml_backend_alloc_ctx_tensors_from_buft(self._context, where)

    def __getitem__(self, name: str) -> Any:
        return self._tensors[name]

    def set(self, name: str, raw: NDArray[np.uint8]) -> None:
        self._lib.ggml_backend_tensor_set(self._tensors[name], raw.ctypes.data, 0, raw.nbytes)

    def __del__(self) -> None:
        if hasattr(self, "_buffer"):
            self._lib.ggml_backend_buffer_free(self._buffer)
            self._lib.ggml_free(self._context)


class GgmlProduct:
    """A matrix [rows, cols] of raw blocks times tokens, on one thread.

    A type that llama.cpp does not repack on this processor ends the process with `repacked`.
    """

    def __init__(self, kind: int, raw: NDArray[np.uint8], rows: int, cols: int, *, repacked: bool) -> None:
        lib = self._lib = _library()
        self._shape = rows, cols
        self._weights = _Weights(lib, kind, {"weight": (cols, rows)}, repacked=repacked)
        self._weights.set("weight", raw)
        self._memory = np.empty(_WORK_BYTES, np.uint8)

    def __call__(self, x: NDArray[np.float32], repeats: int = 1) -> tuple[NDArray[np.float32], float]:
        """[tokens, rows], and the thread's CPU seconds for each of `repeats` products."""
        lib, (rows, cols) = self._lib, self._shape
        c = lib.ggml_init(_InitParams(self._memory.nbytes, self._memory.ctypes.data, False))
        inputs = lib.ggml_new_tensor_2d(c, _F32, cols, len(x))
        ctypes.memmove(lib.ggml_get_data(inputs), x.ctypes.data, x.nbytes)
        graph = lib.ggml_new_graph(c)
        for _ in range(repeats):
            out = lib.ggml_mul_mat(c, self._weights["weight"], inputs)
            lib.ggml_build_forward_expand(graph, out)
        begin = time.thread_time()
        status = lib.ggml_graph_compute_with_ctx(c, graph, 1)
        seconds = (time.thread_time() - begin) / repeats
        assert status == _SUCCESS, status
        data = ctypes.cast(lib.ggml_get_data(out), ctypes.POINTER(ctypes.c_float))
        result = np.ctypeslib.as_array(data, (len(x), rows)).copy()
        lib.ggml_free(c)
        return result, seconds


class GgmlExperts:
    """Gate, up, SwiGLU, down and the weighted sum, on one thread."""

    def __init__(
        self,
        weights: dict[str, NDArray[np.uint8]],
        width: int,
        hidden: int,
        experts: int,
        used: int,
        *,
        repacked: bool,
    ) -> None:
        lib = self._lib = _library()
        self._width, self._used = width, used
        shapes = {role: ((hidden, width) if role == "down" else (width, hidden)) + (experts,) for role in weights}
        self._weights = _Weights(lib, _Q4_K, shapes, repacked=repacked)
        for role, raw in weights.items():
            self._weights.set(role, raw)
        self._memory = np.empty(_WORK_BYTES, np.uint8)

    def __call__(self, x: NDArray[np.float32], ids: NDArray[np.int32], mix: NDArray[np.float32]) -> NDArray[np.float32]:
        """The graph is built anew for each call; that takes some microseconds."""
        lib, tokens, used, width = self._lib, len(x), self._used, self._width
        c = lib.ggml_init(_InitParams(self._memory.nbytes, self._memory.ctypes.data, False))
        inputs = lib.ggml_new_tensor_3d(c, _F32, width, 1, tokens)
        chosen = lib.ggml_new_tensor_2d(c, _I32, used, tokens)
        factors = lib.ggml_new_tensor_3d(c, _F32, 1, used, tokens)
        for tensor, values in ((inputs, x), (chosen, ids), (factors, mix)):
            ctypes.memmove(lib.ggml_get_data(tensor), values.ctypes.data, values.nbytes)
        gate = lib.ggml_mul_mat_id(c, self._weights["gate"], inputs, chosen)
        up = lib.ggml_mul_mat_id(c, self._weights["up"], inputs, chosen)
        down = lib.ggml_mul_mat_id(c, self._weights["down"], lib.ggml_swiglu_split(c, gate, up), chosen)
        weighted = lib.ggml_mul(c, down, factors)
        row = 4 * width
        parts = [lib.ggml_view_2d(c, weighted, width, tokens, row * used, row * k) for k in range(used)]
        total = parts[0]
        for part in parts[1:]:
            total = lib.ggml_add(c, total, part)
        graph = lib.ggml_new_graph(c)
        lib.ggml_build_forward_expand(graph, total)
        status = lib.ggml_graph_compute_with_ctx(c, graph, 1)
        assert status == _SUCCESS, status
        data = ctypes.cast(lib.ggml_get_data(total), ctypes.POINTER(ctypes.c_float))
        result = np.ctypeslib.as_array(data, (tokens, width)).copy()
        lib.ggml_free(c)
        return result
