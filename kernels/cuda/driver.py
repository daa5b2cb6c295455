"""The kernels on an NVIDIA GPU: compiled by NVRTC when first needed, loaded and launched through the driver API.

A context must be current in the calling thread: torch's, or one of `retain_primary_context`. Launches go to the stream
that is passed, so they land in a CUDA graph that is being captured there.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from kernels.cuda import nvrtc, source
from kernels.cuda.kernel_set import ContextLostError, Dim, LaunchError, OutOfDeviceMemoryError

_OUT_OF_MEMORY = 2
# A context is lost after these: deinitialized, unavailable, uncorrectable memory, an illegal address, a timeout,
# destroyed, and what else a kernel can do wrong (cuda.h, CUresult). What it held is gone with it, so giving that back
# is no failure of its own.
_LOST = {4, 46, 214, *range(700, 703), 709, *range(714, 720), 999}
_GIVES_BACK = {
    "cuMemFree_v2", "cuMemFreeHost", "cuMemUnmap", "cuMemRelease", "cuMemAddressFree", "cuEventDestroy_v2",
    "cuGraphExecDestroy", "cuGraphDestroy", "cuStreamDestroy_v2", "cuModuleUnload", "cuDevicePrimaryCtxRelease_v2",
}  # fmt: skip
_LARGE_SHARED = 48 << 10  # more needs to be asked for, once per kernel
_MAX_DYNAMIC_SHARED, _CAPABILITY_MAJOR, _CAPABILITY_MINOR = 8, 75, 76  # attributes of functions and of devices


class Driver:
    """libcuda by ctypes; `library` names another implementation of it."""

    def __init__(self, library: Path | None = None) -> None:
        name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        try:
            self.library = ctypes.CDLL(str(library or name))
        except OSError as error:
            raise LaunchError(f"no NVIDIA driver: {error}") from error
        self.library.cuLaunchKernel.argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p] * 3
        self._entered = threading.local()
        self.check(self.library.cuInit(0))

    def check(self, code: int, what: str = "CUDA") -> None:
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(code, ctypes.byref(text))
            lost = ContextLostError if code in _LOST else LaunchError
            error = OutOfDeviceMemoryError if code == _OUT_OF_MEMORY else lost
            raise error(f"{what}: {(text.value or b'unknown error').decode()} ({code})")

    def call(self, function: str, *args: object) -> None:
        """A function of the driver's, checked. Integers are passed 64 bits wide: addresses, sizes and handles are."""
        wide = [ctypes.c_uint64(arg) if arg.__class__ is int else arg for arg in args]
        code = getattr(self.library, function)(*wide)
        if code and not (code in _LOST and function in _GIVES_BACK):
            self.check(code, function)

    def make(self, function: str, *args: object) -> int:
        """What such a function writes through its first parameter: an address or a handle."""
        out = ctypes.c_uint64()
        self.call(function, ctypes.byref(out), *args)
        return out.value

    def enter(self, context: int, generation: int = 0) -> None:
        """Makes a context current in this thread, unless it is. `generation`: another one at the same address."""
        if getattr(self._entered, "context", None) != (context, generation):
            code = self.library.cuCtxSetCurrent(ctypes.c_uint64(context))
            if code in _LOST:  # so will be what comes next
                return
            self.check(code, "cuCtxSetCurrent")
            self._entered.context = context, generation

    def leave(self) -> None:
        """To be called where another context was made current meanwhile: `enter` cannot know."""
        self._entered.context = None

    def retain_primary_context(self, device: int = 0) -> int:
        """Makes the device's primary context, the one torch uses, current in this thread."""
        context = self.make("cuDevicePrimaryCtxRetain", device)
        self.enter(context)
        return context

    def attribute(self, number: int, device: int = 0) -> int:
        """A CUdevice_attribute."""
        value = ctypes.c_int()
        self.check(self.library.cuDeviceGetAttribute(ctypes.byref(value), number, device))
        return value.value

    def capability(self, device: int = 0) -> int:
        """10 * major + minor."""
        return 10 * self.attribute(_CAPABILITY_MAJOR, device) + self.attribute(_CAPABILITY_MINOR, device)

    def name(self, device: int = 0) -> str:
        text = ctypes.create_string_buffer(128)
        self.check(self.library.cuDeviceGetName(text, 128, device))
        return text.value.decode(errors="replace")

    def version(self) -> int:
        """The newest CUDA that the driver knows: 1000 * major + 10 * minor."""
        version = ctypes.c_int()
        self.check(self.library.cuDriverGetVersion(ctypes.byref(version)))
        return version.value

    def total_memory(self, device: int = 0) -> int:
        size = ctypes.c_size_t()
        self.check(self.library.cuDeviceTotalMem_v2(ctypes.byref(size), device))
        return size.value

    def device_count(self) -> int:
        count = ctypes.c_int()
        self.check(self.library.cuDeviceGetCount(ctypes.byref(count)))
        return count.value

    def memory(self) -> tuple[int, int]:
        """Free and total bytes of the device whose context is current."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.check(self.library.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
        return free.value, total.value


class DriverKernels:
    """A KernelSet for one device. Compiled units are kept in the folder `cache`."""

    def __init__(self, driver: Driver, cache: Path, device: int = 0) -> None:
        self._driver = driver
        self._cache = cache
        self._target = nvrtc.target(driver.capability(device))
        self._functions: dict[str, tuple[ctypes.c_void_p, source.Signature]] = {}
        self._modules: dict[str, ctypes.c_void_p] = {}
        self._large: set[str] = set()

    def launch(
        self, name: str, grid: Dim, block: Dim, args: Sequence[source.Argument], shared: int = 0, stream: int = 0
    ) -> None:
        function, signature = self._functions.get(name) or self._load(name)
        if shared > _LARGE_SHARED and name not in self._large:
            code = self._driver.library.cuFuncSetAttribute(function, _MAX_DYNAMIC_SHARED, shared)
            self._driver.check(code, f"{name} with {shared} bytes of shared memory")
            self._large.add(name)
        packed, alive = signature.pack(args)
        code = self._driver.library.cuLaunchKernel(function, *grid, *block, shared, stream, packed, None)
        del alive
        if code:
            self._driver.check(code, name)

    def load(self, names: Sequence[str]) -> None:
        """Compiles and loads what these kernels need, ahead of their first launch (loading breaks a capture)."""
        for name in names:
            self._functions.get(name) or self._load(name)

    def unload(self) -> None:
        """Gives the compiled units' memory back; they load again when they are needed."""
        for module in self._modules.values():
            self._driver.call("cuModuleUnload", module)
        self._functions, self._modules, self._large = {}, {}, set()

    def _load(self, name: str) -> tuple[ctypes.c_void_p, source.Signature]:
        signature, function = source.signatures()[name], ctypes.c_void_p()
        module = self._module(signature.unit)
        code = self._driver.library.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        self._driver.check(code, name)
        self._functions[name] = function, signature
        return self._functions[name]

    def _module(self, unit: source.Unit) -> ctypes.c_void_p:
        if unit.name not in self._modules:
            image, module = nvrtc.load_or_compile(unit, self._target, self._cache), ctypes.c_void_p()
            self._driver.check(self._driver.library.cuModuleLoadData(ctypes.byref(module), image), unit.name)
            self._modules[unit.name] = module
        return self._modules[unit.name]


@functools.cache
def driver() -> Driver:
    """The system's driver. Raises LaunchError where there is none."""
    return Driver()
