"""The driver layer against a stand-in for libcuda: compile, load, launch on streams, capture and replay.

The stand-in (kernels/host/stand_in_driver.cpp) runs the host's kernels on threads, one per stream.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kernels.cuda.driver import Driver, DriverKernels
from kernels.cuda.host import library_path
from kernels.cuda.kernel_set import LaunchError
from kernels.cuda.operands import Matrix, Rows
from kernels.cuda.operations import Operations

HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class StandIn:
    """The stand-in's functions, each checked; streams, events and graphs are opaque addresses."""

    def __init__(self) -> None:
        self.driver = Driver(library_path())
        self.driver.retain_primary_context()

    def __call__(self, function: str, *args: object) -> None:
        self.driver.check(getattr(self.driver.library, function)(*map(_wide, args)), function)

    def make(self, function: str, *args: object) -> int:
        out = ctypes.c_void_p()
        self(function, ctypes.byref(out), *args)
        return out.value or 0


def _wide(value: object) -> object:
    return ctypes.c_size_t(value) if isinstance(value, int) else value


@pytest.fixture(scope="module")
def cuda() -> Iterator[StandIn]:
    stand_in = StandIn()
    yield stand_in
    stand_in("cuDevicePrimaryCtxRelease_v2", 0)


@pytest.fixture(scope="module")
def kernels(cuda: StandIn, tmp_path_factory: pytest.TempPathFactory) -> DriverKernels:
    return DriverKernels(cuda.driver, tmp_path_factory.mktemp("cubins"))


@pytest.fixture
def stream(cuda: StandIn) -> Iterator[int]:
    stream = cuda.make("cuStreamCreate", 1)
    yield stream
    cuda("cuStreamDestroy_v2", stream)


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def test_a_kernel_is_compiled_loaded_and_launched(cuda: StandIn, kernels: DriverKernels, stream: int) -> None:
    x, w = np.ones((2, 40), np.float32), np.arange(120, dtype=np.float32).reshape(3, 40)
    y = np.zeros((2, 3), np.float32)
    matrix = Matrix(address(w), 0, 3, 40)
    Operations(kernels, stream).linear(matrix, Rows(address(x)), address(y), 2)
    cuda("cuStreamSynchronize", stream)
    np.testing.assert_array_equal(y, x @ w.T)


def test_no_driver_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="no NVIDIA driver"):
        Driver(tmp_path / "none.so")


def test_streams_are_asynchronous_and_ordered_by_events(cuda: StandIn, kernels: DriverKernels, stream: int) -> None:
    """The copy on the second stream waits for the slow host function on the first, and for nothing else."""
    other = cuda.make("cuStreamCreate", 1)
    a, b, slept = np.zeros(4, np.float32), np.zeros(4, np.float32), []

    def sleep(_: object) -> None:
        time.sleep(0.05)
        slept.append(True)
        a[:] = 7

    function = HostFunction(sleep)
    event = cuda.make("cuEventCreate", 0)
    cuda("cuLaunchHostFunc", stream, function, 0)
    assert not slept
    cuda("cuEventRecord", event, stream)
    cuda("cuStreamWaitEvent", other, event, 0)
    cuda("cuMemcpyAsync", address(b), address(a), a.nbytes, other)
    cuda("cuStreamSynchronize", other)
    assert slept and (b == 7).all()
    cuda("cuEventDestroy_v2", event)
    cuda("cuStreamDestroy_v2", other)


class Captured:
    """CPU work inside a graph: `given` is scaled on the device while a host function works, then both are added."""

    def __init__(self, cuda: StandIn, kernels: DriverKernels, stream: int, wait_for_host: bool) -> None:
        self.given, self.scaled, self.host, self.sum = (np.zeros(64, np.float32) for _ in range(4))
        self._function = HostFunction(lambda _: self.host.__setitem__(slice(None), 100 + self.given))
        self.cuda, self.stream = cuda, stream
        other = cuda.make("cuStreamCreate", 1)
        fork, join = cuda.make("cuEventCreate", 0), cuda.make("cuEventCreate", 0)
        operations = Operations(kernels, stream)
        kernels.load(["scale", "add"])
        cuda("cuStreamBeginCapture_v2", stream, 1)
        cuda("cuEventRecord", fork, stream)
        cuda("cuStreamWaitEvent", other, fork, 0)
        cuda("cuLaunchHostFunc", other, self._function, 0)
        if wait_for_host:
            cuda("cuEventRecord", join, other)
        operations.scale(address(self.given), address(self.scaled), 64, 2.0)
        if wait_for_host:
            cuda("cuStreamWaitEvent", stream, join, 0)
        operations.add(address(self.scaled), address(self.host), address(self.sum), 64)
        if not wait_for_host:
            cuda("cuEventRecord", join, other)
            cuda("cuStreamWaitEvent", stream, join, 0)
        self.graph = _end_capture(cuda, stream)
        self.executable = cuda.make("cuGraphInstantiateWithFlags", self.graph, 0)

    def replay(self, value: float) -> np.ndarray:
        self.given[:] = value
        self.host[:] = 0
        self.cuda("cuGraphLaunch", self.executable, self.stream)
        self.cuda("cuStreamSynchronize", self.stream)
        return self.sum


def _end_capture(cuda: StandIn, stream: int) -> int:
    graph = ctypes.c_void_p()
    code = cuda.driver.library.cuStreamEndCapture(ctypes.c_void_p(stream), ctypes.byref(graph))
    cuda.driver.check(code, "cuStreamEndCapture")
    return graph.value or 0


def test_a_capture_records_and_replays_host_work_beside_kernels(
    cuda: StandIn, kernels: DriverKernels, stream: int
) -> None:
    captured = Captured(cuda, kernels, stream, wait_for_host=True)
    assert (captured.sum == 0).all()  # nothing has run
    for value in (1.0, 5.0):
        np.testing.assert_array_equal(captured.replay(value), np.full(64, 3 * value + 100, np.float32))


def test_a_missing_wait_shows(cuda: StandIn, kernels: DriverKernels, stream: int) -> None:
    captured = Captured(cuda, kernels, stream, wait_for_host=False)
    assert not (captured.replay(1.0) == 103).all()


def test_what_breaks_a_capture_on_a_gpu_is_refused(cuda: StandIn, stream: int) -> None:
    cuda("cuStreamBeginCapture_v2", stream, 1)
    with pytest.raises(LaunchError, match="not permitted when stream is capturing"):
        cuda("cuStreamSynchronize", stream)
    other, fork = cuda.make("cuStreamCreate", 1), cuda.make("cuEventCreate", 0)
    cuda("cuEventRecord", fork, stream)
    cuda("cuStreamWaitEvent", other, fork, 0)
    x = np.zeros(1, np.float32)
    cuda("cuMemcpyAsync", address(x), address(x), 4, other)
    with pytest.raises(LaunchError, match="not joined"):
        _end_capture(cuda, stream)


def test_large_shared_memory_is_asked_for(cuda: StandIn, kernels: DriverKernels, stream: int) -> None:
    x = np.zeros(1, np.float32)
    args = (address(x), address(x), address(x), 1)
    kernels.launch("add", (1, 1, 1), (256, 1, 1), args, 60 << 10, stream)
    with pytest.raises(LaunchError, match="shared memory"):
        kernels.launch("scale", (1, 1, 1), (256, 1, 1), (*args[:2], 1, 1.0), 65 << 10, stream)
    cuda("cuStreamSynchronize", stream)  # the launch still uses x
