"""The launch interface: two sets of the same kernels, `HostKernels` (host.py) and `DriverKernels` (driver.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kernels.cuda.source import Argument

Dim = tuple[int, int, int]


class LaunchError(RuntimeError):
    """A launch was refused, or a kernel failed; the message names the kernel and the reason."""


class OutOfDeviceMemoryError(LaunchError):
    """The driver has no memory left for what was asked of it."""


class ContextLostError(LaunchError):
    """Something failed that ends a context: nothing works in it any more, and what it held is gone."""


class KernelSet(Protocol):
    def launch(
        self, name: str, grid: Dim, block: Dim, args: Sequence[Argument], shared: int = 0, stream: int = 0
    ) -> None:
        """Runs kernel `name` with `args` as its signature says (source.signatures): numbers, and addresses as ints.

        shared: bytes of dynamic shared memory. stream: a CUDA stream's handle; the host set has none and has finished
        when it returns (without holding the GIL meanwhile), so that its caller's thread is the stream. Raises
        LaunchError.
        """
        ...
