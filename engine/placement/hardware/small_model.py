"""What a token costs beside its operations, timed in place: models of the probe's own, run as the engine runs any.

Single operations on data in cache do not know what stands between them in a token: an input that another thread has
just written, threads that arrive at different times, weights whose first lines are cold, Python out of the caches. So
tokens of a deep model and of one with a single layer are timed, and what they take beyond what all other rates predict
for exactly these models is shared out: by what grows with the products' inputs, and by the rest, of any step.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from engine.gguf import QuantType
from engine.memory.kv_pool import BLOCK_TOKENS, KVPool
from engine.memory.sequence_state import SequenceState
from engine.models.build import build_graph
from engine.models.spec import AttentionSpec, DenseSpec, LayerSpec, ModelSpec, RopeSpec
from engine.models.spec import TensorShape as Tensor
from engine.placement.costs import Workload, decode_seconds
from engine.placement.hardware.profile import DeviceProfile, HardwareProfile
from engine.placement.hardware.timing import PACE_TYPE, Bench
from engine.placement.items import ItemKind, model_items
from engine.placement.shape import LayerShape, ModelShape, TensorShape
from engine.placement.state import StateKind, StateShape
from engine.runtime.binding import bind_layer
from engine.runtime.executor import Chunk, Executor
from engine.runtime.lowering import capture
from kernels import _cpu

# Narrow: the less there is to read and to multiply, the less an error in these rates counts beside what is looked for.
_WIDTH, _HEADS, _KV_HEADS, _VOCABULARY = 512, 8, 4, 256
_HEAD_DIM = _WIDTH // _HEADS
_DEPTH = BLOCK_TOKENS // 2
_DEEP_TOKENS, _DEEP_SECONDS, _SINGLE_SECONDS = 3, 0.8, 0.3  # tokens between two looks; seconds of all


class SmallModel:
    """Of `layers` layers, whose weights lie in the bench's memory. `check` runs behind each token."""

    def __init__(self, bench: Bench, layers: int, check: Callable[[], object]) -> None:
        tensors = {tensor.name: tensor for tensor in _tensors(layers)}
        self.items = model_items(_shape(layers, tensors)).items
        self.inputs = sum(item.inputs for item in self.items if item.kind is not ItemKind.EMBEDDING)
        graph = build_graph(_spec(layers, tensors))
        program = capture(graph, kv_type=QuantType.F16, block_tokens=BLOCK_TOKENS, tier=bench.tier)
        begin = 0
        for name, handle in program.weights.items():
            program.program.bind_weight(handle, bench.memory, begin)
            begin += tensors[name].nbytes
        pool = KVPool(graph.kv_layers, 1)
        for index in range(layers):
            bind_layer(program, graph, pool, index)
        self._executor = Executor(program, bench.pool, check)
        self._state = SequenceState(pool)
        self._state.reserve(_DEPTH + 1)
        self._state.commit([0] * _DEPTH)

    def token(self) -> float:
        """Seconds; all tokens stand at the same position."""
        begin = time.perf_counter()
        self._executor.run([Chunk(self._state, [0], 0)])
        return time.perf_counter() - begin

    def predicted(self, cpu: DeviceProfile) -> float:
        work = Workload(depth=_DEPTH)
        return sum(decode_seconds(item, cpu, work) for item in self.items)


def with_token_costs(bench: Bench, cpu: DeviceProfile) -> DeviceProfile:
    """With `start_seconds` and `step_seconds`: what all else of the profile does not explain."""
    plain = replace(cpu, start_seconds=0.0, step_seconds=0.0)
    layers = len(bench.memory) // sum(tensor.nbytes for tensor in _layer(0)) - 1
    with Path(_cpu.__file__).open("rb") as file:  # any: the engine looks each time whether its model's was changed
        deep, single = (SmallModel(bench, count, lambda: os.fstat(file.fileno())) for count in (layers, 1))
        more = _unexplained(bench, deep, plain, _DEEP_TOKENS, _DEEP_SECONDS)
        least = _unexplained(bench, single, plain, 1, _SINGLE_SECONDS)
    start = max(0.0, (more - least) / (deep.inputs - single.inputs))
    return replace(cpu, start_seconds=start, step_seconds=max(cpu.op_seconds, least - single.inputs * start))


def _unexplained(bench: Bench, model: SmallModel, cpu: DeviceProfile, tokens: int, seconds: float) -> float:
    """Of a token; so many are timed between two looks at the memory and the pace."""

    def usual() -> float:
        return statistics.median(model.token() for _ in range(tokens))

    model.token()
    return statistics.median(
        seconds - model.predicted(HardwareProfile(cpu).with_pace(pace).with_bandwidth(bandwidth).cpu)
        for seconds, pace, bandwidth in bench.in_place(usual, seconds)
    )


def _tensors(layers: int) -> Iterator[Tensor]:
    yield _tensor("token_embd.weight", _VOCABULARY)
    for layer in range(layers):
        yield from _layer(layer)
    yield _tensor("output_norm.weight", 1)
    yield _tensor("output.weight", _VOCABULARY)


def _layer(number: int) -> Iterator[Tensor]:
    rows = {"attn_norm": 1, "attn_q": _WIDTH, "attn_k": _KV_HEADS * _HEAD_DIM, "attn_v": _KV_HEADS * _HEAD_DIM}
    rows |= dict.fromkeys(("attn_output", "ffn_gate", "ffn_up", "ffn_down"), _WIDTH) | {"ffn_norm": 1}
    return (_tensor(f"blk.{number}.{name}.weight", count) for name, count in rows.items())


def _tensor(name: str, rows: int) -> Tensor:
    kind = QuantType.F32 if rows == 1 else PACE_TYPE
    return Tensor(name, int(kind), kind.name, rows, _WIDTH, 1, rows * kind.row_bytes(_WIDTH))


def _spec(layers: int, tensors: Mapping[str, Tensor]) -> ModelSpec:
    rope = RopeSpec("neox", _HEAD_DIM, 10000.0)
    attention = AttentionSpec(_HEADS, _KV_HEADS, _HEAD_DIM, _HEAD_DIM, _HEAD_DIM**-0.5, rope)
    blocks = (LayerSpec(attention, DenseSpec(_WIDTH)),) * layers
    return ModelSpec("llama", "probe", "", _WIDTH, _VOCABULARY, BLOCK_TOKENS, 1e-5, blocks, tensors, tied_output=False)


def _shape(layers: int, tensors: Mapping[str, Tensor]) -> ModelShape:
    """The same as placement sees it."""
    state = StateShape(StateKind.FULL, _HEADS, _KV_HEADS, _HEAD_DIM, _HEAD_DIM)

    def seen(some: Iterable[Tensor]) -> tuple[TensorShape, ...]:
        return tuple(
            TensorShape(t.name, t.type_name, (t.cols,) if t.rows == 1 else (t.cols, t.rows), t.nbytes) for t in some
        )

    by_layer = tuple(LayerShape(number, state, seen(_layer(number))) for number in range(layers))
    outer = seen(tensor for tensor in tensors.values() if not tensor.name.startswith("blk."))
    return ModelShape("probe", "llama", _WIDTH, _VOCABULARY, BLOCK_TOKENS, 0, 0, by_layer, outer)
