"""How fast a layer's experts run as a function of how many of them have a slot on the GPU.

In decode the GPU computes a token's hits while the CPU computes its misses, and they join once: the expected time is
the mean of the longer of the two over the number of hits, taken as binomial around the hit rate. In prefill most
experts are touched; those without a slot are either computed on the CPU or streamed over the link to the GPU, so
split that both finish together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import comb

import numpy as np
import numpy.typing as npt

from engine.placement.costs import Workload, expert_decode_seconds, expert_prefill_seconds, tokens_through
from engine.placement.hardware.profile import DeviceProfile, HardwareProfile
from engine.placement.items import ExpertBank
from engine.placement.locality import PROMOTED_SHARE

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ExpertCurve:
    """Seconds per token (decode) and per chunk (prefill) of one layer's experts, indexed by slots 0 … count."""

    decode: FloatArray
    prefill: FloatArray
    cpu_decode: float  # in a layer that runs on the CPU altogether
    cpu_prefill: float


def cpu_only_curve(bank: ExpertBank, cpu: DeviceProfile, work: Workload) -> ExpertCurve:
    decode = cpu.op_seconds + bank.used * expert_decode_seconds(bank, cpu)
    prefill = cpu.op_seconds + expert_prefill_seconds(bank, cpu, tokens_through(bank, work))
    size = bank.count + 1
    return ExpertCurve(np.full(size, decode), np.full(size, prefill), decode, prefill)


def expert_curve(bank: ExpertBank, hardware: HardwareProfile, work: Workload, hit_rates: FloatArray) -> ExpertCurve:
    """The curve of a layer whose other items run on the GPU."""
    assert hardware.gpu is not None and hardware.link is not None
    alone = cpu_only_curve(bank, hardware.cpu, work)
    decode = np.minimum.accumulate(_decode(bank, hardware, hit_rates))
    prefill = np.minimum.accumulate(_prefill(bank, hardware, work))
    return ExpertCurve(decode, prefill, alone.cpu_decode, alone.cpu_prefill)


def _decode(bank: ExpertBank, hardware: HardwareProfile, hit_rates: FloatArray) -> FloatArray:
    cpu, gpu, link = hardware.cpu, hardware.gpu, hardware.link
    assert gpu is not None and link is not None
    hits = np.arange(bank.used + 1)
    misses = bank.used - hits
    on_gpu = np.where(hits > 0, gpu.op_seconds, 0.0) + hits * expert_decode_seconds(bank, gpu)
    away = 2 * (link.switch_seconds + link.latency) + cpu.op_seconds
    on_cpu = np.where(misses > 0, away + misses * expert_decode_seconds(bank, cpu), 0.0)
    ways = np.array([comb(bank.used, int(h)) for h in hits], np.float64)
    rates = hit_rates[:, None]
    chances = ways * rates**hits * (1 - rates) ** misses
    curve: FloatArray = chances @ np.maximum(on_gpu, on_cpu)
    # Promotions share the RAM's bandwidth with the misses that are computed meanwhile.
    promoted = PROMOTED_SHARE * bank.used * (1 - hit_rates) * bank.expert_bytes / cpu.bandwidth
    promoted[0] = 0.0
    return curve + promoted


@dataclass(frozen=True, slots=True)
class PrefillSplit:
    """A layer's experts in one chunk: seconds of each part, which run side by side, and of handing over."""

    gpu: FloatArray  # products of residents and of streamed experts
    cpu: FloatArray  # products of the others
    link: FloatArray  # the streamed experts' weights
    handing_over: FloatArray


def prefill_split(bank: ExpertBank, hardware: HardwareProfile, work: Workload) -> PrefillSplit:
    """Indexed by slots. Experts without one are shared out between CPU and link so that both finish together."""
    cpu, gpu, link = hardware.cpu, hardware.gpu, hardware.link
    assert gpu is not None and link is not None
    resident = np.arange(bank.count + 1) / bank.count
    on_gpu = expert_prefill_seconds(bank, gpu, tokens_through(bank, work))
    on_cpu = expert_prefill_seconds(bank, cpu, tokens_through(bank, work))
    streaming = bank.bytes / link.to_gpu
    streamed = on_cpu / (on_cpu + streaming)
    return PrefillSplit(
        gpu=on_gpu * (resident + (1 - resident) * streamed),
        cpu=on_cpu * (1 - resident) * (1 - streamed),
        link=streaming * (1 - resident) * streamed,
        handing_over=np.where(resident < 1, 2 * (link.switch_seconds + link.latency), 0.0),
    )


def _prefill(bank: ExpertBank, hardware: HardwareProfile, work: Workload) -> FloatArray:
    assert hardware.gpu is not None
    split = prefill_split(bank, hardware, work)
    longest: FloatArray = np.maximum(np.maximum(split.gpu, split.cpu), split.link)
    return longest + split.handing_over + hardware.gpu.op_seconds


def convex_gains(curve: FloatArray) -> FloatArray:
    """Seconds that each further slot saves, evened out so that they fall: slopes of the lower convex hull."""
    hull = [0]
    for at in range(1, len(curve)):
        while len(hull) > 1 and _above(curve, hull[-2], hull[-1], at):
            hull.pop()
        hull.append(at)
    gains = np.empty(len(curve) - 1)
    for left, right in pairwise(hull):
        gains[left:right] = (curve[left] - curve[right]) / (right - left)
    return gains


def _above(curve: FloatArray, left: int, middle: int, right: int) -> bool:
    """Does the middle point lie on or above the line between the outer two?"""
    line = curve[left] + (curve[right] - curve[left]) * (middle - left) / (right - left)
    return bool(curve[middle] >= line)
