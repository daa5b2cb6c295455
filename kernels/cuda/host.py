"""The kernels on the CPU: the same CUDA source, built with the package, every CUDA thread a fiber (kernels/host).

Exact in what a GPU would do — warp semantics, barriers, rounding to half precision and int8 — and slow: for kernel
tests and tiny models.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

from kernels.cuda import source
from kernels.cuda.kernel_set import Dim, LaunchError

ASCENDING, DESCENDING = 0, 1  # thread orders; any other number is the seed of a pseudo-random one

_Entry = Callable[..., bytes | None]


def library_path() -> Path:
    """The library that was built with the package."""
    spec = importlib.util.find_spec("kernels._cuda_host")
    if spec is None or spec.origin is None:
        raise LaunchError("kernels._cuda_host is missing: the package was built without the host's CUDA kernels")
    return Path(spec.origin)


class HostKernels:
    """A KernelSet. `order` sets in which order the threads and blocks of a launch run."""

    def __init__(self, library: Path | None = None, order: int = ASCENDING) -> None:
        self._library = ctypes.CDLL(str(library or library_path()))
        self._entries: dict[str, tuple[_Entry, source.Signature]] = {}
        self.order = order

    def launch(
        self, name: str, grid: Dim, block: Dim, args: Sequence[source.Argument], shared: int = 0, stream: int = 0
    ) -> None:
        entry, signature = self._entries.get(name) or self._find(name)
        packed, alive = signature.pack(args)
        error = entry(*grid, *block, shared, self.order, packed)
        del alive
        if error:
            raise LaunchError(error.decode())

    def _find(self, name: str) -> tuple[_Entry, source.Signature]:
        signature = source.signatures()[name]
        sizes = getattr(self._library, f"{name}_sizes")
        sizes.restype = ctypes.POINTER(ctypes.c_uint)
        built = sizes()
        expected = [ctypes.sizeof(kind) for kind in signature.types]
        if [built[i] for i in range(len(expected) + 1)] != [*expected, 0]:
            raise LaunchError(f"{name} was built from another version of its source")
        entry = getattr(self._library, f"{name}_host")
        entry.restype = ctypes.c_char_p
        entry.argtypes = [ctypes.c_uint] * 8 + [ctypes.c_void_p]
        self._entries[name] = entry, signature
        return self._entries[name]


@functools.cache
def host_kernels() -> HostKernels:
    """The one set that a process shares: a launch takes the whole emulated device."""
    return HostKernels()
