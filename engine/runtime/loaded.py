"""LoadedModel: a model's weights, cache and program, bound together and ready to run. Knows nothing of text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import EngineError, UnsupportedError
from engine.gguf import GGUFFile, QuantType
from engine.memory.kv_pool import BLOCK_TOKENS, KVPool
from engine.memory.weight_store import WeightStore
from engine.models import ModelSpec
from engine.models.graph import Graph
from engine.runtime.binding import bind_layer
from engine.runtime.devices import Device
from engine.runtime.executor import Executor
from engine.runtime.hybrid import HybridExecutor
from engine.runtime.lowering import CpuProgram, capture
from engine.runtime.trace import write_trace
from kernels import _cpu

if TYPE_CHECKING:
    from kernels._cpu import TierChoice

SPARE_BLOCKS = 4  # for copies of shared blocks


@dataclass(frozen=True, slots=True)
class LoadedModel:
    spec: ModelSpec
    graph: Graph
    weights: WeightStore
    pool: KVPool
    program: CpuProgram
    executor: Executor | HybridExecutor

    @property
    def tier(self) -> str:
        return self.program.program.tier

    @property
    def hybrid(self) -> HybridExecutor | None:
        """The executor, where there is a device beside the CPU."""
        return self.executor if isinstance(self.executor, HybridExecutor) else None

    def start_trace(self, path: Path) -> None:
        """Keeps what runs when; `close` writes it to `path` in Chrome's trace format."""
        self.executor.trace, self.executor.trace_path = [], path

    def close(self) -> None:
        if self.hybrid is not None:
            self.hybrid.close()
        self.weights.close()
        if self.executor.trace is not None and self.executor.trace_path is not None:
            write_trace(self.executor.trace, self.executor.trace_path)


def assemble(
    gguf: GGUFFile,
    spec: ModelSpec,
    graph: Graph,
    *,
    context_length: int,
    threads: int,
    tier: TierChoice = "auto",
    kv_type: QuantType = QuantType.F16,
    device: Device | None = None,
) -> LoadedModel:
    """Maps, captures and binds; reads no weight. With a `device`, everything is on the CPU at first.

    UnsupportedError for a tensor type or an operation that has no kernel.
    """
    for tensor in graph.weights.values():
        if tensor.type_id not in _cpu.QUANT_TYPES:
            raise UnsupportedError(
                f"The tensor “{tensor.name}” is of type {tensor.type_name}, which our own engine cannot compute with.",
                remedy="It may run on the compatibility engine; files in Q4_K_M or Q8_0 run natively.",
            )
    if tier != "auto" and tier not in _cpu.tiers():
        raise EngineError(
            f"This processor cannot run the instruction set “{tier}”.",
            done="The model was not loaded.",
            remedy=f"Choose “auto”, or one of {', '.join(_cpu.tiers())}.",
        )
    pool = KVPool(graph.kv_layers, -(-context_length // BLOCK_TOKENS) + SPARE_BLOCKS, kv_type)
    program = capture(graph, kv_type=kv_type, block_tokens=BLOCK_TOKENS, tier=tier)
    weights = WeightStore(gguf, graph.weights)
    weights.bind(program.program, program.weights)
    for index in range(len(graph.kv_layers)):
        bind_layer(program, graph, pool, index)
    threads_pool = _cpu.ThreadPool(threads)
    if device is not None:
        hybrid = HybridExecutor(graph, device, weights, pool, threads_pool, tier=tier)
        return LoadedModel(spec, graph, weights, pool, program, hybrid)
    executor = Executor(program, threads_pool, weights.check_unchanged)
    return LoadedModel(spec, graph, weights, pool, program, executor)
