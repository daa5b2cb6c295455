"""Steps on a virtual clock in which CPU, GPU and link work at once: bounded by tests, drawn by `bench.overlap`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine.runtime.devices import LinkRates, VirtualClock
from engine.runtime.devices.streams import Span
from engine.runtime.expert_slots import Promotion
from engine.runtime.placement import Placement
from engine.runtime.rates import Rates
from engine.runtime.trace import busy_seconds
from tests.support.hybrid_model import HybridModel, banks_of, items_of
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
# Every token uses every expert, so that hits and misses are as many in each layer and step.
MODEL = TinyModel("qwen3moe", layers=4, experts=8, experts_used=8, feed_forward=512)
SLOTS = 6
EXPERT_BYTES = 3 * 256 * 512 * 4
# While one is on its way, five are on the device and three are not: a layer's halves take about as long as its copy.
RATES = Rates(cpu_bandwidth=EXPERT_BYTES / 1.6e-3, device_bandwidth=EXPERT_BYTES / 1e-3)
LINK = LinkRates(bandwidth=EXPERT_BYTES / 4.5e-3, latency=10e-6)
TOKENS = np.random.default_rng(3).integers(0, 512, 32).tolist()
FFN_BYTES = 3 * 256 * 1024 * 34 // 32


@dataclass(frozen=True, slots=True)
class Overlap:
    """Some steps, how long they took, and what ran in them."""

    name: str
    seconds: float
    spans: list[Span]

    @property
    def busy(self) -> dict[str, float]:
        """Seconds of each lane."""
        return busy_seconds(self.spans)

    @property
    def above_busiest(self) -> float:
        """How many times as long as the busiest lane they took."""
        return self.seconds / max(self.busy.values())

    @property
    def serial(self) -> float:
        """How many times as long they would take one lane after the other."""
        return sum(self.busy.values()) / max(self.busy.values())


def expert_model(write: Write) -> HybridModel:
    """All but the embedding on the device, and `SLOTS` experts of each layer."""
    model = HybridModel(write(MODEL), link=LINK, clock=VirtualClock(), costs=RATES.seconds)
    items = [item for item in items_of(model.graph) if item != "embedding"]
    model.place(Placement(frozenset(items), dict.fromkeys(banks_of(model.graph), SLOTS)))
    model.executor.promoter.is_enabled = False
    return model


def decode_with_promotions(model: HybridModel, steps: int = 6) -> Overlap:
    """Some steps, in each of which an expert per layer is on its way."""
    state, promoter = model.new_state(), model.executor.promoter
    model.extend(state, TOKENS[:8])
    begin = promoter.now
    model.executor.trace = promoter.trace = []
    for step in range(steps):
        tables = {bank: memory.table for bank, memory in model.executor.residency.banks.items()}
        promoter.begin([Promotion(b, int(np.flatnonzero(t.absent)[0]), step % SLOTS) for b, t in tables.items()])
        model.extend(state, [TOKENS[8 + step]])
        promoter.finish()
    state.release()
    return Overlap("decode, experts", promoter.now - begin, model.executor.trace)


def prompt_with_streams(write: Write) -> Overlap:
    """Five experts are on the device, five come over the link, and the CPU computes six."""
    shape = replace(MODEL, experts=16, experts_used=16)
    rates = Rates(cpu_bandwidth=EXPERT_BYTES / 1.5e-3, device_bandwidth=EXPERT_BYTES / 1e-3)
    link = LinkRates(EXPERT_BYTES / 1.8e-3, 10e-6)
    model = HybridModel(write(shape), link=link, clock=VirtualClock(), costs=rates.seconds)
    items, banks = [item for item in items_of(model.graph) if item != "embedding"], banks_of(model.graph)
    model.place(Placement(frozenset(items), dict.fromkeys(banks, 5), dict.fromkeys(banks, 5)))
    return _prompt("prompt, experts", model)


def dense_prompt(write: Write, *, prefetched: bool) -> Overlap:
    """All feed-forward blocks are in RAM; every other one is prefetched while the CPU computes the one before."""
    shape = TinyModel("llama", "Q8_0", layers=8, feed_forward=1024)
    rates = Rates(cpu_bandwidth=FFN_BYTES / 4e-3, device_bandwidth=FFN_BYTES / 0.5e-3)
    model = HybridModel(
        write(shape), link=LinkRates(FFN_BYTES / 4e-3, 10e-6), clock=VirtualClock(), costs=rates.seconds
    )
    items = frozenset(items_of(model.graph))
    blocks = frozenset(item for item in items if item.endswith("ffn"))
    odd = frozenset(f"blk.{layer}.ffn" for layer in range(1, 8, 2)) if prefetched else frozenset[str]()
    model.place(Placement(items - blocks - {"embedding"}, prefetched_for_prompts=odd))
    return _prompt("prompt, dense" if prefetched else "prompt, dense, nothing prefetched", model)


def _prompt(name: str, model: HybridModel) -> Overlap:
    model.executor.trace = []
    state = model.new_state()
    model.extend(state, TOKENS)
    state.release()
    spans, seconds = model.executor.trace, model.executor.times.latest[-1].seconds
    model.close()
    return Overlap(name, seconds, spans)
