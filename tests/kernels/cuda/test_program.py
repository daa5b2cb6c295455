"""CudaProgram beside the CPU's Program: the same calls, the same numbers.

With float weights and cache only float32 rounding differs: 2e-6 of the largest value per layer, amplified by the next
one's norm. Prefill attention rounds to half precision (2^-11). Quantised weights meet the same int8 activations on
either side but for values that a rounding moved to the next integer: one step is 1 / 127 of a block's largest.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels import _cpu
from kernels.cuda import nvrtc
from kernels.cuda.driver import Driver, DriverKernels
from kernels.cuda.host import HostKernels, library_path
from kernels.cuda.kernel_set import LaunchError
from kernels.cuda.memory import DriverMemory, HostMemory
from kernels.cuda.program import CudaProgram
from tests.support.cuda_machine import ORDERS
from tests.support.quantize import block_elements, random_blocks, type_id

WIDTH, HEADS, KV_HEADS, DIM, EXPERTS, TOP_K, VOCABULARY, BLOCK, BLOCKS = 256, 4, 2, 64, 5, 2, 19, 8, 9


class Tiny:
    """One layer of every operation, built by the same calls on either program; cache and weights are shared bytes."""

    def __init__(self, program: Any, weight_type: str, cache_type: int, fuse: bool = False) -> None:
        self.program, self._rng = program, np.random.default_rng(1)
        self._weight_type = weight_type
        value = program.value
        x, normed, out = value(WIDTH), value(WIDTH), value(WIDTH)
        q, k, v, attended = value(HEADS * DIM), value(KV_HEADS * DIM), value(KV_HEADS * DIM), value(HEADS * DIM)
        logits, ids, factors, selected = value(EXPERTS), value(TOP_K, ids=True), value(TOP_K), value(WIDTH)
        gate, up, head = value(256), value(256), value(VOCABULARY)
        self.ids, self.logits = ids, head
        row = 2 * DIM if cache_type == 1 else 4 * DIM
        self.caches = [np.zeros((BLOCKS, KV_HEADS, BLOCK, row), np.uint8) for _ in range(2)]
        kv = program.kv_layer(KV_HEADS, DIM, DIM, cache_type, BLOCK)
        program.bind_kv(kv, *self.caches)
        frequencies = (100.0 ** (-np.arange(DIM // 2) / (DIM // 2))).astype(np.float32)

        program.embed(self.matrix(VOCABULARY, WIDTH), x)
        program.rms_norm(x, self.vector(WIDTH), normed, 1e-5)
        weights = [self.matrix(rows, WIDTH) for rows in (HEADS * DIM, KV_HEADS * DIM, KV_HEADS * DIM)]
        program.linear(normed, weights, [self.vector(HEADS * DIM), None, None], [q, k, v])
        program.rms_norm(q, self.vector(DIM), q, 1e-5, DIM)
        program.rope(q, HEADS, DIM, DIM, "neox", frequencies)
        program.rope(k, KV_HEADS, DIM, DIM, "norm", frequencies, 1.1)
        program.attention(q, k, v, kv, attended, HEADS, DIM**-0.5, 11, 3.0, self.vector(HEADS))
        program.linear(attended, [self.matrix(WIDTH, HEADS * DIM)], [None], [out])
        program.add(x, out, x)
        program.rms_norm(x, self.vector(WIDTH), normed, 1e-5)
        program.linear(normed, [self.matrix(EXPERTS, WIDTH, kind="F32")], [], [logits])
        program.router(logits, ids, factors, TOP_K)
        banks = [self.matrix(rows, cols, EXPERTS) for rows, cols in ((256, WIDTH), (256, WIDTH), (WIDTH, 256))]
        self.mask = program.expert_mask(EXPERTS)
        biases = [self.vector(rows, EXPERTS) for rows in (256, 256, WIDTH)]
        program.experts(normed, ids, factors, *banks, out, "swiglu_oai", self.mask, biases)
        program.add(x, out, x)
        program.select_rows(x, selected)
        program.linear(selected, [self.matrix(256, WIDTH), self.matrix(256, WIDTH)], [None, None], [gate, up])
        program.glu(gate, up, gate, "gelu")
        program.scale(gate, 0.5)
        program.linear(gate, [self.matrix(VOCABULARY, 256)], [None], [head])
        program.soft_cap(head, 40.0)
        program.finish(fuse=fuse)

    def matrix(self, rows: int, cols: int, count: int = 1, kind: str | None = None) -> int:
        kind = kind or self._weight_type
        assert cols % block_elements(kind) == 0
        handle = self.program.weight(type_id(kind), rows, cols, count)
        self.program.bind_weight(handle, random_blocks(kind, rows * count, cols, self._rng))
        return int(handle)

    def vector(self, size: int, count: int = 1) -> int:
        handle = self.program.weight(0, 1, size, count)
        self.program.bind_weight(handle, self._rng.uniform(0.5, 1.5, (count, size)).astype(np.float32))
        return int(handle)


def steps() -> list[_cpu.Batch]:
    """A prompt of one sequence beside the start of another, few tokens, one token with no output."""
    tables = np.array([[3, 0, 7, 5], [1, 8, 2, 6]], np.int32)

    def batch(positions: list[int], sequences: list[int], outputs: list[int]) -> _cpu.Batch:
        tokens = [(7 * p + 3 * s) % VOCABULARY for p, s in zip(positions, sequences, strict=True)]
        arrays = (np.array(part, np.int32) for part in (tokens, positions, sequences))
        return _cpu.Batch(*arrays, tables, np.array(outputs, np.int32))

    prompt = list(range(17))
    return [
        batch([*prompt, 0, 1], [0] * 17 + [1] * 2, [16, 18]),
        batch([17, 2], [0, 1], [0, 1]),
        batch([3], [1], []),
        batch([18, 19, 20], [0, 0, 0], [2]),
    ]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("weight_type", "cache_type", "tolerance"), [("F32", 0, 4 * 2.0**-11), ("Q8_0", 1, 0.03), ("Q4_K", 1, 0.05)]
)
def test_the_same_calls_give_the_same_numbers(weight_type: str, cache_type: int, tolerance: float, order: str) -> None:
    cpu = Tiny(_cpu.Program("scalar"), weight_type, cache_type)
    cuda = Tiny(CudaProgram(HostKernels(order=ORDERS[order]), HostMemory()), weight_type, cache_type)
    assert cpu.program.operation_count == cuda.program.operation_count
    pool = _cpu.ThreadPool(1)
    for step, batch in enumerate(steps()):
        if step == 1:
            for tiny in (cpu, cuda):
                tiny.program.set_expert_mask(tiny.mask, np.array([True, False, True, True, False]))
        cut = 8 + step
        for tiny in (cpu, cuda):
            tiny.program.run(pool, batch, 0, cut)
            tiny.program.run(pool, batch, cut)
        compare(cuda.program.read(cuda.ids), cpu.program.read(cpu.ids), 0)
        compare(cuda.program.read(cuda.logits), cpu.program.read(cpu.logits), tolerance)


class DeviceArray:
    """Device memory as torch's tensors show it."""

    def __init__(self, memory: DriverMemory, array: NDArray[Any]) -> None:
        facts = {"shape": array.shape, "typestr": array.dtype.str, "strides": None, "version": 3}
        self.__cuda_array_interface__ = {**facts, "data": (memory.put(array), False)}


class OnDriver(CudaProgram):
    """Puts what is bound into the device's memory first."""

    def bind_weight(self, handle: int, buffer: Any, offset: int = 0) -> None:
        super().bind_weight(handle, DeviceArray(self.memory, buffer), offset)  # type: ignore[arg-type]

    def bind_kv(self, handle: int, keys: Any, values: Any) -> None:
        super().bind_kv(handle, *(DeviceArray(self.memory, a) for a in (keys, values)))  # type: ignore[arg-type]


def test_the_driver_gives_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the stand-in for libcuda, which reads no images, on a stream of its own: what the host set computes."""
    monkeypatch.setattr(nvrtc, "load_or_compile", lambda *_: b"image")
    driver = Driver(library_path())
    driver.retain_primary_context()
    stream = ctypes.c_void_p()
    driver.check(driver.library.cuStreamCreate(ctypes.byref(stream), 1))
    memory = DriverMemory(driver, stream.value or 0)
    ours = Tiny(OnDriver(DriverKernels(driver, tmp_path), memory, stream.value or 0), "Q8_0", 1)
    host = Tiny(program(), "Q8_0", 1)
    for batch in steps():
        for tiny in (ours, host):
            tiny.program.run(None, batch)
        compare(ours.program.read(ours.logits), host.program.read(host.logits), 0)
    driver.check(driver.library.cuStreamDestroy_v2(stream))
    driver.call("cuDevicePrimaryCtxRelease_v2", 0)


def compare(found: NDArray[Any], expected: NDArray[Any], tolerance: float) -> None:
    assert found.shape == expected.shape and found.dtype == expected.dtype
    if expected.size:
        assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def program() -> CudaProgram:
    return CudaProgram(HostKernels(), HostMemory())


def test_fused_operations_give_the_same_bits() -> None:
    single, fused = (Tiny(program(), "Q8_0", 1, fuse=fuse) for fuse in (False, True))
    assert fused.program.step_count < single.program.step_count == single.program.operation_count
    for batch in steps():
        for cut in (8, 9, 10):  # before the sum, between it and its norm, and behind both
            for tiny in (single, fused):
                tiny.program.run(None, batch, 0, cut)
                tiny.program.run(None, batch, cut)
            compare(fused.program.read(fused.logits), single.program.read(single.logits), 0)


def test_written_rows_are_read_back_and_used() -> None:
    p = program()
    x, y = p.value(8), p.value(8)
    p.add(x, y, y)
    batch = _cpu.Batch(*(np.zeros(2, np.int32),) * 2, np.arange(2, dtype=np.int32), np.zeros((2, 1), np.int32),
                       np.zeros(0, np.int32))  # fmt: skip
    p.run(None, batch, 0, 0)
    p.write(x, np.full((2, 8), 2, np.float32))
    p.write(y, np.full((2, 8), 3, np.float32))
    p.run(None, batch)
    np.testing.assert_array_equal(p.read(y), np.full((2, 8), 5))
    with pytest.raises(ValueError, match="8 columns"):
        p.write(x, np.zeros((2, 7), np.float32))


def test_what_is_not_bound_or_does_not_fit_is_refused() -> None:
    p = program()
    handle = p.weight(12, 4, 256)
    with pytest.raises(ValueError, match="no CUDA kernel for type 12"):
        p.weight(12, 4, 100)
    with pytest.raises(ValueError, match="do not fit"):
        p.bind_weight(handle, np.zeros(100, np.uint8))
    with pytest.raises(ValueError, match="aligned"):
        p.bind_weight(handle, np.zeros(1000, np.uint8), 4)
    with pytest.raises(ValueError, match="no CUDA kernel for a cache"):
        p.kv_layer(1, 36, 36, 1, 16)
    x = p.value(256)
    p.linear(x, [handle], [], [p.value(4)])
    batch = _cpu.Batch(*(np.zeros(1, np.int32),) * 3, np.zeros((1, 1), np.int32), np.zeros(1, np.int32))
    with pytest.raises(RuntimeError, match="weight 0 is not bound"):
        p.run(None, batch)


def test_a_failing_kernel_is_named() -> None:
    p = program()
    x, y = p.value(2), p.value(2)
    p.select_rows(x, y)
    p.kernels.launch = lambda name, *_: (_ for _ in ()).throw(LaunchError(name))  # type: ignore[method-assign]
    batch = _cpu.Batch(*(np.zeros(1, np.int32),) * 3, np.zeros((1, 1), np.int32), np.zeros(1, np.int32))
    with pytest.raises(LaunchError, match="select_rows"):
        p.run(None, batch)
