"""Simulated against published speeds: `python -m tests.bench.published`.

Rows of `published.csv` are judged (llama.cpp with a GPU), reference (other systems), or calibration: CPU-only rows,
from which the one share of bandwidth was taken, and rows wholly on a GPU, from which the one cost per op was taken.
"""

from __future__ import annotations

import csv
import math
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from engine.placement.budget import Budget, GiB, recommended_budget
from engine.placement.costs import Workload
from engine.placement.hardware.catalogue import find_cpu, machine
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.items import Device
from engine.placement.planner import Planner
from engine.placement.prefetch import choose_passing
from engine.placement.rivals import Rival, Rivals
from engine.placement.shape import ModelShape
from engine.placement.simulator import choice_of, simulate
from engine.placement.step_times import Choice, StepTimes

HERE = Path(__file__).parent
LARGEST = (
    "deepseek-v3-q4_k_m",
    "kimi-k2-q4_k_m",
    "glm-4.5-q4_k_m",
    "qwen3-235b-a22b-q4_k_m",
    "llama-4-scout-q4_k_m",
)  # without a published row on a desktop
EXACT = 0.25  # a row whose simulated llama.cpp is further off than this says nothing of ratios to it


@dataclass(frozen=True, slots=True)
class PublishedRow:
    model: str
    gpu: str
    cpu: str
    threads: str  # of the CPU's cores; all of them where empty
    isa: str  # that the system's kernels use, where it is not the CPU's best
    bandwidth_gb: str  # sustained, where the datasheet's is not what the cores read
    system: str
    setting: str
    context: int
    depth: int
    prefill: str
    decode: float
    use: str
    source: str
    note: str

    @property
    def shape(self) -> ModelShape:
        return read_shape(self.model)

    @property
    def hardware(self) -> HardwareProfile:
        cpu = find_cpu(self.cpu)
        cpu = replace(cpu, cores=int(self.threads or cpu.cores), isa=self.isa or cpu.isa)
        profile = machine(cpu, self.gpu or None, ram_bytes=1 << 40)
        return profile.with_bandwidth(float(self.bandwidth_gb) * 1e9) if self.bandwidth_gb else profile

    @property
    def work(self) -> Workload:
        return Workload(context=self.context, prompt=max(1, self.depth), depth=self.depth)

    @property
    def rivals(self) -> Rivals:
        return Rivals(self.shape, self.hardware, self.work, recommended_budget(self.hardware))

    def simulated(self) -> Rival | None:
        """This row's system with this row's setting, or its best where none is named."""
        rivals = self.rivals
        if self.system == "KTransformers":
            return rivals.static_hot_list(int(self.setting.split()[0]))
        if self.system == "ATSInfer":
            return rivals.operator_knapsack()
        if self.setting.startswith("--n-cpu-moe"):
            return rivals.expert_layers(first=True, layers=int(self.setting.split()[1]))
        return rivals.whole_layers()

    @property
    def error(self) -> float | None:
        """Simulated over published, less one."""
        rival = self.simulated()
        return rival.speeds.decode / self.decode - 1 if rival else None


@cache
def read_shape(stem: str) -> ModelShape:
    return ModelShape.from_shape_file(HERE / "shapes" / f"{stem}.json")


@cache
def published_rows() -> tuple[PublishedRow, ...]:
    with (HERE / "published.csv").open(newline="", encoding="utf-8") as file:
        rows = [
            PublishedRow(
                **{**row, "context": int(row["context"]), "depth": int(row["depth"]), "decode": float(row["decode"])}
            )
            for row in csv.DictReader(file)
        ]
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Our plan, as it is run, beside the rivals on one row's machine, all simulated."""

    row: PublishedRow
    ours: float
    without_locality: float  # the same slots, were every expert used alike
    hit_rate: float | None
    best_llama_cpp: Rival
    best_rival: Rival
    bound: float | None  # tokens/s of the physical bound, for dense models


def comparisons() -> Iterator[Comparison]:
    """For each row of the paper's eight llama.cpp rows."""
    for row in published_rows():
        if row.system == "llama.cpp" and row.source.startswith("ATSInfer"):
            yield compare(row)


def unpublished() -> Iterator[Comparison]:
    """The largest models on a desktop of the paper's, with memory for them: simulated on both sides."""
    desktop = next(row for row in published_rows() if row.gpu == "RTX 4090" and row.system == "llama.cpp")
    for stem in LARGEST:
        yield compare(replace(desktop, model=stem, decode=math.nan))


def compare(row: PublishedRow) -> Comparison:
    hardware, shape = row.hardware, row.shape
    planner = Planner(shape, hardware, row.work)
    plan = planner.plan(recommended_budget(hardware))
    run, choice = simulate(plan, planner.times), choice_of(plan)
    rivals = row.rivals
    best = max(rivals.all(), key=lambda rival: rival.speeds.decode)
    writing = choice.keeping(choose_passing(planner.times, choice, decode=True).kept)
    bound = None if shape.is_moe else 1 / bound_seconds(planner.times, writing)
    even = [np.arange(bank.count + 1) / bank.count for bank in planner.banks]
    unlucky = StepTimes(shape, hardware, row.work, hit_rates=even).seconds(choice, decode=True)
    best_llama_cpp = rivals.best_llama_cpp()
    return Comparison(row, run.speeds.decode, 1 / unlucky, run.speeds.hit_rate, best_llama_cpp, best, bound)


def bound_seconds(times: StepTimes, choice: Choice) -> float:
    """A dense token's least time under this split: every weight and KV byte read once, at sustained bandwidth, by the
    device it lies on; layers depend on each other, so the two do not overlap. But while the GPU computes, RAM is free,
    and as much of the CPU's part as the link carries meanwhile may be copied for later."""
    hardware = times.hardware
    assert hardware.gpu is not None and hardware.link is not None
    seconds = {Device.CPU: 0.0, Device.GPU: 0.0}
    for item, on_gpu in zip(times.model.items, choice.on_gpu, strict=True):
        where, device = (Device.GPU, hardware.gpu) if on_gpu else (Device.CPU, hardware.cpu)
        read = sum(m.bytes for m in item.matrices) if item.layer >= 0 or item.ops > 1 else 0
        if item.state:
            read += item.state.read_bytes(times.work.depth, times.work.value_bytes)
        seconds[where] += read / device.bandwidth
    copied = seconds[Device.GPU] * hardware.link.to_gpu / hardware.cpu.bandwidth
    return seconds[Device.GPU] + max(0.0, seconds[Device.CPU] - copied)


def main() -> None:
    print("Decode, tok/s; everything but 'published' is simulated\n")
    print(f"{'model':27} {'machine':36} {'system':14} {'setting':15} {'published':>9} {'simulated':>9} {'error':>6}")
    for row in published_rows():
        rival = row.simulated()
        found = f"{rival.speeds.decode:9.1f} {100 * row.error:+5.0f} %" if rival else "does not fit"
        where = f"{row.gpu} + {row.cpu}" if row.gpu else row.cpu
        print(f"{row.model:27} {where:36} {row.system:14} {row.setting:15} {row.decode:9.1f} {found}  {row.use}")
        if row.error is not None and abs(row.error) > EXACT:
            print(f"{'':27} {row.note}")
    for use in ("judged", "cpu-calibration", "gpu-calibration"):
        errors = [abs(row.error) for row in published_rows() if row.use == use and row.error is not None]
        print(f"median |error| of {use} rows: {100 * statistics.median(errors):.0f} % ({len(errors)} rows)")
    print("\nplans as they are run; ratio: to llama.cpp's best setting; even: were every expert used alike")
    print(f"{'model':27} {'ours':>6} {'hits':>5} {'llama.cpp':>9} {'ratio':>6} {'even':>6} {'best rival':>30}  bound")
    for c in comparisons():
        error = c.row.error
        counts = "" if error is not None and abs(error) <= EXACT else "  (llama.cpp row is off: does not count)"
        print(line_of(c) + counts)
    print("\nthe same without a published row, on an RTX 4090 with a Core i7-11700 and a terabyte of memory")
    for c in unpublished():
        print(line_of(c))
    print("\nplanning: processor milliseconds from nothing, and again after a slider move")
    for stem in ("qwen3-30b-a3b-q4_k_m", "deepseek-v3-q4_k_m", "llama-3.1-70b-q4_k_m"):
        first, again = planning_seconds(stem)
        print(f"{stem:27} {1e3 * first:6.1f} {1e3 * again:6.2f}")


def line_of(c: Comparison) -> str:
    bound = f"{100 * c.ours / c.bound:.1f} % of {c.bound:.1f}" if c.bound else ""
    hits = f"{100 * c.hit_rate:.0f} %" if c.hit_rate is not None else "-"
    rival = f"{c.best_rival.strategy} {c.best_rival.speeds.decode:.1f}"
    best = c.best_llama_cpp.speeds.decode
    ratios = f"{c.ours / best:5.2f}x {c.without_locality / best:5.2f}x"
    return f"{c.row.model:27} {c.ours:6.1f} {hits:>5} {best:9.1f} {ratios} {rival:>30}  {bound}"


def planning_seconds(stem: str) -> tuple[float, float]:
    """Medians of five."""
    shape, hardware = read_shape(stem), machine("Core i7-11700", "RTX 4090", ram_bytes=1 << 40)
    firsts, moves = [], []
    for round_number in range(5):
        begin = time.process_time()
        planner = Planner(shape, hardware)
        planner.plan(Budget(20 * GiB))
        firsts.append(time.process_time() - begin)
        begin = time.process_time()
        planner.plan(Budget(20 * GiB - (round_number + 1) * GiB // 10))
        moves.append(time.process_time() - begin)
    return statistics.median(firsts), statistics.median(moves)


if __name__ == "__main__":
    main()
