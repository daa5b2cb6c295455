"""Lowering: Graph + placement → segments, and the operations of a segment → a native program."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import singledispatchmethod
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from kernels._cpu import Program

if TYPE_CHECKING:
    from kernels._cpu import TierChoice

from engine.errors import UnsupportedError
from engine.models.graph import (
    GLU,
    Add,
    Attention,
    DeltaRule,
    Embed,
    Experts,
    Graph,
    HeadLinear,
    KVLayer,
    Linear,
    Op,
    RMSNorm,
    Rope,
    Router,
    Scale,
    SelectRows,
    ShortConv,
    SoftCap,
    SplitHeads,
    StateLayer,
)
from engine.runtime.placement import HITS, MISSES, SlotLookup, TileLookup


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of operations on one device: graph.ops[begin:end]."""

    device: str
    begin: int
    end: int


def split_by_device(graph: Graph, device_of: Callable[[str], str]) -> tuple[Segment, ...]:
    """Runs of operations whose placement items are on the same device, in order; they cover the graph."""
    segments: list[Segment] = []
    for index, op in enumerate(graph.ops):
        device = device_of(op.item)
        if segments and segments[-1].device == device:
            segments[-1] = Segment(device, segments[-1].begin, index + 1)
        else:
            segments.append(Segment(device, index, index + 1))
    return tuple(segments)


@dataclass(frozen=True, slots=True)
class CpuProgram:
    """A captured graph with its handles by name. `cuts` are the operations before which a run may be left.

    `starts[i]` is where the graph's operation i begins in the program, which has none for a SlotLookup; the last entry
    is the program's length. `masks` names, per bank, which experts the program computes, `tables` where it finds them.
    """

    program: Program
    values: dict[str, int]
    weights: dict[str, int]
    kv_layers: tuple[int, ...]
    logits: int
    cuts: tuple[int, ...]
    starts: tuple[int, ...] = ()
    masks: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, int] = field(default_factory=dict)


def capture(
    graph: Graph,
    *,
    kv_type: int,
    block_tokens: int,
    tier: TierChoice = "auto",
    crossing: frozenset[str] = frozenset(),
    program: Program | None = None,
    has_tables: bool = False,
) -> CpuProgram:
    """`graph` as one native program, its weights and caches yet unbound. `program`: an empty one, of a device, which
    finds experts in slots by tables of its own (`has_tables`).

    `crossing` values can be read and written between operations: they share no memory with values that cannot.
    UnsupportedError where the kernels refuse an operation: a norm that is not F32, a head too large.
    """
    try:
        on_cpu = program is None
        chosen = program or Program(tier)
        return _Capture(graph, chosen, kv_type, block_tokens, crossing, has_tables, on_cpu).finish()
    except ValueError as refusal:
        raise UnsupportedError(
            f"Our own engine cannot compute this model: {refusal}.", remedy="It may run on the compatibility engine."
        ) from refusal


def crossing_values(graph: Graph) -> frozenset[str]:
    """Values that go from one placement item to another, and so may go from one device to another."""
    items: defaultdict[str, set[str]] = defaultdict(set)
    for op in graph.ops:
        for value in (*op.reads, *op.writes):
            items[value].add(op.item)
    return frozenset(value for value, found in items.items() if len(found) > 1)


@dataclass
class _Capture:
    graph: Graph
    program: Program
    kv_type: int
    block_tokens: int
    crossing: frozenset[str]
    has_tables: bool = False
    on_cpu: bool = True
    masks: dict[str, int] = field(default_factory=dict)
    tables: dict[str, int] = field(default_factory=dict)
    values: dict[str, int] = field(init=False)
    weights: dict[str, int] = field(init=False)
    kv_layers: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        program = self.program
        self.values = _share_values(self.graph, program, self.crossing, self.on_cpu)
        self._router_logits = {op.ids: op.logits for op in self.graph.ops if isinstance(op, Router)}
        self.weights = {
            name: program.weight(t.type_id, t.rows, t.cols, t.count) for name, t in self.graph.weights.items()
        }
        self.kv_layers = tuple(self._memory(layer) for layer in self.graph.kv_layers)

    def _memory(self, layer: KVLayer | StateLayer) -> int:
        if isinstance(layer, StateLayer):
            return self.program.state_layer(layer.tail_values, layer.state_values)
        dims, table = (layer.kv_heads, layer.key_dim, layer.value_dim), self.graph.windows.index(layer.window)
        return self.program.kv_layer(*dims, self.kv_type, self.block_tokens, layer.latent, table)

    def finish(self) -> CpuProgram:
        starts = []
        for op in self.graph.ops:
            starts.append(self.program.operation_count)
            self.emit(op)
        starts.append(self.program.operation_count)
        logits = self.values[self.graph.logits]
        # Whoever moves experts, or lets two engines choose the same, asks what a router read and chose.
        routed = (value for op in self.graph.ops if isinstance(op, Router) for value in (*op.reads, *op.writes))
        self.program.finish(kept=sorted({logits, *(self.values[name] for name in (*self.crossing, *routed))}))
        return CpuProgram(
            self.program,
            self.values,
            self.weights,
            self.kv_layers,
            logits,
            _cuts(self.graph),
            tuple(starts),
            self.masks,
            self.tables,
        )

    @singledispatchmethod
    def emit(self, op: Op) -> None:
        raise NotImplementedError(type(op).__name__)

    @emit.register
    def _(self, op: Embed) -> None:
        self.program.embed(self.weights[op.table], self.values[op.out])

    @emit.register
    def _(self, op: RMSNorm) -> None:
        x, out = self.values[op.x], self.values[op.out]
        weight = self.weights[op.weight] if op.weight else None
        self.program.rms_norm(x, weight, out, op.epsilon, op.group, op.groups)

    @emit.register
    def _(self, op: Linear) -> None:
        self.program.linear(
            self.values[op.x],
            [self.weights[name] for name in op.weights],
            [self.weights[name] if name else None for name in op.biases],
            [self.values[name] for name in op.outs],
        )

    @emit.register
    def _(self, op: Rope) -> None:
        rope, heat = op.rope, op.rope.temperature
        self.program.rope(
            self.values[op.x],
            op.heads,
            op.head_dim,
            rope.dimensions,
            rope.mode,
            rope.frequencies(),
            rope.magnitude,
            op.offset,
            (heat.length, heat.scale, heat.offset),
        )

    @emit.register
    def _(self, op: HeadLinear) -> None:
        x, out, weight = self.values[op.x], self.values[op.out], self.weights[op.weight]
        self.program.head_linear(x, weight, out, op.heads, op.first, op.rows, op.transposed)

    @emit.register
    def _(self, op: Attention) -> None:
        q, k, v, out = (self.values[name] for name in (op.q, op.k, op.v, op.out))
        sinks = self.weights[op.sinks] if op.sinks else None
        kv = self.kv_layers[op.layer]
        self.program.attention(q, k, v, kv, out, op.heads, op.scale, op.window, op.soft_cap, sinks)

    @emit.register
    def _(self, op: SplitHeads) -> None:
        outs = [self.values[name] for name in op.outs]
        self.program.split_heads(self.values[op.x], outs, list(op.sizes), op.heads)

    @emit.register
    def _(self, op: ShortConv) -> None:
        x, out, weight = self.values[op.x], self.values[op.out], self.weights[op.weight]
        self.program.short_conv(x, weight, out, self.kv_layers[op.layer])

    @emit.register
    def _(self, op: DeltaRule) -> None:
        x, alpha, beta, out = (self.values[name] for name in (op.x, op.alpha, op.beta, op.out))
        a, dt = (self.weights[name] for name in op.weights)
        dims = op.key_heads, op.value_heads, op.key_dim, op.value_dim
        self.program.delta_rule(x, alpha, beta, a, dt, out, self.kv_layers[op.layer], *dims, op.tiled, op.epsilon)

    @emit.register
    def _(self, op: GLU) -> None:
        self.program.glu(self.values[op.gate], self.values[op.up], self.values[op.out], op.activation)

    @emit.register
    def _(self, op: Router) -> None:
        logits, ids, weights = (self.values[name] for name in (op.logits, op.ids, op.weights))
        bias = self.weights[op.bias] if op.bias else None
        self.program.router(
            logits, ids, weights, op.top_k, op.gating, op.normalise, op.scale, bias, op.groups, op.groups_used
        )

    @emit.register
    def _(self, op: Experts) -> None:
        x, ids, mix, out = (self.values[name] for name in (op.x, op.ids, op.mix, op.out))
        gate, up, down, *biases = (self.weights[name] for name in op.tensors)
        mask = None
        if op.item.endswith(MISSES):
            mask = self.masks[op.item.removesuffix(MISSES)] = self.program.expert_mask(
                self.graph.weights[op.gate].count
            )
        elif op.item.endswith(HITS) and self.has_tables:
            bank = op.item.removesuffix(HITS)
            mask = self.tables[bank] = self.program.expert_mask(self.graph.values[self._router_logits[op.ids]])
        self.program.experts(x, ids, mix, gate, up, down, out, op.activation, mask, biases)

    @emit.register
    def _(self, op: SlotLookup | TileLookup) -> None:
        """Done beside the program: it changes ids between two of its operations."""

    @emit.register
    def _(self, op: Add) -> None:
        self.program.add(self.values[op.a], self.values[op.b], self.values[op.out])

    @emit.register
    def _(self, op: Scale) -> None:
        self.program.scale(self.values[op.x], op.factor)

    @emit.register
    def _(self, op: SoftCap) -> None:
        self.program.soft_cap(self.values[op.x], op.cap)

    @emit.register
    def _(self, op: SelectRows) -> None:
        self.program.select_rows(self.values[op.x], self.values[op.out])


def _share_values(graph: Graph, program: Program, crossing: frozenset[str], on_cpu: bool) -> dict[str, int]:
    """A handle for every value. Values of one width that are never needed at the same time share a handle.

    Without sharing, the values of all layers would take memory for a whole micro-batch at once. Crossing values share
    among themselves only, those with a row per output apart, because a handle is read as its last use left it. On the
    CPU, where handles share memory once more, all those rows have handles apart, and so do values that fused operations
    do without, whose memory then nothing touches. Other devices give every handle memory of its own.
    """
    selected = _selected_values(graph) if on_cpu else _selected_values(graph) & crossing
    passing = _passing_values(graph) if on_cpu else frozenset[str]()
    ids = {op.ids for op in graph.ops if isinstance(op, Router)}
    last_use = {value: index for index, op in enumerate(graph.ops) for value in (*op.reads, *op.writes)}
    last_use[graph.logits] = len(graph.ops)
    handles: dict[str, int] = {}
    free: defaultdict[_Kind, list[int]] = defaultdict(list)

    def kind(value: str) -> _Kind:
        return _Kind(graph.values[value], value in ids, value in crossing, value in selected, value in passing)

    for index, op in enumerate(graph.ops):
        for value in op.writes:
            if value not in handles:
                same = free[kind(value)]
                dying = [v for v in _overwritable(op) if last_use[v] == index and kind(v) == kind(value)]
                if dying:
                    handles[value] = min(handles[v] for v in dying)
                elif same:  # the lowest first, so that layers of one kind use handles alike
                    handles[value] = heapq.heappop(same)
                else:
                    handles[value] = program.value(graph.values[value], value in ids)
        taken = {handles[value] for value in op.writes}
        for value in {*op.reads, *op.writes}:
            if last_use[value] == index and (value in op.writes or handles[value] not in taken):
                heapq.heappush(free[kind(value)], handles[value])
    return handles


class _Kind(NamedTuple):
    """What values must agree in to share a handle."""

    width: int
    is_ids: bool
    crosses: bool
    is_selected: bool
    passes: bool


def _overwritable(op: Op) -> tuple[str, ...]:
    """Inputs that the output may take the place of, as every element is read before it is written."""
    if isinstance(op, Add):
        return op.reads
    return op.reads if isinstance(op, RMSNorm) and op.group and not op.groups else ()


def _passing_values(graph: Graph) -> frozenset[str]:
    """Values between a norm, its product, and what takes the product in at once (see `_cuts`)."""
    readers = Counter(value for op in graph.ops for value in op.reads)
    passing: set[str] = set()
    for op, after in pairwise(graph.ops):
        if (isinstance(op, RMSNorm) and not op.group and isinstance(after, Linear)) or (
            isinstance(op, Linear) and isinstance(after, GLU | Add)
        ):
            passing.update(value for value in op.writes if value in after.reads and readers[value] == 1)
    return frozenset(passing)


def _selected_values(graph: Graph) -> frozenset[str]:
    """Values with a row per output: all that follow a SelectRows."""
    selected: set[str] = set()
    for op in graph.ops:
        if isinstance(op, SelectRows) or not selected.isdisjoint(op.reads):
            selected.update(op.writes)
    return frozenset(selected)


def _cuts(graph: Graph) -> tuple[int, ...]:
    """Operations before which a run may be left, from 0 to the number of operations.

    Not between a norm, its product, and what takes the product in at once: the kernels do these in one go.
    """
    ops = graph.ops
    inside = {
        index
        for index, op in enumerate(ops)
        if isinstance(op, GLU | Add) or (isinstance(op, Linear) and index and isinstance(ops[index - 1], RMSNorm))
    }
    return (*(index for index in range(len(ops)) if index not in inside), len(ops))
