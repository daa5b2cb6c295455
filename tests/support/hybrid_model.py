"""A model over CPU and a device, without text: token ids in, logits out, under any placement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Literal

import numpy as np

from engine.gguf import GGUFFile
from engine.memory import KVPool, SequenceState
from engine.memory.weight_store import WeightStore
from engine.models import build_graph, load_spec
from engine.models.graph import Experts, Graph
from engine.runtime.devices import Clock, Device, LinkRates
from engine.runtime.devices.emulated import EmulatedDevice
from engine.runtime.executor import Chunk
from engine.runtime.hybrid import HybridExecutor
from engine.runtime.migration import migrate
from engine.runtime.placement import Placement
from engine.runtime.prefetch import prefetchable
from engine.runtime.work import Costs
from kernels._cpu import ThreadPool
from tests.support.native_model import Logits

PLENTY = 1 << 30


class HybridModel:
    """The model in `path`, all on the CPU at first."""

    def __init__(
        self,
        path: Path,
        *,
        context: int = 256,
        limit: int = PLENTY,
        link: LinkRates | None = None,
        clock: Clock | None = None,
        costs: Costs = lambda work: 0.0,
        kernels: Literal["fast", "exact"] = "fast",
        device: Device | None = None,
    ) -> None:
        gguf = GGUFFile.open(path)
        self.graph = build_graph(load_spec(gguf))
        self.pool = KVPool(self.graph.kv_layers, context // 32 + 4)
        self.device: Device = device or EmulatedDevice(
            limit, link=link or LinkRates(1e12, 0.0), clock=clock, granularity=4096, kernels=kernels
        )
        self.executor = HybridExecutor(
            self.graph,
            self.device,
            WeightStore(gguf, self.graph.weights),
            self.pool,
            ThreadPool(1),
            costs=costs,  # type: ignore[arg-type]
        )

    def place(self, placement: Placement, limit: int | None = None) -> None:
        for _ in migrate(self.executor, placement, self.device.memory.limit if limit is None else limit):
            pass

    def new_state(self) -> SequenceState:
        return SequenceState(self.pool)

    def extend(self, state: SequenceState, tokens: Sequence[int]) -> Logits:
        """Reads `tokens` into `state` in one step; the logits after each."""
        state.reserve(len(tokens))
        logits = self.executor.run([Chunk(state, tokens, 0)]).copy()
        state.commit(tokens)
        return logits

    def teacher_forced(self, prompt: Sequence[int], answer: Sequence[int]) -> Logits:
        """The prompt at once, the answer token by token: logits from which each token of the answer follows."""
        state = self.new_state()
        rows = [self.extend(state, prompt)[-1:]]
        rows += [self.extend(state, [token]) for token in answer[:-1]]
        state.release()
        return np.concatenate(rows)

    def close(self) -> None:
        self.executor.close()


Open = Callable[[Path], HybridModel]


def items_of(graph: Graph) -> list[str]:
    return list(dict.fromkeys(op.item for op in graph.ops if not isinstance(op, Experts)))


def banks_of(graph: Graph) -> dict[str, int]:
    return {op.item: graph.weights[op.gate].count for op in graph.ops if isinstance(op, Experts)}


def everything(graph: Graph) -> Placement:
    """All items and all experts on the device."""
    return Placement(frozenset(items_of(graph)), banks_of(graph))


def random_placement(graph: Graph, random: Random) -> Placement:
    """Each item by the toss of a coin, whose bias is drawn too; each bank with none, some or all of its experts. Of the
    feed-forward blocks that are left in RAM, some are prefetched, and some are lent buffers."""
    share = random.random()
    items = frozenset(item for item in items_of(graph) if random.random() < share)
    slots = {bank: random.choice([0, random.randint(1, count), count]) for bank, count in banks_of(graph).items()}
    streamed = {bank: random.randint(0, 8) for bank, count in banks_of(graph).items() if 0 < slots[bank] < count}
    rest = sorted(prefetchable(graph) - items)
    prompts, few = (frozenset(item for item in rest if random.random() < share) for _ in range(2))
    held = {bank: count for bank, count in slots.items() if count}
    depth = random.randint(1, 3)
    lent = frozenset(random.sample(rest, min(len(rest), random.randint(0, depth))))
    few = few - lent if len(lent) < depth else frozenset()
    return Placement(items, held, streamed, prompts, few, depth, lent)
