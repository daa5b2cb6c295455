"""Steps on a virtual clock in which CPU, GPU and link work at once: bounded by tests, drawn by `bench.overlap`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from engine.gguf import GGUFFile
from engine.placement.costs import Workload
from engine.placement.hardware.profile import Link
from engine.placement.items import ItemKind
from engine.placement.prefetch import buffer_bytes, choose_prefetch, is_prefetchable, prefetched_seconds
from engine.placement.prefetch_room import PrefetchRoom
from engine.placement.shape import ModelShape
from engine.placement.step_times import Choice, ItemTimes, StepTimes
from engine.runtime.devices import LinkRates, VirtualClock
from engine.runtime.devices.open import emulated_machine
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
    predicted: float | None = None  # seconds, where the planner chose what comes over the link
    least: float | None = None  # with as many blocks as is best, were there no lack of buffers
    depth: int = 0  # blocks that buffers hold

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


def prompt_with_streams(write: Write, copying: float = 1.8e-3) -> Overlap:
    """Five experts are on the device. Of eleven as many come over the link, each in `copying` seconds, as keep it busy
    for as long as the CPU, where each of the others takes 1.5 ms: five of them, unless `copying` is given."""
    shape = replace(MODEL, experts=16, experts_used=16)
    rates = Rates(cpu_bandwidth=EXPERT_BYTES / 1.5e-3, device_bandwidth=EXPERT_BYTES / 1e-3)
    link, streamed = LinkRates(EXPERT_BYTES / copying, 10e-6), round(11 * 1.5e-3 / (1.5e-3 + copying))
    model = HybridModel(write(shape), link=link, clock=VirtualClock(), costs=rates.seconds)
    items, banks = [item for item in items_of(model.graph) if item != "embedding"], banks_of(model.graph)
    model.place(Placement(frozenset(items), dict.fromkeys(banks, 5), dict.fromkeys(banks, streamed)))
    return _step("prompt, experts", model, decode=False)


class SetTimes(StepTimes):
    """What the planner would know of a machine whose tasks last as set rates say."""

    def __init__(self, shape: ModelShape, rates: Rates, link: LinkRates) -> None:
        bus = Link(link.bandwidth, link.bandwidth, link.bandwidth, link.latency, switch_seconds=0.0)
        super().__init__(shape, replace(emulated_machine(), link=bus), Workload(prompt=len(TOKENS)))
        self._rates = rates

    @cached_property
    def prefill(self) -> ItemTimes:
        rates, sizes = self._rates, [item.bytes for item in self.model.items]
        here = [size / rates.cpu_bandwidth for size in sizes]
        return ItemTimes(here, here, [size / rates.device_bandwidth for size in sizes])

    @cached_property
    def decode(self) -> ItemTimes:
        return self.prefill


def dense_step(
    write: Write, *, decode: bool, prefetched: bool = True, copying: float = 5e-3, depth: int | None = None
) -> Overlap:
    """A prompt, or a token behind it. All feed-forward blocks are in RAM, where each takes 4 ms, and 0.5 ms on the
    device; those that the planner chooses are prefetched, each in `copying` seconds, beside what is computed. `depth`:
    blocks that buffers hold; None: as many as pay for their room."""
    path = write(TinyModel("llama", "Q8_0", layers=16, feed_forward=1024))
    rates = Rates(cpu_bandwidth=FFN_BYTES / 4e-3, device_bandwidth=FFN_BYTES / 0.5e-3)
    link = LinkRates(FFN_BYTES / copying, 10e-6)
    model = HybridModel(path, link=link, clock=VirtualClock(), costs=rates.seconds)
    with GGUFFile.open(path) as gguf:
        times = SetTimes(ModelShape.from_gguf(gguf), rates, link)
    items = times.model.items
    in_ram = [item.kind in (ItemKind.FEED_FORWARD, ItemKind.EMBEDDING) for item in items]
    everything = [item.kind is not ItemKind.EMBEDDING for item in items]
    room = PrefetchRoom(times, everything, buffer_bytes(items), sum(item.bytes for item in items), decode=decode)
    if depth is None:
        depth = room.paying(sum(map(is_prefetchable, items))) if prefetched else 0
    choice = Choice(tuple(not there for there in in_ram), (), prefetch_depth=depth)
    chosen = choose_prefetch(times, choice, decode=decode) if prefetched else frozenset[int]()
    on_device = frozenset(item.key for item, there in zip(items, in_ram, strict=True) if not there)
    keys = frozenset(items[index].key for index in chosen)
    few, prompts = (keys, frozenset[str]()) if decode else (frozenset[str](), keys)
    model.place(Placement(on_device, prefetched_for_prompts=prompts, prefetched_for_few=few, prefetch_depth=depth))
    name = f"{'decode' if decode else 'prompt'}, dense" + ("" if prefetched else ", nothing prefetched")
    step = _step(name, model, decode=decode)
    predicted = prefetched_seconds(times, choice, chosen, decode=decode)
    return replace(step, predicted=predicted, least=_least_seconds(times, choice, decode=decode), depth=depth)


def _least_seconds(times: StepTimes, choice: Choice, *, decode: bool) -> float:
    """Of a step whose blocks in RAM are all alike, over any number of them that is prefetched: what is computed and
    carried in turn, or the link's time for weights, whichever is longer."""
    link = times.hardware.link
    assert link is not None
    blocks = [i for i, item in enumerate(times.model.items) if is_prefetchable(item) and not choice.on_gpu[i]]
    copying = times.model.items[blocks[0]].bytes / link.to_gpu
    alone = prefetched_seconds(times, choice, frozenset(), decode=decode)
    gained = (times.decode if decode else times.prefill).cpu[blocks[0]] + 2 * times.switch_seconds(decode=decode)
    gained -= (times.decode if decode else times.prefill).gpu[blocks[0]]
    return min(max(count * copying, alone - count * gained) for count in range(len(blocks) + 1))


def _step(name: str, model: HybridModel, *, decode: bool) -> Overlap:
    state = model.new_state()
    model.executor.trace = []
    model.extend(state, TOKENS)
    if decode:
        model.executor.trace = []
        model.extend(state, TOKENS[:1])
    state.release()
    spans, seconds = model.executor.trace, model.executor.times.latest[-1].seconds
    model.close()
    return Overlap(name, seconds, spans)
