"""Predicted seconds of a whole step under a placement: sums over items, switches and expert curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from engine.placement.costs import Workload, decode_seconds, prefill_seconds
from engine.placement.expert_curves import ExpertCurve, cpu_only_curve, expert_curve
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.items import ExpertBank, ItemKind, ModelItems, PlacementItem, model_items
from engine.placement.locality import chances_from_heat, recent_hit_rates, use_chances
from engine.placement.plan import Speeds
from engine.placement.prefetch import is_prefetchable
from engine.placement.shape import ModelShape

Heat = Sequence[Sequence[float]]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choice:
    """A placement in its barest form: which items are on the GPU, how many expert slots each bank has, and for how
    many items there are buffers through which they come over the link instead. `lent`: items in RAM that lie in some
    of these buffers while an answer is written, one in each."""

    on_gpu: tuple[bool, ...]
    slots: tuple[int, ...]
    seconds: float = 0.0  # of what it was chosen for: a token, or a chunk of the prompt
    prefetch_depth: int = 0
    lent: frozenset[int] = frozenset()

    @property
    def uses_gpu(self) -> bool:
        return any(self.on_gpu)

    def keeping(self, kept: frozenset[int]) -> Choice:
        """While these lie in their buffers, through which nothing passes then."""
        on_gpu = tuple(there or index in kept for index, there in enumerate(self.on_gpu))
        depth = self.prefetch_depth - len(kept)
        return replace(self, on_gpu=on_gpu, prefetch_depth=depth, lent=self.lent - kept)


@dataclass(frozen=True, slots=True)
class ItemTimes:
    """Seconds per item, experts of its layer included, none of them in a slot. `beside_gpu` is the CPU's time
    where a GPU takes part: it may then have experts streamed to it instead."""

    cpu: list[float]
    beside_gpu: list[float]
    gpu: list[float]


class StepTimes:
    """Times of one model on one machine for one workload.

    `heat`: recorded uses, per MoE layer and expert. `hit_rates`: per bank, instead of those of recent use.
    """

    def __init__(
        self,
        shape: ModelShape,
        hardware: HardwareProfile,
        work: Workload,
        heat: Heat | None = None,
        hit_rates: list[FloatArray] | None = None,
    ) -> None:
        self.shape = shape
        self.hardware = hardware
        self.work = work
        self.heat = heat
        self._given_rates = hit_rates
        self.model: ModelItems = model_items(shape)
        self._bank_of_layer = {bank.layer: index for index, bank in enumerate(self.model.banks)}

    def bank_after(self, item: PlacementItem) -> int | None:
        """Index of the expert bank that follows this item."""
        return self._bank_of_layer.get(item.layer) if item.kind is ItemKind.SHARED else None

    def speeds(self, choice: Choice) -> Speeds:
        decode = self.seconds(choice, decode=True)
        prefill = self.seconds(choice, decode=False) * self.work.chunks
        return Speeds(self.work.prompt / prefill, 1 / decode, self.work.depth, self.hit_rate(choice.slots))

    def seconds(self, choice: Choice, *, decode: bool) -> float:
        """One decoded token, where nothing passes through the buffers, or one chunk of the prompt."""
        times = self.decode if decode else self.prefill
        on_cpu = times.beside_gpu if choice.uses_gpu else times.cpu
        if choice.uses_gpu and choice.prefetch_depth and not decode:
            on_cpu = self.passing
        switch = self.switch_seconds(decode=decode)
        placed = choice.keeping(choice.lent).on_gpu if decode else choice.on_gpu
        seconds, last = 0.0, False
        for here, there, on_gpu in zip(on_cpu, times.gpu, placed, strict=True):
            seconds += (there if on_gpu else here) + (switch if on_gpu != last else 0.0)
            last = on_gpu
        seconds += switch if last else 0.0
        for curve, slots in zip(self.curves, choice.slots, strict=True):
            values = curve.decode if decode else curve.prefill
            seconds += float(values[slots] - values[0]) if slots else 0.0
        return seconds

    def hit_rate(self, slots: Sequence[int]) -> float | None:
        """Share of expert uses found on the GPU; None for models without experts."""
        if not self.model.banks:
            return None
        return float(np.mean([self.hit_rates[index][count] for index, count in enumerate(slots)]))

    def switch_seconds(self, *, decode: bool) -> float:
        """Handing the activations of a step to the other device."""
        link = self.hardware.link
        if link is None:
            return 0.0
        tokens = 1 if decode else self.work.chunk_tokens
        return link.switch_seconds + link.latency + 4 * self.shape.hidden * tokens / link.to_cpu

    @cached_property
    def hit_rates(self) -> list[FloatArray]:
        """Per bank, the share of uses found on the GPU for each number of slots."""
        banks = self.model.banks
        if self._given_rates is not None:
            return self._given_rates
        if self.heat is None:
            return [recent_hit_rates(use_chances(bank.count, bank.used)) for bank in banks]
        return [
            recent_hit_rates(chances_from_heat(heat, bank.used)) for heat, bank in zip(self.heat, banks, strict=True)
        ]

    @cached_property
    def curves(self) -> list[ExpertCurve]:
        made: dict[tuple[object, ...], ExpertCurve] = {}
        curves = []
        for bank, rates in zip(self.model.banks, self.hit_rates, strict=True):
            key = (bank.matrices, bank.count, bank.used, bank.is_last, id(rates))
            if key not in made:
                made[key] = self._curve(bank, rates)
            curves.append(made[key])
        return curves

    def _curve(self, bank: ExpertBank, rates: FloatArray) -> ExpertCurve:
        if self.hardware.gpu is None:
            return cpu_only_curve(bank, self.hardware.cpu, self.work)
        return expert_curve(bank, self.hardware, self.work, rates)

    def curve_values(self, *, decode: bool) -> FloatArray:
        """Seconds of each bank's experts for each number of slots, [banks, slots + 1]."""
        return np.stack([curve.decode if decode else curve.prefill for curve in self.curves])

    @cached_property
    def decode(self) -> ItemTimes:
        cpu, gpu = self.hardware.cpu, self.hardware.gpu
        here = [decode_seconds(item, cpu, self.work) for item in self.model.items]
        there = [decode_seconds(item, gpu, self.work) for item in self.model.items] if gpu else here[:]
        for index, curve in self._banks_in_order():
            here[index] += curve.cpu_decode
            there[index] += float(curve.decode[0])
        return ItemTimes(here, here, there)

    @cached_property
    def prefill(self) -> ItemTimes:
        cpu, gpu = self.hardware.cpu, self.hardware.gpu
        items = self.model.items
        here = [prefill_seconds(item, cpu, self.work) for item in items]
        there = [prefill_seconds(item, gpu, self.work) for item in items] if gpu else here[:]
        beside = here[:]
        for index, curve in self._banks_in_order():
            here[index] += curve.cpu_prefill
            beside[index] += min(curve.cpu_prefill, float(curve.prefill[0]))
            there[index] += float(curve.prefill[0])
        return ItemTimes(here, beside, there)

    @cached_property
    def passing(self) -> list[float]:
        """Prefill of an item in RAM where there are buffers: `beside_gpu`, or over the link, which is faster."""
        times = self.prefill
        return [
            min(here, self._over_link(item, there)) if is_prefetchable(item) else here
            for item, here, there in zip(self.model.items, times.beside_gpu, times.gpu, strict=True)
        ]

    def _banks_in_order(self) -> list[tuple[int, ExpertCurve]]:
        """Index of the item that a bank follows, and the bank's curve."""
        found = []
        for index, item in enumerate(self.model.items):
            bank = self.bank_after(item)
            if bank is not None:
                found.append((index, self.curves[bank]))
        return found

    def _over_link(self, item: PlacementItem, gpu_seconds: float) -> float:
        """Prefill of an item whose weights come over the link, piece by piece, while the GPU computes."""
        link = self.hardware.link
        if link is None:
            return float("inf")
        return max(item.bytes / link.to_gpu, gpu_seconds) + 2 * link.switch_seconds
