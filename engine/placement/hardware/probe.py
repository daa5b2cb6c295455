"""Measures this machine's CPU: memory bandwidth, kernel speed per type and batch, fixed costs. A few seconds, and no
more than PROBE_SECONDS: types go last, the most common first, and one that no time was left for counts as its nearest.
Where even before them the time is up, reading is taken to hide behind computing.

Every kernel is timed inside a native program, as a forward pass runs it, on data in cache; traffic to memory is priced
apart with the bandwidth.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.gguf import QuantType
from engine.gguf.quant_types import known_type
from engine.placement.hardware.profile import (
    ADD,
    ANY_TYPE,
    ATTENTION,
    ELEMENT_TOKENS,
    GLU,
    NORM,
    PACK,
    PRODUCT,
    ROPE,
    SCORE,
    DeviceProfile,
    KernelRates,
    Points,
    common_first,
)
from engine.placement.hardware.timing import (
    FEWEST_IN_PANELS,
    PACE_TYPE,
    SIDE,
    Bench,
    Work,
    activations,
    batch_of,
    filled,
    pace,
    product,
)
from kernels import _cpu

Progress = Callable[[float, str], None]

PROBE_SECONDS, CARD_SECONDS = 8.5, 3.5  # of all, and of a card's part; with the disk's that makes less than ten
TYPES_SECONDS = 0.5  # of what is measured later
BATCHES = (1, 4, 16, 128)
_BANDWIDTH_BYTES = 192 << 20
_TINY_OPS = 16
_STALL_BYTES = 128 << 20  # several times what the caches hold: they keep a part of what is gone through in turn
_LEAST_STALL = 0.01
_START_ROWS = 256  # of a product whose start is a large part
_PACK_TOKENS, _FEW_ROWS = 64, 64  # of a product that is packing for the most part
_HEADS, _HEAD_DIM, _DEPTH, _FAR_DEPTH = 8, 128, 512, 4096
_FEW_QUERIES = (1, 2, 4)  # that share a key; the kernels go about them differently
_ELEMENT_OPS = 8  # on values that stay in cache, as between fused steps
_EXPERTS, _EXPERT_ROWS, _EXPERT_COLS, _USED = 32, 768, 2048, 8
_DISK_BYTES = 64 << 20
_OTHER_RATE = 1.3  # times as fast or slow: another machine than was measured
_OTHER_BANDWIDTH = 1.7  # some machines' memory changes between two speeds by itself, 1.5 times apart


def silent(fraction: float, stage: str) -> None:
    """Progress that nobody watches."""


def measure_cpu(
    name: str,
    memory_bytes: int,
    threads: int,
    tier: str = "auto",
    progress: Progress = silent,
    seconds: float = PROBE_SECONDS,
) -> DeviceProfile:
    """The CPU as `threads` threads of our kernels see it, up to the instruction set `tier`, within about `seconds`."""
    progress(0.0, "memory bandwidth")
    until = time.monotonic() + seconds
    bandwidths = bandwidth_per_threads(threads)
    bench = Bench(threads, tier, until)
    op_seconds = _tiny_op_seconds(bench)
    pack = _pack_rate(bench)
    points: dict[str, Points] = {}
    progress(0.1, "attention over a cache")
    points[ATTENTION], score = _attention_rates(bench, op_seconds)
    progress(0.15, "norms, rotations, activations")
    elements = {kind: _element_rate(bench, kind, op_seconds) for kind in (NORM, ROPE, GLU, ADD)}
    elements |= {PACK: pack, SCORE: score}
    stalls: dict[str, Points] = {}
    scattered = 1.0
    start = 0.0
    if not bench.is_late:
        progress(0.17, "products from memory")
        stalls[PRODUCT], start = _product_stall(bench), _product_start(bench, op_seconds)
    if not bench.is_late:
        progress(0.2, "attention over a cache")
        stalls[ATTENTION] = tuple((rows, _attention_stall(bench, rows)) for rows in _FEW_QUERIES if not bench.is_late)
    if not bench.is_late:
        progress(0.25, "experts from all over memory")
        scattered = _scattered_share(bench)
    types = common_first(found for found in map(known_type, _cpu.QUANT_TYPES) if found is not None)
    for number, quant_type in enumerate(types):
        progress(0.3 + 0.7 * number / len(types), f"products of {quant_type.name}")
        points[quant_type.name] = _product_rates(bench, quant_type, op_seconds, pack)
        if bench.is_late:
            break
    points[ANY_TYPE] = points[types[0].name]
    progress(1.0, "")
    return DeviceProfile(
        name=name,
        memory_bytes=memory_bytes,
        bandwidth=bandwidths[threads],
        kernels=KernelRates(points),
        op_seconds=op_seconds,
        element_rates=elements,
        threads=threads,
        scattered_share=scattered,
        bandwidth_by_threads=bandwidths,
        stalls=stalls,
        start_seconds=start,
        pace=bench.pace,
    )


def with_types(cpu: DeviceProfile, types: Iterable[QuantType], tier: str = "auto") -> DeviceProfile:
    """With the rates of types that no time was left for, as they would have been measured then: within about
    TYPES_SECONDS, or what one type takes."""
    bench = Bench(cpu.threads, tier, time.monotonic() + TYPES_SECONDS, cpu.pace)
    points = dict(cpu.kernels.points)
    for quant_type in common_first(types):
        points[quant_type.name] = _product_rates(bench, quant_type, cpu.op_seconds, cpu.element_rates[PACK])
        if bench.is_late:
            break
    return replace(cpu, kernels=KernelRates(points))


def is_outdated(cpu: DeviceProfile, tier: str = "auto") -> bool:
    """Whether this machine now computes or reads at other speeds than a profile says, as it does where that was
    measured while others were busy. A second look of some 0.1 s; meant for a quiet moment."""
    factors = [(read_bandwidth(cpu.threads) / cpu.bandwidth, _OTHER_BANDWIDTH)]
    looks = zip(pace(cpu.threads, tier), cpu.pace, strict=True)
    factors += [(now / then, _OTHER_RATE) for (_, now), (_, then) in looks]
    return any(not 1 / most <= factor <= most for factor, most in factors)


def read_bandwidth(threads: int) -> float:
    """Bytes per second that `threads` threads read from RAM together. Cheap enough to repeat in every round."""
    return _cpu.read_bandwidth(threads, _BANDWIDTH_BYTES, 3)


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


def _work_seconds(seconds: float, op_seconds: float) -> float:
    """An operation's time without its fixed cost, which never is the larger part of what is timed here."""
    return max(seconds - op_seconds, seconds / 2)


def _tiny_op_seconds(bench: Bench) -> float:
    """Fixed cost of an operation, from many that do next to nothing."""
    program = _cpu.Program(bench.tier)
    x = program.value(64)
    weight = program.weight(int(QuantType.F32), 64, 64)
    program.bind_weight(weight, np.zeros(64 * 64, np.float32))
    for _ in range(_TINY_OPS):
        program.linear(x, [weight], [None], [program.value(64)])
    program.finish()
    program.write(x, np.ones((1, 64), np.float32))
    return bench.seconds(Work(program, batch_of(1), _TINY_OPS))


def _product_rates(bench: Bench, quant_type: QuantType, op_seconds: float, pack: float) -> Points:
    return tuple((tokens, _product_rate(bench, quant_type, tokens, op_seconds, pack)) for tokens in BATCHES)


def _product_rate(bench: Bench, quant_type: QuantType, tokens: int, op_seconds: float, pack: float) -> float:
    """MAC/s of products whose weights stay in cache, without the packing of the activations."""
    seconds = bench.seconds(product(bench.tier, quant_type, tokens, SIDE))
    return tokens * SIDE * SIDE / _work_seconds(seconds, op_seconds + tokens * SIDE / pack)


def _product_stall(bench: Bench) -> Points:
    """How much longer a product of panels takes from memory than from the cache, in times of reading it. Panels are
    read while they are unpacked, which more tokens do not change; with many the difference would drown in computing."""
    size = PACE_TYPE.row_bytes(SIDE) * SIDE
    far, near = (product(bench.tier, PACE_TYPE, FEWEST_IN_PANELS, SIDE, n) for n in (_STALL_BYTES // size, 1))
    return ((FEWEST_IN_PANELS, max(_LEAST_STALL, bench.stall(far, near, size))),)


def _product_start(bench: Bench, op_seconds: float) -> float:
    """Seconds until the weights stream of a product straight from rows; it has as many shares as larger ones."""
    size = PACE_TYPE.row_bytes(SIDE) * _START_ROWS
    far, near = (product(bench.tier, PACE_TYPE, 1, _START_ROWS, n) for n in (_STALL_BYTES // size, 1))
    return max(0.0, bench.start(far, near, size) - op_seconds)


def _pack_rate(bench: Bench) -> float:
    """Values per second that are packed for a product: what does not grow with the product's rows."""
    few, many = (bench.seconds(product(bench.tier, PACE_TYPE, _PACK_TOKENS, n)) for n in (_FEW_ROWS, SIDE))
    seconds = few - _FEW_ROWS * (many - few) / (SIDE - _FEW_ROWS)
    return _PACK_TOKENS * SIDE / max(seconds, few / 8)


def _attention_rates(bench: Bench, op_seconds: float) -> tuple[Points, float]:
    """MAC/s of attention over a cache of 16-bit floats that stays in cache, by query rows per key, and scores per
    second: what a longer head adds is multiplication alone."""
    tokens = 64
    scores = tokens * _HEADS * (_DEPTH + (tokens + 1) / 2)
    short = bench.seconds(_attention(bench.tier, tokens, _HEADS, _HEAD_DIM // 2))
    long = bench.seconds(_attention(bench.tier, tokens, _HEADS, _HEAD_DIM))
    macs = 2 * _HEAD_DIM * scores
    many = macs / 2 / max(long - short, long / 4)
    score = scores / max(long - op_seconds - macs / many, long / 20)

    def few(rows: int) -> float:
        seconds = _work_seconds(bench.seconds(_attention(bench.tier, 1, _HEADS // rows, _HEAD_DIM)), op_seconds)
        return _HEADS * _DEPTH * 2 * _HEAD_DIM / _work_seconds(seconds, _HEADS * _DEPTH / score)

    return (*((rows, few(rows)) for rows in _FEW_QUERIES), (tokens, many)), score


def _attention_stall(bench: Bench, rows: int) -> float:
    """How much longer one token's attention takes over a cache in memory, in times of reading it. It jumps from block
    to block, and most of what computing would hide is waited for."""
    kv_heads = _HEADS // rows
    size = 2 * 2 * kv_heads * _HEAD_DIM * _FAR_DEPTH
    far = _attention(bench.tier, 1, kv_heads, _HEAD_DIM, _FAR_DEPTH, _STALL_BYTES // size)
    near = _attention(bench.tier, 1, kv_heads, _HEAD_DIM)
    return max(_LEAST_STALL, bench.stall(far, near, size, _FAR_DEPTH / _DEPTH))


def _attention(tier: str, tokens: int, kv_heads: int, head_dim: int, depth: int = _DEPTH, layers: int = 1) -> Work:
    """Attention over caches of `depth` tokens, of several layers in turn where they shall come from memory."""
    program = _cpu.Program(tier)
    block, kv_width = 32, kv_heads * head_dim
    q, k, v = program.value(_HEADS * head_dim), program.value(kv_width), program.value(kv_width)
    out = program.value(_HEADS * head_dim)
    blocks = -(-(depth + tokens) // block)
    repeats = max(layers, 8 // tokens, 1)
    caches = [program.kv_layer(kv_heads, head_dim, head_dim, int(QuantType.F16), block) for _ in range(layers)]
    for cache in caches:
        program.bind_kv(cache, *(filled(blocks * block * kv_width * 2).view(np.float16) for _ in range(2)))
    for number in range(repeats):
        program.attention(q, k, v, caches[number % layers], out, _HEADS, head_dim**-0.5)
    program.finish()
    for value, width in ((q, _HEADS * head_dim), (k, kv_width), (v, kv_width)):
        program.write(value, activations(tokens, width))
    return Work(program, batch_of(tokens, depth, block), repeats, tokens)


def _element_rate(bench: Bench, kind: str, op_seconds: float) -> float:
    """Values per second of element-wise work on data in cache."""
    program = _cpu.Program(bench.tier)
    tokens = ELEMENT_TOKENS
    a, b = program.value(SIDE), program.value(SIDE)
    ones = program.weight(int(QuantType.F32), 1, SIDE)
    program.bind_weight(ones, np.ones(SIDE, np.float32))
    frequencies = np.ones(_HEAD_DIM // 2, np.float32)
    for _ in range(_ELEMENT_OPS):
        match kind:
            case "norm":
                program.rms_norm(a, ones, program.value(SIDE), 1e-5)
            case "rope":
                program.rope(a, SIDE // _HEAD_DIM, _HEAD_DIM, _HEAD_DIM, "neox", frequencies)
            case "glu":
                program.glu(a, b, program.value(SIDE))
            case _:
                program.add(a, b, program.value(SIDE))
    program.finish()
    for value in (a, b):
        program.write(value, np.ones((tokens, SIDE), np.float32))
    seconds = _work_seconds(bench.seconds(Work(program, batch_of(tokens), _ELEMENT_OPS, tokens)), op_seconds)
    return tokens * SIDE / seconds


def _scattered_share(bench: Bench) -> float:
    """Share of the memory's bandwidth that one token's experts are read with, from a bank larger than the caches."""
    program = _cpu.Program(bench.tier)
    x, mix = program.value(_EXPERT_COLS), program.value(_USED)
    shapes = [(_EXPERT_ROWS, _EXPERT_COLS), (_EXPERT_ROWS, _EXPERT_COLS), (_EXPERT_COLS, _EXPERT_ROWS)]
    each = [PACE_TYPE.row_bytes(cols) * rows for rows, cols in shapes]
    handles = [program.weight(int(PACE_TYPE), rows, cols, _EXPERTS) for rows, cols in shapes]
    for handle, size in zip(handles, each, strict=True):
        program.bind_weight(handle, filled(size * _EXPERTS))
    gate, up, down = handles
    order = np.random.default_rng(0).permutation(_EXPERTS).astype(np.int32).reshape(-1, 1, _USED)
    ids = [program.value(_USED, True) for _ in order]
    for chosen in ids:
        program.experts(x, chosen, mix, gate, up, down, program.value(_EXPERT_COLS))
    program.finish()
    program.write(x, np.ones((1, _EXPERT_COLS), np.float32))
    program.write(mix, np.full((1, _USED), 1 / _USED, np.float32))
    for number, value in enumerate(ids):
        program.write(value, order[number])
    return min(1.0, bench.share(Work(program, batch_of(1), len(order)), _USED * sum(each)))
