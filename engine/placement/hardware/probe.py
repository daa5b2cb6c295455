"""Measures this machine's CPU: memory bandwidth, kernel speed per type and batch, fixed costs. A few seconds, and no
more than PROBE_SECONDS: types go last, the most common first, and one that no time was left for counts as its nearest.
Where even before them the time is up, reading is taken to hide behind computing.

Every kernel is timed inside a native program, as a forward pass runs it, on data in cache; traffic to memory is priced
apart with the bandwidth.
"""

from __future__ import annotations

import itertools
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.gguf import QuantType
from engine.gguf.quant_types import known_type
from engine.placement.costs import Workload, decode_seconds, expert_prefill_seconds
from engine.placement.hardware.profile import (
    ADD,
    ANY_TYPE,
    ATTENTION,
    ELEMENT_TOKENS,
    EXPERTS,
    FEW_SCORE,
    FEWEST_IN_PANELS,
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
from engine.placement.hardware.small_model import with_token_costs
from engine.placement.hardware.timing import (
    FAR_BYTES,
    PACE_TYPE,
    SIDE,
    Bench,
    Pace,
    Work,
    activations,
    batch_of,
    filled,
    product,
)
from engine.placement.items import ExpertBank, ItemKind, Matrix, PlacementItem
from engine.placement.state import StateKind, StateShape
from kernels import _cpu

Progress = Callable[[float, str], None]

PROBE_SECONDS, CARD_SECONDS = 8.5, 3.5  # of all, and of a card's part; with the disk's that makes less than ten
TYPES_SECONDS = 0.5  # of what is measured later
BATCHES = (1, 4, 16, 128)
_BANDWIDTH_BYTES, _PASSES = 192 << 20, 5
_TINY_OPS = 16
_FAR_SECONDS, _EXPERT_SECONDS, _TYPE_FAR_SECONDS = 0.3, 0.8, 0.15
_LEAST_STALL = 0.01
_SHORT = 4  # times shorter rows, or fewer of them, than others: those whose fixed costs are a larger part
_PACK_TOKENS, _FEW_ROWS = 64, 64  # of a product that is packing for the most part
_HEADS, _HEAD_DIM, _DEPTH, _FAR_DEPTH = 8, 128, 512, 4096
_FEW_QUERIES, _MANY = (1, 2, 4), 64  # that share a key; the kernels go about few differently
_ELEMENT_OPS = 8
_EXPERTS, _EXPERT_ROWS, _EXPERT_COLS, _USED = 32, 768, 2048, 8
_EXPERT_SHAPES = ((_EXPERT_ROWS, _EXPERT_COLS), (_EXPERT_ROWS, _EXPERT_COLS), (_EXPERT_COLS, _EXPERT_ROWS))
_EXPERT_TURNS = 3  # through all of them, so that what a call takes is a small part
_EXPERT_TOKENS = 8
_LOOK = 3  # operations from memory at once, the first of which wakes the threads
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
    bench = Bench(threads, tier, until)
    bandwidths = bandwidth_per_threads(threads, bench.memory)
    op_seconds = _tiny_op_seconds(bench)
    pack = _pack_rate(bench)
    beside = Beside(op_seconds, pack, _row_seconds(bench, pack))
    points: dict[str, Points] = {}
    progress(0.1, "attention over a cache")
    points[ATTENTION], scores = _attention_rates(bench, op_seconds)
    progress(0.15, "norms, rotations, activations")
    elements = {kind: _element_rate(bench, kind, op_seconds) for kind in (NORM, ROPE, GLU, ADD)}
    elements |= {PACK: pack, **scores}
    points[PACE_TYPE.name] = points[ANY_TYPE] = _product_rates(bench, PACE_TYPE, beside)
    stalls: dict[str, Points] = {}
    row_stalls: dict[str, float] = {}
    scattered = 1.0
    if not bench.is_late:
        progress(0.17, "products from memory")
        stalls[PRODUCT] = _panel_stall(bench)
        row_stalls[PACE_TYPE.name] = row_stalls[ANY_TYPE] = _row_stall(bench, PACE_TYPE, beside)
    if not bench.is_late:
        progress(0.2, "experts from all over memory")
        scattered = _scattered_share(bench)
    cpu = DeviceProfile(
        name=name,
        memory_bytes=memory_bytes,
        bandwidth=bandwidths[threads],
        kernels=KernelRates(points),
        op_seconds=op_seconds,
        element_rates=elements,
        threads=threads,
        scattered_share=scattered,
        bandwidth_by_threads=bandwidths,
        stalls=dict(stalls),
        row_stalls=row_stalls,
        row_seconds=beside.row,
        pace=bench.pace,
    )
    if not bench.is_late:
        stalls[EXPERTS] = _expert_stall(bench, cpu)
    if not bench.is_late:
        progress(0.25, "attention over a cache")
        few = ((rows, _attention_stall(bench, cpu, rows)) for rows in _FEW_QUERIES if not bench.is_late)
        stalls[ATTENTION] = tuple(few)
    cpu = replace(cpu, stalls=stalls)
    if not bench.is_late:
        progress(0.3, "tokens of a small model")
        cpu = with_token_costs(bench, cpu)
    if not bench.is_late:
        types = [kind for kind in map(known_type, _cpu.QUANT_TYPES) if kind is not None and kind is not PACE_TYPE]
        cpu = _with_types(bench, cpu, types, beside, lambda share, stage: progress(0.4 + 0.6 * share, stage))
    progress(1.0, "")
    return cpu


def _with_types(
    bench: Bench, cpu: DeviceProfile, types: Iterable[QuantType], beside: Beside, progress: Progress = silent
) -> DeviceProfile:
    """With the rates of as many types as there is time for, or of one."""
    points, row_stalls = dict(cpu.kernels.points), dict(cpu.row_stalls)
    ordered = common_first(types)
    for number, quant_type in enumerate(ordered):
        progress(number / len(ordered), f"products of {quant_type.name}")
        points[quant_type.name] = _product_rates(bench, quant_type, beside)
        row_stalls[quant_type.name] = _row_stall(bench, quant_type, beside)
        if bench.is_late:
            break
    return replace(cpu, kernels=KernelRates(points), row_stalls=row_stalls)


def with_types(cpu: DeviceProfile, types: Iterable[QuantType], tier: str = "auto") -> DeviceProfile:
    """With the rates of types that no time was left for, as they would have been measured then: within about
    TYPES_SECONDS, or what one type takes."""
    bench = Bench(cpu.threads, tier, time.monotonic() + TYPES_SECONDS, cpu.pace)
    beside = Beside(cpu.op_seconds, cpu.element_rates[PACK], cpu.row_seconds)
    return _with_types(bench, cpu, types, beside)


def is_outdated(cpu: DeviceProfile, tier: str = "auto") -> bool:
    """Whether this machine now computes or reads at other speeds than a profile says, as it does where that was
    measured while others were busy. A second look of some 0.1 s; meant for a quiet moment."""
    factors = [(read_bandwidth(cpu.threads) / cpu.bandwidth, _OTHER_BANDWIDTH)]
    looks = zip(Pace(_cpu.ThreadPool(cpu.threads), tier).now(), cpu.pace, strict=True)
    factors += [(now / then, _OTHER_RATE) for (_, now), (_, then) in looks]
    return any(not 1 / most <= factor <= most for factor, most in factors)


def read_bandwidth(threads: int) -> float:
    """Bytes per second that `threads` threads read from RAM together."""
    return _cpu.read_bandwidth(threads, _BANDWIDTH_BYTES, _PASSES)


def bandwidth_per_threads(most: int, memory: npt.NDArray[np.uint8]) -> dict[int, float]:
    """The same of `memory` with 1, 2, 4 … `most` threads."""
    counts = sorted({1 << bit for bit in range(most.bit_length()) if 1 << bit <= most} | {most})
    found: dict[int, float] = {}
    for threads in counts:
        reader = _cpu.MemoryReader(_cpu.ThreadPool(threads), memory)
        found[threads] = statistics.median(reader.read() for _ in range(_PASSES))
    return found


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


@dataclass(frozen=True, slots=True)
class Beside:
    """What a product takes beside its arithmetic: seconds of an operation, values packed per second, seconds of a
    row."""

    op: float
    pack: float
    row: float


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


def _row_seconds(bench: Bench, pack: float) -> float:
    """What a row takes beside its arithmetic: sums of lanes, and columns that do not fill a vector."""
    wide, narrow = (product(bench.tier, PACE_TYPE, 1, SIDE * n, SIDE // n) for n in (1, _SHORT))
    more = bench.seconds(narrow) - bench.seconds(wide) + (SIDE - SIDE / _SHORT) / pack
    return max(0.0, more) / ((_SHORT - 1) * SIDE)


def _product_rates(bench: Bench, quant_type: QuantType, beside: Beside) -> Points:
    return tuple((tokens, _product_rate(bench, quant_type, tokens, beside)) for tokens in BATCHES)


def _product_rate(bench: Bench, quant_type: QuantType, tokens: int, beside: Beside) -> float:
    """MAC/s of products whose weights stay in cache, without the packing of the activations."""
    seconds = bench.seconds(product(bench.tier, quant_type, tokens, SIDE))
    rows = SIDE * tokens * beside.row if tokens < FEWEST_IN_PANELS else 0.0
    return tokens * SIDE * SIDE / _work_seconds(seconds, beside.op + rows + tokens * SIDE / beside.pack)


def _product_stall(bench: Bench, quant_type: QuantType, tokens: int) -> float:
    """How much longer a product takes from memory than from the cache, in times of reading it."""
    size = quant_type.row_bytes(SIDE) * SIDE
    far, near = (product(bench.tier, quant_type, tokens, SIDE, memory=at) for at in (bench.memory, None))
    return bench.far(far, near, lambda far, near, rate: (far - near) * rate / size, _FAR_SECONDS)


def _panel_stall(bench: Bench) -> Points:
    """Panels are read while they are unpacked, and more of it is waited for where little is computed between."""
    found = ((tokens, _product_stall(bench, PACE_TYPE, tokens)) for tokens in BATCHES[1:3])
    return tuple((tokens, max(_LEAST_STALL, stall)) for tokens, stall in found)


def _row_stall(bench: Bench, quant_type: QuantType, beside: Beside) -> float:
    """Of one token's products of so many rows that their beginning is a small part of them."""
    size = quant_type.row_bytes(SIDE) * SIDE * _SHORT
    far = product(bench.tier, quant_type, 1, SIDE * _SHORT, memory=bench.memory)
    near = product(bench.tier, quant_type, 1, SIDE)
    once = beside.op + SIDE / beside.pack  # of any product, however many its rows

    def stall(far: float, near: float, rate: float) -> float:
        return (far - once - _SHORT * (near - once)) * rate / size

    return max(0.0, bench.far(far, near, stall, _TYPE_FAR_SECONDS))


def _pack_rate(bench: Bench) -> float:
    """Values per second that are packed for a product: what does not grow with the product's rows."""
    few, many = (bench.seconds(product(bench.tier, PACE_TYPE, _PACK_TOKENS, n)) for n in (_FEW_ROWS, SIDE))
    seconds = few - _FEW_ROWS * (many - few) / (SIDE - _FEW_ROWS)
    return _PACK_TOKENS * SIDE / max(seconds, few / 8)


def _attention_rates(bench: Bench, op_seconds: float) -> tuple[Points, dict[str, float]]:
    """MAC/s of attention over a cache of 16-bit floats that stays in cache, by query rows per key, and scores per
    second of many tokens and of one."""
    many, score = _attention_rate(bench, _MANY, _HEADS, op_seconds)
    few = {rows: _attention_rate(bench, 1, _HEADS // rows, op_seconds) for rows in _FEW_QUERIES}
    scores = {SCORE: score, FEW_SCORE: statistics.harmonic_mean([score for _, score in few.values()])}
    return (*((rows, rate) for rows, (rate, _) in few.items()), (_MANY, many)), scores


def _attention_rate(bench: Bench, tokens: int, kv_heads: int, op_seconds: float) -> tuple[float, float]:
    """MAC/s and scores per second: what a longer head adds is multiplication alone."""
    scores = tokens * _HEADS * (_DEPTH + (tokens + 1) / 2)
    short, long = (bench.seconds(_attention(bench.tier, tokens, kv_heads, dim)) for dim in (_HEAD_DIM // 2, _HEAD_DIM))
    macs = 2 * _HEAD_DIM * scores
    rate = macs / 2 / max(long - short, long / 4)
    return rate, scores / max(long - op_seconds - macs / rate, long / 20)


def _attention_stall(bench: Bench, cpu: DeviceProfile, rows: int) -> float:
    """Of one token's attention over a cache in memory: it jumps from block to block, and most of what computing would
    hide is waited for."""
    state = StateShape(StateKind.FULL, _HEADS, _HEADS // rows, _HEAD_DIM, _HEAD_DIM)
    item, size = PlacementItem(ItemKind.ATTENTION, 0, 0, (), state, ops=1), state.read_bytes(_FAR_DEPTH)
    far = _attention(bench.tier, 1, state.kv_heads, _HEAD_DIM, _FAR_DEPTH, FAR_BYTES // size)
    depth = Workload(depth=_FAR_DEPTH)
    return _stall(bench, cpu, far, size, lambda cpu: decode_seconds(item, cpu, depth), _FAR_SECONDS)


def _stall(
    bench: Bench, cpu: DeviceProfile, far: Work, size: int, price: Callable[[DeviceProfile], float], seconds: float
) -> float:
    """How much longer an operation of `far`, which reads `size` bytes from memory, takes than a processor's `price` of
    it where reading takes no time, in times of reading them."""
    firsts = itertools.cycle(range(0, far.repeats - _LOOK + 1, _LOOK))

    def operation() -> float:
        first = next(firsts)
        far.run(bench.pool, first, first + 1)  # so that no thread sleeps when the next begins
        return far.run(bench.pool, first + 1, first + _LOOK) / (_LOOK - 1)

    plain = replace(cpu, bandwidth=math.inf)
    found = (
        (took - price(plain.at_pace(now))) * bandwidth / size
        for took, now, bandwidth in bench.in_place(operation, seconds)
    )
    return max(_LEAST_STALL, statistics.median(found))


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
    """Values per second of element-wise work on as many as a prompt has."""
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
    order = np.random.default_rng(0).permutation(_EXPERTS).reshape(-1, 1, _USED)
    far = _experts(bench, bench.memory, _EXPERTS, np.tile(order, (_EXPERT_TURNS, 1, 1)))
    size = _USED * _expert_bytes()
    return min(1.0, bench.far(far, None, lambda far, _, rate: size / far / rate, _FAR_SECONDS))


def _expert_stall(bench: Bench, cpu: DeviceProfile) -> Points:
    """Of a prompt's experts, each with so many tokens, in times of reading them: what one operation through some of a
    bank takes beyond what the products' rates predict."""
    tokens, random = _EXPERT_TOKENS, np.random.default_rng(0)
    drawn = np.concatenate([random.permutation(_EXPERTS).reshape(-1, _USED) for _ in range(_EXPERT_TURNS)])
    chosen = np.stack([[random.permutation(some) for _ in range(tokens)] for some in drawn])
    work = _experts(bench, bench.memory, _EXPERTS, chosen)
    matrices = tuple(
        Matrix(PACE_TYPE.name, *shape, PACE_TYPE.row_bytes(shape[1]) * shape[0]) for shape in _EXPERT_SHAPES
    )
    bank = ExpertBank(0, _USED, _USED, _expert_bytes(), matrices, _EXPERT_ROWS)
    price = partial(expert_prefill_seconds, bank, tokens=tokens)
    return ((tokens, _stall(bench, cpu, work, _USED * _expert_bytes(), price, _EXPERT_SECONDS)),)


def _expert_bytes() -> int:
    return sum(PACE_TYPE.row_bytes(cols) * rows for rows, cols in _EXPERT_SHAPES)


def _experts(bench: Bench, memory: npt.NDArray[np.uint8], count: int, chosen: npt.NDArray[np.int_]) -> Work:
    """A bank of `count` experts in `memory`; `chosen` [operations, tokens, experts per token]."""
    program = _cpu.Program(bench.tier)
    repeats, tokens, used = chosen.shape
    x, mix = program.value(_EXPERT_COLS), program.value(used)
    handles, begin = [], 0
    for rows, cols in _EXPERT_SHAPES:
        handles.append(program.weight(int(PACE_TYPE), rows, cols, count))
        program.bind_weight(handles[-1], memory, begin)
        begin += PACE_TYPE.row_bytes(cols) * rows * count
    gate, up, down = handles
    ids = [program.value(used, True) for _ in range(repeats)]
    for value in ids:
        program.experts(x, value, mix, gate, up, down, program.value(_EXPERT_COLS))
    program.finish()
    program.write(x, np.ones((tokens, _EXPERT_COLS), np.float32))
    program.write(mix, np.full((tokens, used), 1 / used, np.float32))
    for number, value in enumerate(ids):
        program.write(value, chosen[number].astype(np.int32))
    return Work(program, batch_of(tokens), repeats, tokens)
