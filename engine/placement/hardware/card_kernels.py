"""Kernels for the probe of a card: compiled several at once before anything is measured, and kept for later."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from kernels.cuda import nvrtc, source

Progress = Callable[[float, str], None]

COMPILING_SECONDS = 30.0  # what is not compiled by then, is not measured
FAILURES = (nvrtc.NvrtcError, TimeoutError, OSError)


class CompiledKernels:
    """By unit."""

    def __init__(self, images: Mapping[str, Future[bytes]]) -> None:
        self._images = images

    def wait(self, progress: Progress) -> None:
        """Until all are there, or failed, or the time is up."""
        until = time.monotonic() + COMPILING_SECONDS
        for image in self._images.values():
            if not image.done():
                progress(0.0, "compiling kernels for the card")
                with suppress(*FAILURES):
                    image.result(max(0.0, until - time.monotonic()))

    def has(self, names: Iterable[str]) -> bool:
        """Whether these units are there."""
        return all(self._images[name].done() and self._images[name].exception() is None for name in names)


@contextmanager
def compiling(capability: int, cache: Path, first: Iterable[str]) -> Iterator[CompiledKernels]:
    """Begins with all units, those named in `first` before the others; none is begun any more at the end."""
    target, units = nvrtc.target(capability), source.units()
    compilers = ThreadPoolExecutor(os.cpu_count() or 1)  # ctypes gives the GIL back while NVRTC works
    try:
        names = dict.fromkeys([*first, *units])
        images = {name: compilers.submit(nvrtc.load_or_compile, units[name], target, cache) for name in names}
        yield CompiledKernels(images)
    finally:
        compilers.shutdown(wait=False, cancel_futures=True)
