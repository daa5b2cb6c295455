"""Residency: what lies in a device's memory: weights by item, caches by layer, experts by slot.

Everything here happens between steps, or on memory that no table points to yet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from engine.memory.kv_pool import KVPool
from engine.memory.weight_store import WeightStore
from engine.models.graph import Attention, DeltaRule, Experts, Graph, op_weights
from engine.runtime.devices.device import Device
from engine.runtime.devices.memory import Bytes, DeviceMemory, Region
from engine.runtime.expert_slots import Heat, SlotTable
from engine.runtime.passing import PassingWeights
from engine.runtime.traffic import Traffic

PART_BYTES = 8 << 20  # of an item, copied at once: as much as a card's staging buffer holds
_ALIGNMENT = 64


@dataclass(eq=False)
class BankMemory:
    """A bank's slots: one region per stacked tensor, grown and shrunk in place."""

    regions: dict[str, Region]  # by tensor: gate, up, down
    expert_bytes: dict[str, int]
    table: SlotTable

    @property
    def charged(self) -> int:
        return sum(region.charged for region in self.regions.values())

    def release(self) -> None:
        for region in self.regions.values():
            region.release()


@dataclass(eq=False)
class ItemMemory:
    region: Region
    offsets: dict[str, int]
    kv: dict[int, tuple[Region, ...]] = field(default_factory=dict)

    @property
    def charged(self) -> int:
        return self.region.charged + sum(k.charged + v.charged for k, v in self.kv.values())


class Residency:
    """The device's copies of a graph's weights and caches. Weights come from `weights`, caches from `pool`."""

    def __init__(self, graph: Graph, device: Device, weights: WeightStore, pool: KVPool) -> None:
        self.device = device
        self.items: dict[str, ItemMemory] = {}
        self.banks: dict[str, BankMemory] = {}
        self.traffic = Traffic()
        self.passing = PassingWeights(graph, device, weights, self.traffic)
        self._weights = weights
        self._pool = pool
        self._shapes = graph.weights
        self._tensors: defaultdict[str, dict[str, int]] = defaultdict(dict)  # by item: tensor → bytes
        self._layers: defaultdict[str, list[int]] = defaultdict(list)
        self._experts: dict[str, Experts] = {}
        for op in graph.ops:
            if isinstance(op, Experts):
                self._experts[op.item] = op
                continue
            if isinstance(op, Attention | DeltaRule):
                self._layers[op.item].append(op.layer)
            for name in op_weights(op):
                self._tensors[op.item][name] = graph.weights[name].nbytes

    @property
    def memory(self) -> DeviceMemory:
        return self.device.memory

    @property
    def expert_counts(self) -> dict[str, int]:
        return {bank: self._shapes[op.gate].count for bank, op in self._experts.items()}

    def item_bytes(self, item: str) -> int:
        return sum(self._tensors[item].values())

    def expert_bytes(self, bank: str) -> int:
        """Bytes of one expert."""
        op = self._experts[bank]
        return sum(self._shapes[n].nbytes // self._shapes[n].count for n in op.tensors)

    @property
    def host_weight_bytes(self) -> int:
        """Of all weights that the processor computes with: those without a copy here."""
        here = [sizes for item, sizes in self._tensors.items() if item not in self.items]
        rest = {name: size for sizes in here for name, size in sizes.items()}  # once, where two items share it
        experts = sum(
            (count - (len(self.banks[bank].table.experts) if bank in self.banks else 0)) * self.expert_bytes(bank)
            for bank, count in self.expert_counts.items()
        )
        return sum(rest.values()) + experts

    def release_pages(self) -> None:
        """What has a copy here need not stay in RAM, whoever has read it again since."""
        for item in self.items:
            for name in self._tensors[item]:
                self._weights.release_pages(name)
        for memory in self.banks.values():
            for expert in memory.table.residents:
                for name, size in memory.expert_bytes.items():
                    self._weights.release_pages(name, expert * size, (expert + 1) * size)

    # --- items ------------------------------------------------------------------------------------------------

    def load_item(self, item: str) -> Iterator[int]:
        """Copies an item's weights to the device, part by part, so that little of it is in RAM as well at any time: the
        bytes of each part. DeviceMemoryError before the first, with nothing taken."""
        offsets, end = {}, 0
        for name, size in self._tensors[item].items():
            offsets[name], end = end, -(-(end + size) // _ALIGNMENT) * _ALIGNMENT
        region = self.memory.allocate(end, item)
        self.items[item] = ItemMemory(region, offsets)
        for name, offset in offsets.items():
            source = self._source(name)
            for begin in range(0, len(source), PART_BYTES):
                part = source[begin : begin + PART_BYTES]
                region.write(offset + begin, part)
                self._weights.release_pages(name, 0, begin + len(part))
                self.traffic.count(len(part))
                yield len(part)

    def load_caches(self, item: str) -> None:
        """Moves the caches of an item's layers to the device. DeviceMemoryError, with the caches where they were."""
        memory = self.items[item]
        for layer in self._layers[item]:
            regions: list[Region] = []
            try:
                for size in self._pool.layer_bytes(layer):
                    regions.append(self.memory.allocate(size, f"{item}: cache"))
            except BaseException:
                for region in regions:
                    region.release()
                raise
            self.traffic.count(self._pool.move_layer(layer, *regions))
            memory.kv[layer] = tuple(regions)

    def bring_caches_home(self, item: str) -> None:
        """OutOfMemoryError where RAM has no room for them. Their device memory stays until `drop_item`."""
        for layer in self.items[item].kv:
            self.traffic.count(self._pool.move_layer_home(layer), to_device=False)

    def take_caches_back(self, item: str) -> None:
        """Undoes `bring_caches_home`."""
        for layer, regions in self.items[item].kv.items():
            self._pool.move_layer(layer, *regions)

    def drop_item(self, item: str) -> None:
        """Gives an item's memory back; its caches are at home."""
        memory = self.items.pop(item)
        for regions in memory.kv.values():
            for region in regions:
                region.release()
        memory.region.release()

    def item_weights(self, item: str) -> Mapping[str, Bytes]:
        memory = self.items[item]
        sizes = self._tensors[item]
        return {n: memory.region.view(offset, offset + sizes[n]) for n, offset in memory.offsets.items()}

    # --- experts ----------------------------------------------------------------------------------------------

    def open_bank(self, bank: str) -> None:
        """A table without slots yet."""
        op = self._experts[bank]
        count = self._shapes[op.gate].count
        each = {name: self._shapes[name].nbytes // count for name in op.tensors}
        regions = {name: self.memory.reserve(size * count, f"{bank}: slots") for name, size in each.items()}
        self.banks[bank] = BankMemory(regions, each, SlotTable.of(count, ()))

    def grow_bank(self, bank: str, slots: int) -> None:
        """Memory for more slots than the table has. DeviceMemoryError, with as much as before."""
        memory = self.banks[bank]
        before = {name: region.size for name, region in memory.regions.items()}
        try:
            for name, region in memory.regions.items():
                region.resize(max(region.size, slots * memory.expert_bytes[name]))
        except BaseException:
            for name, region in memory.regions.items():
                region.resize(before[name])
            raise

    def set_slots(self, bank: str, slots: int, staged: Mapping[int, int] = MappingProxyType({})) -> None:
        """The table gets `slots` slots, of which `staged` (slot → expert) were filled meanwhile."""
        memory = self.banks[bank]
        kept = memory.table.experts[:slots].tolist()
        kept += [-1] * (slots - len(kept))
        for slot, expert in staged.items():
            kept[slot] = expert
        memory.table = SlotTable.of(memory.table.count, kept)

    def gather_hottest(self, bank: str, slots: int, heat: Heat) -> None:
        """Before a bank shrinks: its most used experts move into the first `slots` slots, where others leave."""
        memory, table = self.banks[bank], self.banks[bank].table

        def use(slot: int) -> float:
            expert = int(table.experts[slot])
            return float(heat[expert]) if expert >= 0 else -1.0

        colder = sorted(range(slots), key=use)
        hotter = sorted(range(slots, len(table.experts)), key=use, reverse=True)
        for source, target in zip(hotter, colder, strict=False):
            if use(source) <= use(target):
                break
            for name, region in memory.regions.items():
                size = memory.expert_bytes[name]
                region.copy(source * size, target * size, size)
            expert = int(table.experts[source])
            table.evict(target)
            table.evict(source)
            table.install(target, expert)

    def trim_bank(self, bank: str) -> None:
        """Gives memory back that the table has no slot for."""
        memory = self.banks[bank]
        slots = len(memory.table.experts)
        for name, region in memory.regions.items():
            region.resize(min(region.size, slots * memory.expert_bytes[name]))
        if slots == 0:
            del self.banks[bank]

    def copy_expert(self, bank: str, expert: int, slot: int) -> int:
        """Puts an expert's weights into a slot that no table points to; the bytes copied."""
        memory, copied = self.banks[bank], 0
        for name, region in memory.regions.items():
            size = memory.expert_bytes[name]
            region.write(slot * size, self._source(name)[expert * size : (expert + 1) * size])
            self._weights.release_pages(name, expert * size, (expert + 1) * size)
            copied += size
        self.traffic.count(copied)
        return copied

    def bank_weights(self, bank: str) -> Mapping[str, Bytes]:
        return {name: region.view() for name, region in self.banks[bank].regions.items()}

    def _source(self, name: str) -> Bytes:
        return np.frombuffer(self._weights.buffer(name), np.uint8)

    def close(self) -> None:
        for item in list(self.items):
            self.drop_item(item)
        for bank in list(self.banks):
            self.banks.pop(bank).release()
        self.passing.close()
