"""What the probe lets a card do: a program or copies per question, in one arena; seconds of one operation each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import numpy as np

from engine.gguf import QuantType
from engine.placement.hardware.card_bench import CardBench
from engine.placement.hardware.profile import GLU, NORM, ROPE
from engine.placement.hardware.timing import batch_of
from engine.runtime.devices.cuda.copies import HostBuffer
from engine.runtime.devices.cuda.hand_over import HandOver, HostFunctions, MappedFlags
from kernels import _cpu
from kernels.cuda.operands import MATVEC_MOST, Rows, int8_bytes
from kernels.cuda.program import CudaProgram

_TINY = 64  # rows and columns of a product that takes no time
_TINY_OPS, _ROUND_TRIPS, _SMALL_COPIES, _ELEMENT_OPS = 64, 16, 16, 8
_FEW_MATRICES = 4  # where computing is the larger part
_BLOCK = 32  # tokens
_WEIGHTS = QuantType.Q4_K  # of experts


@dataclass(frozen=True, slots=True)
class Extent:
    """Sizes. The pool holds more than any card's cache; with the workspace it fits what is kept free on every card,
    so that the probe runs beside a model. `copies` in bytes, rising. `warming_seconds`: an idle card's clocks are low,
    and rise only with work."""

    warming_seconds: float = 0.25
    pool_bytes: int = 192 << 20
    workspace_bytes: int = 48 << 20
    side: int = 4096
    batches: tuple[int, ...] = (1, MATVEC_MOST, MATVEC_MOST + 1, 64, 512)  # on either side of where kernels change
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    depth: int = 2048
    prompt: int = 64
    element_tokens: int = 512
    expert_cols: int = 2048
    expert_rows: int = 768
    experts_used: int = 8
    copies: tuple[int, ...] = (4 << 10, 256 << 10, 2 << 20, 16 << 20)

    @property
    def bytes(self) -> int:
        return self.pool_bytes + self.workspace_bytes


def tiny_op_seconds(bench: CardBench) -> float:
    """A product of next to nothing, with the packing of its input: two launches, as most operations are."""
    with closing(bench.new_program()) as program:
        x, out = program.value(_TINY), program.value(_TINY)
        weight = program.weight(int(QuantType.Q8_0), _TINY, _TINY)
        program.bind_weight(weight, bench.pool.view())
        for _ in range(_TINY_OPS):
            program.linear(x, [weight], [None], [out])
        return bench.seconds(_run(program, 1)) / _TINY_OPS


def product_seconds(bench: CardBench, extent: Extent, kind: QuantType, tokens: int) -> float:
    """Of one product out of several with matrices of their own."""
    size = kind.row_bytes(extent.side) * extent.side
    most = bench.pool.size // size
    matrices = min(most, _FEW_MATRICES) if tokens > MATVEC_MOST else most
    if not matrices:
        raise ValueError(f"a matrix of {kind.name} takes more than there is for the probe")
    with closing(bench.new_program()) as program:
        x, out = program.value(extent.side), program.value(extent.side)
        for number in range(matrices):
            weight = program.weight(int(kind), extent.side, extent.side)
            program.bind_weight(weight, bench.pool.view(), number * size)
            program.linear(x, [weight], [None], [out])
        return bench.seconds(_run(program, tokens)) / matrices


def attention_seconds(bench: CardBench, extent: Extent, tokens: int, kv_heads: int) -> float:
    """One layer's, of several whose caches of 16-bit floats come from memory."""
    kv_width, blocks = kv_heads * extent.head_dim, -(-(extent.depth + tokens) // _BLOCK)
    size = 2 * blocks * _BLOCK * kv_width
    layers = bench.pool.size // (2 * size)
    if not layers:
        raise ValueError("a layer's cache takes more than there is for the probe")
    with closing(bench.new_program()) as program:
        q, k, v = (program.value(heads * extent.head_dim) for heads in (extent.heads, kv_heads, kv_heads))
        out = program.value(extent.heads * extent.head_dim)
        for layer in range(layers):
            cache = program.kv_layer(kv_heads, extent.head_dim, extent.head_dim, int(QuantType.F16), _BLOCK)
            at = 2 * layer * size
            program.bind_kv(cache, bench.pool.view(at, at + size), bench.pool.view(at + size, at + 2 * size))
            program.attention(q, k, v, cache, out, extent.heads, extent.head_dim**-0.5)
        return bench.seconds(_run(program, tokens, extent.depth)) / layers


def element_seconds(bench: CardBench, extent: Extent, kind: str) -> float:
    width, head_dim = extent.side, extent.head_dim
    with closing(bench.new_program()) as program:
        a, b, out = (program.value(width) for _ in range(3))
        ones = program.weight(int(QuantType.F32), 1, width)
        program.bind_weight(ones, bench.pool.view())
        frequencies = np.ones(head_dim // 2, np.float32)
        for _ in range(_ELEMENT_OPS):
            if kind == NORM:
                program.rms_norm(a, ones, out, 1e-5)
            elif kind == ROPE:
                program.rope(a, width // head_dim, head_dim, head_dim, "neox", frequencies)
            elif kind == GLU:
                program.glu(a, b, out)
            else:
                program.add(a, b, out)
        return bench.seconds(_run(program, extent.element_tokens)) / _ELEMENT_OPS


def pack_seconds(bench: CardBench, extent: Extent) -> float:
    """Of quantising rows as products take them."""
    n, cols = extent.element_tokens, extent.side
    values, x = bench.scratch, bench.pool.address
    rows, operations = Rows(values, values + -(-int8_bytes(n, cols)[0] // 256) * 256), bench.operations

    def pack() -> None:
        for _ in range(_ELEMENT_OPS):
            operations.quantize(x, rows, n, cols, int(QuantType.Q4_K))

    return bench.seconds(pack) / _ELEMENT_OPS


def experts_seconds(bench: CardBench, extent: Extent) -> tuple[float, int]:
    """Of one token through its experts of one layer, scattered over the whole pool; and the bytes that are read."""
    cols, rows, used = extent.expert_cols, extent.expert_rows, extent.experts_used
    shapes = [(rows, cols), (rows, cols), (cols, rows)]
    sizes = [_WEIGHTS.row_bytes(width) * height for height, width in shapes]
    count = bench.pool.size // sum(sizes) // used * used
    if not count:
        raise ValueError("a token's experts take more than there is for the probe")
    order = np.random.default_rng(0).permutation(count).astype(np.int32).reshape(-1, used)
    with closing(bench.new_program()) as program:
        x, mix, out = program.value(cols), program.value(used), program.value(cols)
        weights = [program.weight(int(_WEIGHTS), height, width, count) for height, width in shapes]
        (gate, up, down), begin = weights, 0
        for weight, size in zip(weights, sizes, strict=True):
            program.bind_weight(weight, bench.pool.view(), begin)
            begin += size * count
        for chosen in order:
            ids = program.value(used, ids=True)
            program.write(ids, chosen[None])
            program.experts(x, ids, mix, gate, up, down, out)
        return bench.seconds(_run(program, 1)) / len(order), used * sum(sizes)


def copy_seconds(bench: CardBench, extent: Extent, to_card: bool) -> dict[int, float]:
    """Of copies of several sizes between pinned memory and the card."""
    times: dict[int, float] = {}
    with _pinned(bench, extent.copies[-1]) as host:
        for size in extent.copies:
            repeats = max(1, min(_SMALL_COPIES, extent.copies[-1] // size))
            copy = _copies(bench, host.address, size, repeats, to_card)
            times[size] = bench.seconds(copy) / repeats
    return times


def pageable_seconds(bench: CardBench, extent: Extent, to_card: bool) -> float:
    """Of the largest copy from or to memory that the driver did not pin."""
    host = np.zeros(extent.copies[-1], np.uint8)
    host += 1  # is there from now on
    return bench.seconds_uncaptured(_copies(bench, host.ctypes.data, host.nbytes, 1, to_card))


def round_trip_seconds(bench: CardBench) -> float:
    """From the card to the processor, which has nothing to do, and back, in the middle of a captured step."""
    program = _cpu.Program("auto")
    program.finish()
    step, pool = _cpu.HostStep(), _cpu.ThreadPool(1)
    segments = [_cpu.HostSegment(step, program, pool, 0, 0) for _ in range(_ROUND_TRIPS)]
    card, host = bench.card, bench.card.streams["host"]
    over: HandOver = HostFunctions(card)
    if bench.device.hands_over_by_flags:
        over = MappedFlags(card, bench.device.kernels, bench.device.pinned, segments)
    events = [card.make("cuEventCreate", 2) for _ in range(2 * _ROUND_TRIPS)]  # CU_EVENT_DISABLE_TIMING
    batch = batch_of(1)

    def begin() -> None:
        step.begin(batch)
        over.begin()

    def emit() -> None:
        for number, segment in enumerate(segments):
            there, back = events[2 * number : 2 * number + 2]
            card.call("cuEventRecord", there, bench.stream)
            card.call("cuStreamWaitEvent", host, there, 0)
            over.put(segment)
            card.call("cuEventRecord", back, host)
            card.call("cuStreamWaitEvent", bench.stream, back, 0)

    try:
        with _pinned(bench, 1):  # ValueError where nothing is: there no step is captured
            return bench.seconds(emit, begin) / _ROUND_TRIPS
    except BaseException:
        over.cancel()
        raise
    finally:
        over.close()
        for event in events:
            card.call("cuEventDestroy_v2", event)


@contextmanager
def _pinned(bench: CardBench, size: int) -> Iterator[HostBuffer]:
    buffer = bench.device.pinned.pin(size)
    if buffer is None:
        raise ValueError("the system pins no memory")
    try:
        yield buffer
    finally:
        bench.device.pinned.free(buffer)


def _copies(bench: CardBench, host: int, size: int, repeats: int, to_card: bool) -> Callable[[], None]:
    to, source = (bench.pool.address, host) if to_card else (host, bench.pool.address)

    def copy() -> None:
        for _ in range(repeats):
            bench.card.call("cuMemcpyAsync", to, source, size, bench.stream)

    return copy


def _run(program: CudaProgram, tokens: int, depth: int = 0) -> Callable[[], None]:
    program.finish(fuse=False)
    batch = batch_of(tokens, depth, _BLOCK)
    return lambda: program.run(None, batch)
