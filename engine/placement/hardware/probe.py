"""Measures this machine's CPU: memory bandwidth, kernel speed per type and batch, fixed costs. A few seconds.

Every kernel is timed inside a native program, as a forward pass runs it, on data in cache; traffic to memory is priced
apart with the bandwidth. Of several runs the fastest counts: whatever else the machine does only ever adds time.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.gguf import QuantType
from engine.gguf.quant_types import known_type
from engine.placement.hardware.profile import ANY_TYPE, ATTENTION, ELEMENT_KINDS, DeviceProfile, KernelRates
from kernels import _cpu

Progress = Callable[[float, str], None]
Ints = npt.NDArray[np.int32]

BATCHES = (1, 8, 64, 256)
_BANDWIDTH_BYTES = 192 << 20
_SIDE = 1024  # rows and columns of the product that is timed: 0.6 MB of Q4_K
_SECONDS_PER_KERNEL = 0.01  # and at least three runs
_PASSES = 2  # over all products, some seconds apart
_TINY_OPS = 16
_HEADS, _HEAD_DIM, _DEPTH = 8, 64, 512
_EXPERTS, _EXPERT_ROWS, _USED = 96, 512, 8
_DISK_BYTES = 64 << 20
_OTHER_RATE = 1.3  # times as fast or slow: another machine than was measured
_OTHER_BANDWIDTH = 1.7  # some machines' memory changes between two speeds by itself, 1.5 times apart


def silent(fraction: float, stage: str) -> None:
    """Progress that nobody watches."""


def measure_cpu(
    name: str, memory_bytes: int, threads: int, tier: str = "auto", progress: Progress = silent
) -> DeviceProfile:
    """The CPU as `threads` threads of our kernels see it, up to the instruction set `tier`."""
    pool = _cpu.ThreadPool(threads)
    progress(0.0, "memory bandwidth")
    bandwidths = bandwidth_per_threads(threads)
    bandwidth = bandwidths[threads]
    op_seconds = _tiny_op_seconds(pool, tier)
    points: dict[str, tuple[tuple[int, float], ...]] = {}
    types = [found for found in map(known_type, _cpu.QUANT_TYPES) if found is not None]
    rates: dict[tuple[str, int], float] = {}
    for number, (_, quant_type) in enumerate(itertools.product(range(_PASSES), types)):
        progress(0.1 + 0.6 * number / (_PASSES * len(types)), f"products of {quant_type.name}")
        for tokens in BATCHES:
            found = _product_rate(quant_type, tokens, pool, tier, op_seconds)
            rates[quant_type.name, tokens] = max(found, rates.get((quant_type.name, tokens), 0.0))
    for quant_type in types:
        points[quant_type.name] = tuple((tokens, rates[quant_type.name, tokens]) for tokens in BATCHES)
    points[ANY_TYPE] = points["Q4_K"]
    progress(0.75, "attention over a cache")
    points[ATTENTION] = tuple((n, _attention_rate(n, pool, tier, op_seconds)) for n in (1, 16, 128))
    progress(0.85, "norms, rotations, activations")
    elements = {kind: _element_rate(kind, pool, tier, op_seconds) for kind in ELEMENT_KINDS}
    progress(0.9, "experts from all over memory")
    scattered = min(1.0, _expert_bandwidth(pool, tier, op_seconds) / bandwidth)
    progress(1.0, "")
    return DeviceProfile(
        name=name,
        memory_bytes=memory_bytes,
        bandwidth=bandwidth,
        kernels=KernelRates(points),
        op_seconds=op_seconds,
        element_rates=elements,
        threads=threads,
        scattered_share=scattered,
        bandwidth_by_threads=bandwidths,
    )


def is_outdated(cpu: DeviceProfile, tier: str = "auto") -> bool:
    """Whether this machine now computes or reads at other speeds than a profile says, as it does where that was
    measured while others were busy. A second look of some 0.1 s; meant for a quiet moment."""
    pool = _cpu.ThreadPool(cpu.threads)
    op_seconds = _tiny_op_seconds(pool, tier)
    factors = [(read_bandwidth(cpu.threads) / cpu.bandwidth, _OTHER_BANDWIDTH)]
    for tokens in (1, 64):
        now = _product_rate(QuantType.Q4_K, tokens, pool, tier, op_seconds)
        factors.append((now / cpu.kernels.rate("Q4_K", tokens), _OTHER_RATE))
    return any(not 1 / most <= factor <= most for factor, most in factors)


def read_bandwidth(threads: int) -> float:
    """Bytes per second that `threads` threads read from RAM together. Cheap enough to repeat in every round."""
    return _cpu.read_bandwidth(threads, _BANDWIDTH_BYTES, 5)


def bandwidth_per_threads(most: int) -> dict[int, float]:
    """The same for 1, 2, 4 … `most` threads."""
    counts = sorted({1 << bit for bit in range(most.bit_length()) if 1 << bit <= most} | {most})
    return {threads: read_bandwidth(threads) for threads in counts}


def disk_read_bandwidth(folder: Path) -> float:
    """Bytes per second read from the disk under `folder`, from a file that the page cache was told to forget.

    0.0 where the system offers no way to forget, or the folder cannot be written to.
    """
    if not hasattr(os, "posix_fadvise"):
        return 0.0
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            block = np.random.default_rng(0).bytes(1 << 20)
            for _ in range(_DISK_BYTES >> 20):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            begin = time.perf_counter()
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            while os.read(file.fileno(), 4 << 20):
                pass
            return _DISK_BYTES / (time.perf_counter() - begin)
    except OSError:
        return 0.0


# --- one program per question -----------------------------------------------------------------------------------


def _fastest(program: _cpu.Program, pool: _cpu.ThreadPool, batch: _cpu.Batch) -> float:
    program.run(pool, batch)
    times: list[float] = []
    while len(times) < 3 or sum(times) < _SECONDS_PER_KERNEL:
        begin = time.perf_counter()
        program.run(pool, batch)
        times.append(time.perf_counter() - begin)
    return min(times)


def _work_seconds(seconds: float, op_seconds: float) -> float:
    """An operation's time without its fixed cost, which never is the larger part of what is timed here."""
    return max(seconds - op_seconds, seconds / 2)


def _batch(tokens: int, depth: int = 0, block_tokens: int = 32) -> _cpu.Batch:
    """`tokens` of one sequence, the first at position `depth`; nobody asks for logits."""
    blocks = -(-(depth + tokens) // block_tokens)
    numbers = np.arange(tokens, dtype=np.int32)
    return _cpu.Batch(
        np.zeros(tokens, np.int32),
        numbers + np.int32(depth),
        np.zeros(tokens, np.int32),
        np.arange(blocks, dtype=np.int32)[None],
        np.zeros(0, np.int32),
    )


def _tiny_op_seconds(pool: _cpu.ThreadPool, tier: str) -> float:
    """Fixed cost of an operation, from many that do next to nothing."""
    program = _cpu.Program(tier)
    x = program.value(64)
    weight = program.weight(int(QuantType.F32), 64, 64)
    program.bind_weight(weight, np.zeros(64 * 64, np.float32))
    for _ in range(_TINY_OPS):
        program.linear(x, [weight], [None], [program.value(64)])
    program.finish()
    program.write(x, np.ones((1, 64), np.float32))
    return _fastest(program, pool, _batch(1)) / _TINY_OPS


def _product_rate(quant_type: QuantType, tokens: int, pool: _cpu.ThreadPool, tier: str, op_seconds: float) -> float:
    """MAC/s of products whose weights stay in cache, packing of the activations included."""
    program = _cpu.Program(tier)
    x = program.value(_SIDE)
    weight = program.weight(int(quant_type), _SIDE, _SIDE)
    program.bind_weight(weight, np.zeros(quant_type.row_bytes(_SIDE) * _SIDE, np.uint8))
    repeats = max(1, 16 // tokens)
    for _ in range(repeats):
        program.linear(x, [weight], [None], [program.value(_SIDE)])
    program.finish()
    program.write(x, np.ones((tokens, _SIDE), np.float32))
    seconds = _work_seconds(_fastest(program, pool, _batch(tokens)) / repeats, op_seconds)
    return tokens * _SIDE * _SIDE / seconds


def _attention_rate(tokens: int, pool: _cpu.ThreadPool, tier: str, op_seconds: float) -> float:
    """MAC/s of scores and mixing over a cache of 16-bit floats that stays in cache."""
    program = _cpu.Program(tier)
    width, block = _HEADS * _HEAD_DIM, 32
    q, k, v = (program.value(width) for _ in range(3))
    layer = program.kv_layer(_HEADS, _HEAD_DIM, _HEAD_DIM, int(QuantType.F16), block)
    blocks = -(-(_DEPTH + tokens) // block)
    caches = [np.zeros(blocks * block * width, np.float16) for _ in range(2)]
    program.bind_kv(layer, *caches)
    repeats = max(1, 8 // tokens)
    for _ in range(repeats):
        program.attention(q, k, v, layer, program.value(width), _HEADS, _HEAD_DIM**-0.5)
    program.finish()
    for value in (q, k, v):
        program.write(value, np.ones((tokens, width), np.float32))
    seconds = _work_seconds(_fastest(program, pool, _batch(tokens, _DEPTH, block)) / repeats, op_seconds)
    macs = tokens * (_DEPTH + (tokens + 1) / 2) * _HEADS * 2 * _HEAD_DIM
    return macs / seconds


def _element_rate(kind: str, pool: _cpu.ThreadPool, tier: str, op_seconds: float) -> float:
    """Values per second of element-wise work over a prefill's batch."""
    program = _cpu.Program(tier)
    tokens, repeats = 128, 4
    a, b = program.value(_SIDE), program.value(_SIDE)
    ones = program.weight(int(QuantType.F32), 1, _SIDE)
    program.bind_weight(ones, np.ones(_SIDE, np.float32))
    frequencies = np.ones(_HEAD_DIM // 2, np.float32)
    for _ in range(repeats):
        match kind:
            case "norm":
                program.rms_norm(a, ones, program.value(_SIDE), 1e-5)
            case "rope":
                program.rope(a, _SIDE // _HEAD_DIM, _HEAD_DIM, _HEAD_DIM, "neox", frequencies)
            case "glu":
                program.glu(a, b, program.value(_SIDE))
            case _:
                program.add(a, b, program.value(_SIDE))
    program.finish()
    for value in (a, b):
        program.write(value, np.ones((tokens, _SIDE), np.float32))
    seconds = _work_seconds(_fastest(program, pool, _batch(tokens)) / repeats, op_seconds)
    return tokens * _SIDE / seconds


def _expert_bandwidth(pool: _cpu.ThreadPool, tier: str, op_seconds: float) -> float:
    """Bytes per second that one token's experts are read with, scattered over a bank larger than the caches."""
    program = _cpu.Program(tier)
    x = program.value(_SIDE)
    ids, mix = program.value(_USED, True), program.value(_USED)
    shapes = [(_EXPERT_ROWS, _SIDE), (_EXPERT_ROWS, _SIDE), (_SIDE, _EXPERT_ROWS)]
    each = [QuantType.Q4_K.row_bytes(cols) * rows for rows, cols in shapes]
    handles = [program.weight(int(QuantType.Q4_K), rows, cols, _EXPERTS) for rows, cols in shapes]
    for handle, size in zip(handles, each, strict=True):
        program.bind_weight(handle, np.zeros(size * _EXPERTS, np.uint8))
    gate, up, down = handles
    program.experts(x, ids, mix, gate, up, down, program.value(_SIDE))
    program.finish()
    program.write(x, np.ones((1, _SIDE), np.float32))
    program.write(mix, np.full((1, _USED), 1 / _USED, np.float32))
    order = np.random.default_rng(0).permutation(_EXPERTS).astype(np.int32)
    begins = range(0, _EXPERTS, _USED)
    times = [_once(program, pool, ids, order[begin : begin + _USED]) for _ in range(2) for begin in begins]
    return _USED * sum(each) / _work_seconds(float(np.percentile(times[len(begins) :], 25)), op_seconds)


def _once(program: _cpu.Program, pool: _cpu.ThreadPool, ids: int, chosen: Ints) -> float:
    batch = _batch(1)
    program.write(ids, chosen[None])
    begin = time.perf_counter()
    program.run(pool, batch)
    return time.perf_counter() - begin
