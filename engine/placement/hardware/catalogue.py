"""Machines the owner does not have: GPUs and CPUs by name, with datasheet rates.

`catalogue.json` holds what datasheets say, each entry with its source. Here stands how much of it real programs
sustain, the same for every entry:

- RAM: READ_SHARE of the bus rate when all cores read (Intel MLC and AIDA64 report 0.83–0.92 on dual-channel desktops),
  or what the dies' links to the memory controller carry, where that is less (`fabric_gb`): a Zen 4 or Zen 5 die reads
  32 bytes per clock of the fabric, at 2 GHz, so that desktops with one die read 64 GB/s whatever their memory.
- GPU memory: GPU_READ_SHARE of the bus rate (device-to-device copies in NVIDIA's bandwidthTest reach 0.85–0.92).
- GPU prefill: TENSOR_SHARE of the dense FP16 tensor peak. llama.cpp's quantised products reach 0.3–0.45 of it.
- CPU arithmetic: int8 MAC per core and cycle, below, of the kernels' design; real rates come from the probe.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from engine.errors import EngineError
from engine.placement.hardware.profile import (
    ANY_TYPE,
    ATTENTION,
    ELEMENT_KINDS,
    FEW_SCORE,
    SCORE,
    DeviceProfile,
    HardwareProfile,
    KernelRates,
    Link,
    Points,
)

READ_SHARE = 0.86
GPU_READ_SHARE = 0.88
TENSOR_SHARE = 0.35
# A matrix of a few hundred KB, one of many, read by a whole GPU or by all cores: some of the stream is start and tail.
GPU_SCATTERED_SHARE = 0.7
CPU_SCATTERED_SHARE = 0.9
# MAC per core and cycle, by instruction set: (one token, many tokens). One token is bounded by unpacking the weights.
# Scalar kernels are those for correctness: 0.40 and 1.45 GMAC/s of Q4_K, 0.28 of F16, measured on a Zen 3 at 3.5 GHz.
_CYCLE_RATES = {
    "scalar": (0.11, 0.41),
    "avx2": (12.0, 18.0),
    "avx512": (16.0, 24.0),
    "avx512_vnni": (20.0, 42.0),
    "neon": (8.0, 12.0),
}
_FLOAT_CYCLE_RATES = {"scalar": 0.08, "avx2": 8.0, "avx512": 14.0, "avx512_vnni": 14.0, "neon": 4.0}
_FLOAT_TYPES = ("F16", "BF16", "F32")
# Norms, rotations and activations per core; on a GPU they run at the memory's speed, 12 bytes per value.
ELEMENTS_PER_CYCLE = 0.5
# Attention over a cache: of many short rows, nearly all of the reading adds to the computing (0.8 to 1.1 of it,
# measured on a Zen 3).
STALLS: Mapping[str, Points] = {ATTENTION: ((1, 1.0),)}
# An exponential and a sum, beside the multiplications of a key and a value.
_SCORE_MACS = 16
# Handing over between threads that wait for each other, per op of a captured program.
CPU_OP_SECONDS = 4e-6
# A kernel inside a CUDA graph.
GPU_OP_SECONDS = 2.5e-6
# From the end of a kernel through a flag in mapped memory to work on the other side.
SWITCH_SECONDS = 12e-6
COPY_LATENCY = 8e-6
PINNED_SHARE = 0.82
PAGEABLE_SHARE = 0.4
# GB/s per lane and direction, after line coding.
_LANE_RATES = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9}
_GB = 10**9
_GIB = 1 << 30

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class CatalogueGPU:
    """`processors`: streaming multiprocessors, `ghz`: their boost clock, `tensor_ops`: dense FP16 tensor operations of
    one per clock with FP32 accumulation, which GeForce cards do at half the rate; `gbit`: of the memory, per pin and
    second.
    """

    name: str
    memory_gib: float
    processors: int
    ghz: float
    tensor_ops: int
    bus_bits: int
    gbit: float
    pcie: int
    lanes: int
    source: str

    @property
    def bandwidth_gb(self) -> float:
        return self.bus_bits * self.gbit / 8

    @property
    def fp16_tensor_tflops(self) -> float:
        return self.processors * self.ghz * self.tensor_ops / 1e3


@dataclass(frozen=True, slots=True)
class CatalogueCPU:
    """`cores`: those with the full clock, where a processor has two kinds; `ghz`: a clock they all sustain;
    `transfers`: millions per second of each channel of 8 bytes, of the fastest memory that the vendor supports;
    `fabric_gb`: see above.
    """

    name: str
    cores: int
    ghz: float
    isa: str
    channels: int
    transfers: int
    ram_gib: float
    source: str
    fabric_gb: float = math.inf

    @property
    def bandwidth_gb(self) -> float:
        """Of the memory's bus."""
        return self.channels * self.transfers * 8 / 1e3


class UnknownDeviceError(EngineError):
    """No catalogue entry of that name."""


@cache
def _data() -> dict[str, Any]:
    text = (Path(__file__).parent / "catalogue.json").read_text("utf-8")
    return dict(json.loads(text))


@cache
def gpus() -> tuple[CatalogueGPU, ...]:
    return tuple(CatalogueGPU(**entry) for entry in _data()["gpus"])


@cache
def cpus() -> tuple[CatalogueCPU, ...]:
    return tuple(CatalogueCPU(**entry) for entry in _data()["cpus"])


def knows_isa(tier: str) -> bool:
    """Whether there are rates for processors of this tier."""
    return tier in _CYCLE_RATES


def find_gpu(name: str) -> CatalogueGPU:
    return _find(name, {gpu.name: gpu for gpu in gpus()}, "GPU")


def find_cpu(name: str) -> CatalogueCPU:
    return _find(name, {cpu.name: cpu for cpu in cpus()}, "CPU")


def _find(name: str, entries: dict[str, Entry], what: str) -> Entry:
    """By name, whatever its case and spacing, or by an ending that only one entry has ("4090")."""

    def plain(text: str) -> str:
        return "".join(c for c in text.lower() if c.isalnum())

    wanted = plain(name)
    exact = [entry for key, entry in entries.items() if plain(key) == wanted]
    partial = [entry for key, entry in entries.items() if wanted and wanted in plain(key)]
    if exact or len(partial) == 1:
        return (exact or partial)[0]
    close = [key for key in entries if wanted and wanted in plain(key)]
    close = close or get_close_matches(name, list(entries), 3, 0.6)
    raise UnknownDeviceError(
        f"No {what} named “{name}” is in the catalogue.",
        remedy=f"Did you mean: {', '.join(close)}?" if close else f"Write it as “{next(iter(entries))}” is written.",
    )


def same_family(entry: str, reported: str) -> bool:
    """Is "RTX 3060 12GB" what a driver calls "NVIDIA GeForce RTX 3060"? Memory sizes are compared elsewhere."""

    def words(text: str) -> list[str]:
        skipped = {"nvidia", "geforce", "gpu", "tesla", "pcie", "generation", "workstation", "edition"}
        found = text.lower().replace("-", " ").split()
        return [word for word in found if word not in skipped and not word.endswith("gb")]

    return words(entry) == words(reported)


def cpu_profile(cpu: CatalogueCPU, ram_bytes: int | None = None) -> DeviceProfile:
    one, many = (rate * cpu.cores * cpu.ghz * 1e9 for rate in _CYCLE_RATES[cpu.isa])
    floats = _FLOAT_CYCLE_RATES[cpu.isa] * cpu.cores * cpu.ghz * 1e9
    points: dict[str, tuple[tuple[int, float], ...]] = {ANY_TYPE: ((1, one), (64, many))}
    points |= dict.fromkeys(_FLOAT_TYPES, ((1, floats), (64, floats)))
    points[ATTENTION] = ((1, floats / 2), (64, floats / 2))
    return DeviceProfile(
        name=cpu.name,
        memory_bytes=int(cpu.ram_gib * _GIB) if ram_bytes is None else ram_bytes,
        bandwidth=min(cpu.bandwidth_gb * READ_SHARE, cpu.fabric_gb) * _GB,
        kernels=KernelRates(points),
        op_seconds=CPU_OP_SECONDS,
        element_rates=dict.fromkeys(ELEMENT_KINDS, cpu.cores * cpu.ghz * 1e9 * ELEMENTS_PER_CYCLE),
        threads=cpu.cores,
        scattered_share=CPU_SCATTERED_SHARE,
        stalls=STALLS,
    )


def gpu_profile(gpu: CatalogueGPU) -> DeviceProfile:
    peak = gpu.fp16_tensor_tflops * 1e12 / 2  # one MAC is two operations
    # One token is never bound by arithmetic here; a handful of tokens are read-bound as well.
    points = {ANY_TYPE: ((1, peak / 8), (64, peak * TENSOR_SHARE)), ATTENTION: ((1, peak / 8), (64, peak / 6))}
    elements = dict.fromkeys(ELEMENT_KINDS, gpu.bandwidth_gb * _GB * GPU_READ_SHARE / 12)
    return DeviceProfile(
        name=gpu.name,
        memory_bytes=int(gpu.memory_gib * _GIB),
        bandwidth=gpu.bandwidth_gb * _GB * GPU_READ_SHARE,
        kernels=KernelRates(points),
        op_seconds=GPU_OP_SECONDS,
        element_rates=elements | dict.fromkeys((SCORE, FEW_SCORE), peak / 8 / _SCORE_MACS),
        scattered_share=GPU_SCATTERED_SHARE,
        stalls=STALLS,
    )


def link_profile(gpu: CatalogueGPU) -> Link:
    rate = _LANE_RATES[gpu.pcie] * gpu.lanes
    return Link(
        to_gpu=rate * PINNED_SHARE,
        to_cpu=rate * PINNED_SHARE,
        pageable=rate * PAGEABLE_SHARE,
        latency=COPY_LATENCY,
        switch_seconds=SWITCH_SECONDS,
    )


def with_gpu(own: HardwareProfile, name: str) -> HardwareProfile:
    """The machine with a card of the catalogue in the place of its own. UnknownDeviceError names close matches."""
    gpu = find_gpu(name)
    return replace(
        own,
        gpu=gpu_profile(gpu),
        link=link_profile(gpu),
        drives_display=False,
        source="mixed",
        notes=(),
        card_measured=None,
    )


def machine(
    cpu: str | CatalogueCPU, gpu: str | CatalogueGPU | None = None, ram_bytes: int | None = None
) -> HardwareProfile:
    """A machine from the catalogue. UnknownDeviceError names close matches."""
    chosen_cpu = find_cpu(cpu) if isinstance(cpu, str) else cpu
    chosen_gpu = find_gpu(gpu) if isinstance(gpu, str) else gpu
    return HardwareProfile(
        cpu=cpu_profile(chosen_cpu, ram_bytes),
        gpu=gpu_profile(chosen_gpu) if chosen_gpu else None,
        link=link_profile(chosen_gpu) if chosen_gpu else None,
        disk_bandwidth=2.0 * _GB,
        source="datasheet",
    )
