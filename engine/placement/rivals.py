"""What other strategies would make of the same machine and budget, in the same cost model.

Whole layers and experts-of-n-layers are llama.cpp's `-ngl` and `--n-cpu-moe`, each with its best n. The static hot
list is KTransformers' way, the per-operator knapsack ATSInfer's, fetch on miss that of FreeToken and its like. All of
them are simulated here, none is run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from engine.placement.budget import Budget, gpu_limit, gpu_overhead
from engine.placement.chain import DeviceChain
from engine.placement.costs import (
    Workload,
    decode_seconds,
    expert_decode_seconds,
    expert_prefill_seconds,
    prefill_seconds,
    tokens_through,
)
from engine.placement.hardware.profile import DeviceProfile, HardwareProfile
from engine.placement.items import ItemKind, PlacementItem
from engine.placement.llama_cpp import llama_cpp_machine, llama_cpp_overhead
from engine.placement.locality import static_hit_rates
from engine.placement.plan import Speeds
from engine.placement.shape import ModelShape
from engine.placement.step_times import Choice, StepTimes

# llama.cpp copies weights in RAM to the card for batches from 32 tokens on (its `--op-offload`, which is the default);
# taken to be as good as our buffers for one block, though it does not copy and compute at once.
_OFFLOADED = 1


@dataclass(frozen=True, slots=True)
class Rival:
    """A strategy's best setting within the budget. `speeds` are simulated."""

    strategy: str
    setting: str
    speeds: Speeds
    gpu_bytes: int


class Rivals:
    """Rival strategies for one model on one machine. A strategy that cannot run within the budget is left out."""

    def __init__(self, shape: ModelShape, hardware: HardwareProfile, work: Workload, budget: Budget) -> None:
        self._shape = shape
        self._work = work
        self._hardware = hardware
        self._limit = gpu_limit(budget, hardware)
        self._theirs = StepTimes(shape, llama_cpp_machine(hardware), work)
        self._ours = StepTimes(shape, hardware, work)
        items = self._theirs.model.items
        self._sizes = [i.bytes + i.state_bytes(work.context, work.value_bytes, windows_only=True) for i in items]
        self._layer_of = [item.layer for item in items]
        self._kinds = [item.kind for item in items]

    def all(self) -> list[Rival]:
        found: list[Rival | None] = [self.whole_layers()]
        if self._theirs.model.banks and self._hardware.gpu:
            found += [
                self.expert_layers(first=True),
                self.expert_layers(first=False),
                self.all_experts_on_cpu(),
                self.static_hot_list(),
                self.fetch_on_miss(),
            ]
        if self._hardware.gpu:
            found.append(self.operator_knapsack())
        return [rival for rival in found if rival is not None]

    def best_llama_cpp(self) -> Rival:
        """The fastest decode of llama.cpp's own settings."""
        settings = [self.whole_layers()]
        if self._theirs.model.banks and self._hardware.gpu:
            settings += [self.expert_layers(first=True), self.expert_layers(first=False)]
        return max((s for s in settings if s), key=lambda s: s.speeds.decode)

    # --- llama.cpp --------------------------------------------------------------------------------------------

    def whole_layers(self, layers: int | None = None) -> Rival | None:
        """`-ngl n`: the last n - 1 layers and the head on the GPU; `layers`: that n, fit or not, not the best."""
        count = len(self._shape.layers)
        options = range(count + 2 if self._hardware.gpu else 1) if layers is None else [layers]
        return self._best(
            ((f"-ngl {n}", self._layer_choice(count + 1 - n if n else count + 1)) for n in options),
            must_fit=layers is None,
        )

    def expert_layers(self, first: bool, layers: int | None = None) -> Rival | None:
        """`--n-cpu-moe n`: all on the GPU but the experts of the first (or last) n layers that have any."""
        count = len(self._theirs.model.banks)
        options = range(count + 1) if layers is None else [layers]
        end = "first" if first else "last"
        return self._best(
            ((f"--n-cpu-moe {n} ({end} layers)", self._expert_choice(n, first)) for n in options),
            must_fit=layers is None,
        )

    def all_experts_on_cpu(self) -> Rival | None:
        count = len(self._theirs.model.banks)
        return self._best([("--cpu-moe", self._expert_choice(count, True))])

    def _layer_choice(self, start: int) -> Choice:
        """Layers from `start` on on the GPU; the head counts as the last."""
        count = len(self._shape.layers)
        on_gpu = tuple(
            kind is not ItemKind.EMBEDDING and (layer if kind is not ItemKind.OUTPUT else count) >= start
            for layer, kind in zip(self._layer_of, self._kinds, strict=True)
        )
        banks = self._theirs.model.banks
        slots = tuple(bank.count if bank.layer >= start else 0 for bank in banks)
        return Choice(on_gpu, slots, prefetch_depth=_OFFLOADED)

    def _expert_choice(self, on_cpu: int, first: bool) -> Choice:
        banks = self._theirs.model.banks
        order = range(len(banks)) if first else range(len(banks) - 1, -1, -1)
        away = set(list(order)[:on_cpu])
        slots = tuple(0 if i in away else bank.count for i, bank in enumerate(banks))
        return Choice(self._all_on_gpu(), slots)

    def _all_on_gpu(self) -> tuple[bool, ...]:
        return tuple(kind is not ItemKind.EMBEDDING for kind in self._kinds)

    def _best(self, options: Iterable[tuple[str, Choice]], must_fit: bool = True) -> Rival | None:
        best: tuple[float, str, Choice] | None = None
        for setting, choice in options:
            if must_fit and not self._fits(choice, llama_cpp_overhead(self._shape, self._work)):
                continue
            seconds = self._theirs.seconds(choice, decode=True)
            if best is None or seconds < best[0]:
                best = (seconds, setting, choice)
        if best is None:
            return None
        used = self._bytes(best[2]) + (llama_cpp_overhead(self._shape, self._work) if best[2].uses_gpu else 0)
        speeds = replace(self._theirs.speeds(best[2]), hit_rate=None)
        return Rival("llama.cpp", best[1], speeds, used)

    def _fits(self, choice: Choice, overhead: int) -> bool:
        return not choice.uses_gpu or self._bytes(choice) + overhead <= self._limit

    def _bytes(self, choice: Choice) -> int:
        fixed = sum(size for size, there in zip(self._sizes, choice.on_gpu, strict=True) if there)
        banks = self._theirs.model.banks
        return fixed + sum(n * bank.expert_bytes for n, bank in zip(choice.slots, banks, strict=True))

    # --- others, with our kernels ---------------------------------------------------------------------------

    def static_hot_list(self, experts: int | None = None) -> Rival | None:
        """KTransformers: everything but the experts on the GPU, and a fixed list of the hottest of each layer."""
        slots = self._equal_slots(gpu_overhead(self._shape, self._work)) if experts is None else experts
        if slots is None:
            return None
        banks = self._ours.model.banks
        rates = {(bank.count, bank.used): static_hit_rates(bank.count, bank.used) for bank in banks}
        times = StepTimes(
            self._shape, self._hardware, self._work, hit_rates=[rates[bank.count, bank.used] for bank in banks]
        )
        choice = Choice(self._all_on_gpu(), (slots,) * len(banks))
        used = self._bytes(choice) + gpu_overhead(self._shape, self._work)
        return Rival("static hot list", f"{slots} experts per layer", times.speeds(choice), used)

    def fetch_on_miss(self) -> Rival | None:
        """Recently used experts in slots; a missing one is copied over the link before it is computed."""
        slots = self._equal_slots(gpu_overhead(self._shape, self._work))
        gpu, link = self._hardware.gpu, self._hardware.link
        if slots is None or gpu is None or link is None:
            return None
        banks = self._ours.model.banks
        choice = Choice(self._all_on_gpu(), (slots,) * len(banks))
        full = Choice(choice.on_gpu, tuple(bank.count for bank in banks))
        seconds = self._ours.seconds(full, decode=True)
        for bank, rates in zip(banks, self._ours.hit_rates, strict=True):
            seconds += (1 - float(rates[slots])) * bank.used * bank.expert_bytes / link.to_gpu
        prefill = self._ours.seconds(full, decode=False)
        for bank in banks:
            prefill += (bank.count - slots) * bank.expert_bytes / link.to_gpu
        hit_rate = float(np.mean([rates[slots] for rates in self._ours.hit_rates]))
        speeds = Speeds(self._work.prompt / (prefill * self._work.chunks), 1 / seconds, self._work.depth, hit_rate)
        used = self._bytes(choice) + gpu_overhead(self._shape, self._work)
        return Rival("fetch on miss", f"{slots} slots per layer", speeds, used)

    def operator_knapsack(self) -> Rival | None:
        """ATSInfer: every operator placed by itself, experts of a layer as one per tensor; switches are priced."""
        overhead = gpu_overhead(self._shape, self._work)
        if self._hardware.gpu is None or self._limit < overhead:
            return None
        rows = self._operators(decode=True)
        switch = self._ours.switch_seconds(decode=True)
        chain = DeviceChain(*_columns(rows), switch)
        room = self._limit - overhead
        on_gpu = chain.on_gpu(room)
        used = overhead + sum(row.bytes for row, there in zip(rows, on_gpu, strict=True) if there)
        chunk = sum(
            row.gpu if there else row.cpu for row, there in zip(self._operators(decode=False), on_gpu, strict=True)
        )
        chunk += self._ours.switch_seconds(decode=False) * sum(a != b for a, b in pairwise([False, *on_gpu, False]))
        speeds = Speeds(self._work.prompt / (chunk * self._work.chunks), 1 / chain.seconds(room), self._work.depth)
        return Rival("per-operator knapsack", f"{sum(on_gpu)} of {len(on_gpu)} operators", speeds, used)

    def _operators(self, *, decode: bool) -> list[_Operator]:
        """Every operator in graph order: an item's matrices, then its state; then the experts' tensors."""
        cpu, gpu = self._hardware.cpu, self._hardware.gpu
        assert gpu is not None
        work = self._work
        rows: list[_Operator] = []
        for item in self._ours.model.items:

            def seconds(item: PlacementItem, device: DeviceProfile) -> float:
                if decode:
                    return decode_seconds(item, device, work)
                return prefill_seconds(item, device, work)

            weights = replace(item, state=None)
            here, there = seconds(weights, cpu), seconds(weights, gpu)
            rows += _shared_out(here, there, [m.bytes for m in item.matrices], item.bytes, item.kind)
            if item.state is not None:
                state = item.state_bytes(work.context, work.value_bytes, windows_only=True)
                rows.append(_Operator(seconds(item, cpu) - here, seconds(item, gpu) - there, state, False))
            bank = self._ours.bank_after(item)
            if bank is not None:
                experts = self._ours.model.banks[bank]
                if decode:
                    here, there = (experts.used * expert_decode_seconds(experts, d) for d in (cpu, gpu))
                else:
                    tokens = tokens_through(experts, work)
                    here, there = (expert_prefill_seconds(experts, d, tokens) for d in (cpu, gpu))
                sizes = [m.bytes * experts.count for m in experts.matrices]
                rows += _shared_out(here, there, sizes, sum(sizes), item.kind)
        return rows

    def _equal_slots(self, overhead: int) -> int | None:
        """Slots per layer when every layer gets as many; None where not even the rest fits."""
        banks = self._ours.model.banks
        room = self._limit - overhead - self._bytes(Choice(self._all_on_gpu(), (0,) * len(banks)))
        if room < 0:
            return None
        return min(room // sum(bank.expert_bytes for bank in banks), min(bank.count for bank in banks))


@dataclass(frozen=True, slots=True)
class _Operator:
    cpu: float
    gpu: float
    bytes: int
    pinned: bool


def _columns(rows: list[_Operator]) -> tuple[list[float], list[float], list[int], list[bool]]:
    return [r.cpu for r in rows], [r.gpu for r in rows], [r.bytes for r in rows], [r.pinned for r in rows]


def _shared_out(on_cpu: float, on_gpu: float, parts: Sequence[int], whole: int, kind: ItemKind) -> list[_Operator]:
    """An item's time and bytes shared out over its operators by size."""
    pinned = kind is ItemKind.EMBEDDING
    if not parts or pinned:
        return [_Operator(on_cpu, on_gpu, whole, pinned)]
    total = sum(parts)
    return [_Operator(on_cpu * p / total, on_gpu * p / total, whole * p // total, False) for p in parts]
