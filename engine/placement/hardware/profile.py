"""HardwareProfile: what a machine can do, as plain numbers with where they come from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, TypeVar

from engine.gguf import QuantType

ANY_TYPE = "*"
ATTENTION = "attention"
PRODUCT = "product"
EXPERTS = "experts"
Points = tuple[tuple[int, float], ...]  # (tokens, value), tokens rising, values above zero
NORM, ROPE, GLU, ADD, PACK, SCORE, FEW_SCORE = "norm", "rope", "glu", "add", "pack", "score", "few-score"
ELEMENT_KINDS = (NORM, ROPE, GLU, ADD, PACK, SCORE, FEW_SCORE)
ELEMENT_TOKENS = 128  # with which these are measured: a prompt's values, unlike one token's, outgrow the nearest caches
FEWEST_IN_PANELS = 4  # tokens of a product; fewer are multiplied straight from rows in most tiers
# Whose rate a type takes where its own was not measured: by how products are made (kernels/cpu/README.md).
NEAREST_TYPE = {
    **dict.fromkeys(("IQ4_NL", "IQ4_XS", "IQ3_XXS", "IQ2_S", "IQ2_XS", "IQ2_XXS"), "Q8_0"),  # 8-bit values
    **dict.fromkeys(("Q8_1", "Q8_K"), "Q8_0"),
    **dict.fromkeys(("IQ3_S", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0"), "Q3_K"),  # small ones, a centre
    **dict.fromkeys(("MXFP4", "NVFP4"), "Q5_0"),
}
COMMON_TYPES = ("Q4_K", "Q6_K", "F32", "Q8_0", "Q5_K", "F16", "MXFP4", "Q4_0", "Q4_1", "IQ4_XS", "BF16", "Q3_K", "Q2_K")


def common_first(types: Iterable[QuantType]) -> list[QuantType]:
    """In the order in which they are measured, for as long as there is time."""
    return sorted(types, key=lambda kind: (*COMMON_TYPES, kind.name).index(kind.name))


T = TypeVar("T")


def of_type(measured: Mapping[str, T], type_name: str) -> T | None:
    """What was measured of a type, or of its NEAREST_TYPE, or of any."""
    nearest = NEAREST_TYPE.get(type_name, ANY_TYPE)
    return next((measured[name] for name in (type_name, nearest, ANY_TYPE) if name in measured), None)


@dataclass(frozen=True, slots=True)
class KernelRates:
    """Arithmetic speed per tensor type: `points[type] = ((tokens, MAC/s), …)` in rising order of tokens.

    Rates are of data in cache: memory traffic is priced apart. A type without a row takes that of its NEAREST_TYPE,
    or else `points["*"]`; `points["attention"]` holds for scores and mixing of values, by the query rows that share a
    key: tokens × heads per KV head.
    """

    points: Mapping[str, Points]

    def rate(self, type_name: str, tokens: float) -> float:
        """MAC/s at a batch of `tokens`, interpolated on logarithmic axes."""
        points = of_type(self.points, type_name)
        assert points is not None  # a profile has rates of ANY_TYPE
        return _between(points, tokens)


def _between(points: Points, tokens: float) -> float:
    """The value at `tokens`, interpolated on logarithmic axes, and constant beyond the ends."""
    if tokens <= points[0][0]:
        return points[0][1]
    for (low, low_value), (high, high_value) in pairwise(points):
        if tokens <= high:
            share = math.log(tokens / low) / math.log(high / low)
            return float(low_value * (high_value / low_value) ** share)
    return points[-1][1]


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """`bandwidth`: sustained reading of weights by all threads. `op_seconds`: fixed cost of one op of a program.

    `element_rates`: values per second of the element-wise work (ELEMENT_KINDS) that stands between products: PACK is
    the quantisation of a product's input, SCORE the softmax, FEW_SCORE that of one token. `stalls`: of PRODUCT in
    panels, and where they were measured of a prompt's EXPERTS, by tokens, and of ATTENTION, by the query rows that
    share a key, how much of the time of reading adds to that of computing; `row_stalls`: the same of products straight
    from rows, by type. `row_seconds`: what each row of such a product takes beside its arithmetic. `start_seconds`:
    what each input of such products adds in a token, where another thread has just written it. `step_seconds`: what a
    step takes beside its operations, where weights have driven its caller's data out of the caches. `scattered_share`:
    share of the bandwidth that is left when small matrices from all over memory are read (experts).
    `bandwidth_by_threads` is empty where nothing was measured. `pace`: MAC/s of the probe's reference products, by
    tokens, to compare moments by.
    """

    name: str
    memory_bytes: int
    bandwidth: float
    kernels: KernelRates
    op_seconds: float
    element_rates: Mapping[str, float]
    threads: int = 1
    scattered_share: float = 1.0
    bandwidth_by_threads: Mapping[int, float] = field(default_factory=dict)
    stalls: Mapping[str, Points] = field(default_factory=dict)
    row_stalls: Mapping[str, float] = field(default_factory=dict)
    row_seconds: float = 0.0
    start_seconds: float = 0.0
    step_seconds: float = 0.0
    pace: Points = ()

    def seconds(self, kind: str, tokens: float, reading: float, computing: float) -> float:
        """Of a PRODUCT in panels, EXPERTS, or ATTENTION, that reads and computes for so long, side by side but for what
        stalls. `tokens`: of attention, query rows that share a key."""
        points = self.stalls.get(kind)
        return max(reading, computing + (_between(points, tokens) * reading if points else 0.0))

    def seconds_from_rows(self, type_name: str, rows: float, reading: float, computing: float) -> float:
        """Of a product straight from `rows` rows, once its weights stream."""
        stalled = (of_type(self.row_stalls, type_name) or 0.0) * reading
        return max(reading, computing + rows * self.row_seconds + stalled)

    def slowed(self, factor: float) -> DeviceProfile:
        """Everything but reading takes `factor` times longer."""
        return self._slowed_by(lambda tokens: factor)

    def at_pace(self, pace: Points) -> DeviceProfile:
        """Everything but reading takes as much longer as a reference of about as many tokens does."""
        return self._slowed_by(lambda tokens: _between(self.pace, tokens) / _between(pace, tokens))

    def _slowed_by(self, factor: Callable[[float], float]) -> DeviceProfile:
        def slower(points: Points) -> Points:
            return tuple((tokens, rate / factor(tokens)) for tokens, rate in points)

        return replace(
            self,
            kernels=KernelRates({name: slower(points) for name, points in self.kernels.points.items()}),
            op_seconds=self.op_seconds * factor(1),
            row_seconds=self.row_seconds * factor(1),
            step_seconds=self.step_seconds * factor(1),
            pace=slower(self.pace),
            element_rates={kind: rate / factor(ELEMENT_TOKENS) for kind, rate in self.element_rates.items()},
        )


@dataclass(frozen=True, slots=True)
class Link:
    """The bus between RAM and VRAM. `pageable`: the slower way, without pinned memory; `latency`: of one small copy;
    `switch_seconds`: handing a step to the other device and noticing that it is done, one way."""

    to_gpu: float
    to_cpu: float
    pageable: float
    latency: float
    switch_seconds: float


@dataclass(frozen=True, slots=True)
class HardwareProfile:
    """A machine. `source` is "measured", "datasheet" or "mixed"; numbers that are not measured are labelled so.

    `others_load`: share of all processors that other programs took while it was measured. `card_measured`: what of its
    GPU and link was measured, by the names of gpu_probe; the rest is the datasheet's. None: nobody tried.
    """

    cpu: DeviceProfile
    gpu: DeviceProfile | None = None
    link: Link | None = None
    disk_bandwidth: float = 0.0
    platform: Literal["linux", "windows", "macos"] = "linux"
    drives_display: bool = False
    source: Literal["measured", "datasheet", "mixed"] = "datasheet"
    notes: tuple[str, ...] = field(default=())
    others_load: float = 0.0
    card_measured: tuple[str, ...] | None = None

    def with_ram(self, ram_bytes: int) -> HardwareProfile:
        return replace(self, cpu=replace(self.cpu, memory_bytes=ram_bytes))

    def with_bandwidth(self, bandwidth: float) -> HardwareProfile:
        """The same machine with a RAM bandwidth just probed: some machines' flips within minutes."""
        return replace(self, cpu=replace(self.cpu, bandwidth=bandwidth))

    def with_pace(self, pace: Points) -> HardwareProfile:
        """The same machine while its CPU computes at another pace than when it was measured; () where it is unknown."""
        return replace(self, cpu=self.cpu.at_pace(pace)) if self.cpu.pace and pace else self

    def with_threads(self, threads: int) -> HardwareProfile:
        """The same machine with so many of the CPU's threads at work: its bandwidth as measured with them (or with the
        next fewer that were), its arithmetic in proportion."""
        cpu = self.cpu
        if threads == cpu.threads or not cpu.bandwidth_by_threads:
            return self
        nearest = max((n for n in cpu.bandwidth_by_threads if n <= threads), default=min(cpu.bandwidth_by_threads))
        changed = cpu.slowed(cpu.threads / threads)
        changed = replace(changed, op_seconds=cpu.op_seconds, step_seconds=cpu.step_seconds, threads=threads)
        return replace(self, cpu=replace(changed, bandwidth=cpu.bandwidth_by_threads[nearest]))

    @property
    def label(self) -> str:
        return f"{self.gpu.name} + {self.cpu.name}" if self.gpu else self.cpu.name
