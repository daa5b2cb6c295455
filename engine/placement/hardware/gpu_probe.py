"""Measures a card: its memory, kernels per type and batch, fixed costs, copies both ways, and handing over to the CPU.

The CPU's probe times kernels on data in cache and prices reading apart. Here weights come from the card's memory and
are read while the card computes; the cost model takes the longer of reading and computing, so a rate that holds some
reading predicts what was timed. What a card refuses, or what time does not suffice for, stays as the datasheet has it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from engine.errors import OutOfMemoryError
from engine.gguf import QuantType
from engine.gguf.quant_types import known_type
from engine.placement.hardware.card_bench import CardBench, TimeIsUpError
from engine.placement.hardware.card_kernels import FAILURES, CompiledKernels, Progress, compiling
from engine.placement.hardware.card_works import (
    Extent,
    attention_seconds,
    copy_seconds,
    element_seconds,
    experts_seconds,
    pack_seconds,
    pageable_seconds,
    product_seconds,
    round_trip_seconds,
    tiny_op_seconds,
)
from engine.placement.hardware.probe import CARD_SECONDS
from engine.placement.hardware.profile import (
    ADD,
    ANY_TYPE,
    ATTENTION,
    COMMON_TYPES,
    GLU,
    NORM,
    PACK,
    ROPE,
    SCORE,
    DeviceProfile,
    HardwareProfile,
    KernelRates,
    Link,
    Points,
    common_first,
)
from engine.runtime.devices.cuda.device import CudaDevice
from engine.runtime.devices.cuda.find import FoundCard
from kernels.cuda import source
from kernels.cuda.kernel_set import LaunchError

Found = TypeVar("Found")

_FAILURES = (LaunchError, OutOfMemoryError, MemoryError, ValueError, TimeIsUpError, *FAILURES)


@dataclass(frozen=True, slots=True)
class Part:
    """Of the profile; `units` of kernels are needed for it."""

    name: str
    units: tuple[str, ...] = ()


MEMORY = Part("memory bandwidth")
COPIES = Part("copies over the link")
PAGEABLE = Part("copies from pageable memory")
FIXED = Part("the cost of an operation", ("rows", "matvec_q8_0"))
SWITCH = Part("handing over to the processor", ("rows", "flags"))
ELEMENTS = Part("norms, rotations, activations", ("rows",))
CACHE = Part("attention over a cache", ("attention_f16", "prefill_f16", "rows"))
EXPERTS = Part("experts from all over memory", ("rows", "matvec_q4_k"))
PRODUCTS = Part("matrix products")
PARTS = (MEMORY, COPIES, PAGEABLE, FIXED, SWITCH, ELEMENTS, EXPERTS, CACHE, PRODUCTS)


def with_measured_card(
    machine: HardwareProfile,
    card: FoundCard,
    cache: Path,
    progress: Progress,
    extent: Extent | None = None,
    patience: float = CARD_SECONDS,
) -> HardwareProfile:
    """`machine`, with a GPU and link of the datasheet's, as far as its card can be measured now. `cache`: folder of
    compiled kernels. Nothing stays on the card."""
    assert machine.gpu is not None and machine.link is not None and card.driver is not None and card.facts is not None
    extent = extent or Extent()
    measured: tuple[str, ...] = ()
    gpu, link = machine.gpu, machine.link
    with suppress(*_FAILURES), compiling(card.capability, cache, _order()) as kernels:
        kernels.wait(progress)
        with _bench(card, cache, extent, time.monotonic() + patience) as bench:
            bench.warm_up(extent.warming_seconds)
            probe = _Probe(bench, extent, kernels, progress)
            gpu, link = probe.link_and_memory(gpu, link)
            gpu, link = probe.fixed_costs(gpu, link)
            gpu = probe.rates(gpu)
            measured = tuple(probe.measured)
    progress(1.0, "")
    return _with_notes(replace(machine, gpu=gpu, link=link, card_measured=measured), gpu.name)


def _with_notes(machine: HardwareProfile, name: str) -> HardwareProfile:
    """Says what was measured and what was not."""
    measured = machine.card_measured or ()
    missing = [part.name for part in PARTS if part.name not in measured]
    if measured:
        said = [
            f"The speed of {name} was measured here.",
            *(f"Not measured but of its datasheet: {m}." for m in missing),
        ]
        untimed = [kind.name for kind in _types() if _product(kind).name not in measured]
        if untimed and PRODUCTS.name in measured:
            said.append(f"Products of these types count as those of the nearest one: {', '.join(untimed)}.")
    else:
        said = [f"The speed of {name} could not be measured: it is from its datasheet."]
    return replace(machine, source="mixed" if missing else "measured", notes=(*machine.notes, " ".join(said)))


def _types() -> list[QuantType]:
    """That the card has kernels for, the most common first."""
    return common_first(kind for kind in map(known_type, source.WEIGHT_TYPES) if kind is not None)


def _order() -> list[str]:
    """Units of kernels, in the order in which they are missed most."""
    common = [kind for kind in _types() if kind.name in COMMON_TYPES]
    return [unit for part in (*PARTS, *map(_product, common)) for unit in part.units]


def _product(kind: QuantType) -> Part:
    name = source.WEIGHT_TYPES[int(kind)]
    return Part(f"products of {kind.name}", (f"matvec_{name}", f"matmul_{name}", "rows"))


@contextmanager
def _bench(card: FoundCard, cache: Path, extent: Extent, until: float) -> Iterator[CardBench]:
    """On the card, for as long as it takes; ValueError where others left it too little."""
    assert card.driver is not None and card.facts is not None
    device = CudaDevice(card.driver, cache, card.facts)
    try:
        if device.card.free_bytes < device.card.context_bytes + extent.bytes:
            raise ValueError("too little memory is free on the card")
        bench = CardBench(device, extent.pool_bytes, extent.workspace_bytes, until)
        try:
            yield bench
        finally:
            bench.close()
    finally:
        with suppress(LaunchError):
            device.close()


@dataclass
class _Probe:
    """Each method gives what it was given with what could be measured in its place, and notes in `measured` what."""

    bench: CardBench
    extent: Extent
    kernels: CompiledKernels
    progress: Progress

    def __post_init__(self) -> None:
        self.measured: list[str] = []
        self._op_seconds = 0.0

    def link_and_memory(self, gpu: DeviceProfile, link: Link) -> tuple[DeviceProfile, Link]:
        bench, extent = self.bench, self.extent
        seconds = self._attempt(MEMORY, 0.0, lambda: bench.seconds(bench.move_half))
        if seconds:
            gpu = replace(gpu, bandwidth=2 * bench.half_bytes / seconds)  # read and written
        both = self._attempt(COPIES, 0.05, lambda: [_line(copy_seconds(bench, extent, up)) for up in (True, False)])
        if both:
            (to_gpu, up_latency), (to_cpu, down_latency) = both
            link = replace(link, to_gpu=to_gpu, to_cpu=to_cpu, latency=max(up_latency, down_latency))
        slower = self._attempt(PAGEABLE, 0.1, lambda: max(pageable_seconds(bench, extent, up) for up in (True, False)))
        if slower:
            link = replace(link, pageable=extent.copies[-1] / slower)
        return gpu, link

    def fixed_costs(self, gpu: DeviceProfile, link: Link) -> tuple[DeviceProfile, Link]:
        op_seconds = self._attempt(FIXED, 0.15, lambda: tiny_op_seconds(self.bench))
        if op_seconds:
            gpu = replace(gpu, op_seconds=op_seconds)
        self._op_seconds = gpu.op_seconds
        there_and_back = self._attempt(SWITCH, 0.2, lambda: round_trip_seconds(self.bench))
        if there_and_back:
            link = replace(link, switch_seconds=there_and_back / 2)
        return gpu, link

    def rates(self, gpu: DeviceProfile) -> DeviceProfile:
        """Attention holds its stalls and its softmax, but for the rate of that, which is the datasheet's."""
        elements = self._attempt(ELEMENTS, 0.25, self._element_rates)
        if elements:
            gpu = replace(gpu, element_rates={**gpu.element_rates, **elements})
        expert_bandwidth = self._attempt(EXPERTS, 0.3, self._expert_bandwidth)
        if expert_bandwidth:
            gpu = replace(gpu, scattered_share=min(1.0, expert_bandwidth / gpu.bandwidth))
        points = dict(gpu.kernels.points)
        attention = self._attempt(CACHE, 0.35, lambda: self._attention_rates(gpu.element_rates[SCORE]))
        if attention:
            points[ATTENTION] = attention
            gpu = replace(gpu, stalls={name: points for name, points in gpu.stalls.items() if name != ATTENTION})
        products = self._product_rates(gpu.element_rates[PACK])
        if products:
            points |= products | {ANY_TYPE: next(iter(products.values()))}
        return replace(gpu, kernels=KernelRates(points))

    def _product_rates(self, pack: float) -> dict[str, Points]:
        """Of as many types as there is time for, the most common first; the others take the first one's or that of
        their nearest."""
        found: dict[str, Points] = {}
        types = _types()
        for number, kind in enumerate(types):
            points = self._attempt(
                _product(kind), 0.4 + 0.6 * number / len(types), partial(self._points_of_product, kind, pack)
            )
            if points:
                found[kind.name] = points
        if found:
            self.measured.append(PRODUCTS.name)
        return found

    def _points_of_product(self, kind: QuantType, pack: float) -> Points:
        return tuple((tokens, self._product_rate(kind, tokens, pack)) for tokens in self.extent.batches)

    def _product_rate(self, kind: QuantType, tokens: int, pack: float) -> float:
        side = self.extent.side
        seconds = product_seconds(self.bench, self.extent, kind, tokens)
        return tokens * side * side / self._work_seconds(seconds, tokens * side / pack)

    def _attention_rates(self, score: float) -> Points:
        extent, heads = self.extent, self.extent.heads

        def rate(tokens: int, kv_heads: int) -> tuple[int, float]:
            seconds = self._work_seconds(attention_seconds(self.bench, extent, tokens, kv_heads))
            scores = tokens * heads * (extent.depth + (tokens + 1) / 2)
            macs = 2 * extent.head_dim * scores
            return tokens * heads // kv_heads, macs / max(seconds - scores / score, seconds / 2)

        return (rate(1, heads), rate(1, extent.kv_heads), rate(extent.prompt, extent.kv_heads))

    def _element_rates(self) -> dict[str, float]:
        values = self.extent.element_tokens * self.extent.side
        seconds = {kind: element_seconds(self.bench, self.extent, kind) for kind in (NORM, ROPE, GLU, ADD)}
        seconds[PACK] = pack_seconds(self.bench, self.extent)
        return {kind: values / self._work_seconds(took) for kind, took in seconds.items()}

    def _expert_bandwidth(self) -> float:
        """Bytes per second."""
        seconds, size = experts_seconds(self.bench, self.extent)
        return size / self._work_seconds(seconds)

    def _work_seconds(self, seconds: float, more: float = 0.0) -> float:
        """An operation's time without its fixed cost, which is taken to be half of it at most."""
        return max(seconds - self._op_seconds - more, seconds / 2)

    def _attempt(self, part: Part, fraction: float, measure: Callable[[], Found]) -> Found | None:
        """None where it fails, where its kernels are missing, or the time is up."""
        self.progress(fraction, f"{part.name} on the card")
        if not self.kernels.has(part.units):
            return None
        try:
            found = measure()
        except _FAILURES:
            return None
        self.measured.append(part.name)
        return found


def _line(times: Mapping[int, float]) -> tuple[float, float]:
    """Bytes per second, and seconds of latency, of copies: a line through their times by size, with the least squares
    of relative errors; where that has no such line, the largest's speed and the smallest's time."""
    sizes, seconds = np.array([*times], float), np.array([*times.values()], float)
    slope, latency = np.polyfit(sizes, seconds, 1, w=1 / seconds)
    if slope > 0 and latency > 0:
        return 1 / float(slope), float(latency)
    return float(sizes[-1] / seconds[-1]), float(seconds[0])
