"""A forward pass over the CUDA kernels, with the interface of `kernels._cpu.Program`.

What is captured once for the CPU can so be captured for a device: the same handles, operations and batches. Operations
are launched one by one, in order; sizes come from the batch, addresses are bound at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from kernels._cpu import QUANT_TYPES
from kernels.cuda.footprint import CountingMemory, Footprint, NoKernels
from kernels.cuda.handles import Bank, KvLayer, StateLayer, Weight
from kernels.cuda.kernel_set import KernelSet
from kernels.cuda.memory import DeviceRows, Memory
from kernels.cuda.operations import (
    GELU,
    LINEAR,
    SIGMOID,
    SILU,
    SWIGLU_OAI,
    Cache,
    ExpertTable,
    Operations,
    Temperature,
    is_float,
)
from kernels.cuda.run import Run, StepRun, Value, attend, multiply_experts

if TYPE_CHECKING:
    from kernels._cpu import Activation, Batch, Buffer, Floats, Ints, ThreadPool

_ACTIVATIONS = {"silu": SILU, "gelu": GELU, "sigmoid": SIGMOID, "swiglu_oai": SWIGLU_OAI, "linear": LINEAR}


@dataclass
class CudaProgram:
    """Not for several threads at once. Raises ValueError where the kernels refuse an operation, LaunchError when one
    fails, RuntimeError where something is not bound."""

    kernels: KernelSet
    memory: Memory
    stream: int = 0  # where it launches
    tier: str = "cuda"
    _values: list[Value] = field(default_factory=list)
    _weights: list[Weight] = field(default_factory=list)
    _kv_layers: list[KvLayer] = field(default_factory=list)
    _state_layers: list[StateLayer] = field(default_factory=list)
    _places: list[NDArray[np.int32]] = field(default_factory=list)
    _banks: list[Bank] = field(default_factory=list)
    _operations: list[Callable[[Run], None]] = field(default_factory=list)
    _pairs: dict[int, Callable[[Run], None]] = field(default_factory=dict)  # operations index and index + 1 in one
    _sums: tuple[int, int, int, int] = (-1, 0, 0, 0)  # the latest `add`: its index, a, b and out
    _last: tuple[int, int] = (0, 0)  # rows per token and per output of the last run
    _run: Run | None = None  # of the latest batch
    _is_dry: bool = False  # nothing has to be bound

    # ---- handles ----

    def value(self, width: int, ids: bool = False) -> int:
        self._values.append(Value(width, ids))
        return len(self._values) - 1

    def weight(self, type_id: int, rows: int, cols: int, count: int = 1) -> int:
        if type_id not in QUANT_TYPES or cols % QUANT_TYPES[type_id][1]:
            raise ValueError(f"weight: no CUDA kernel for type {type_id} with {cols} columns")
        self._weights.append(Weight(type_id, rows, cols, count))
        return len(self._weights) - 1

    def bind_weight(self, handle: int, buffer: Buffer, offset: int = 0) -> None:
        """`buffer` is memory of the device: 16-byte aligned from `offset` on; held until rebound."""
        weight = self._weights[handle]
        address, owner = self.memory.borrow(buffer, offset, weight.matrix_bytes * weight.count)
        if address % 16:
            raise ValueError(f"bind_weight: weight {handle} is not 16-byte aligned")
        weight.address, weight.owner = address, owner
        for bank in self._banks:
            bank.is_stale |= handle in bank.weights

    def kv_layer(
        self,
        kv_heads: int,
        key_dim: int,
        value_dim: int,
        type_id: int,
        block_tokens: int,
        latent: bool = False,
        table: int = 0,
    ) -> int:
        Cache(0, 0, type_id, kv_heads, key_dim, value_dim, block_tokens)  # refuses what no kernel reads
        self._kv_layers.append(KvLayer((type_id, kv_heads, key_dim, value_dim, block_tokens), latent, table))
        return len(self._kv_layers) - 1

    def bind_kv(self, handle: int, keys: Buffer, values: Buffer | None = None) -> None:
        layer = self._kv_layers[handle]
        if layer.latent != (values is None):
            raise ValueError(f"bind_kv: KV layer {handle} takes keys{' alone' if layer.latent else ' and values'}")
        borrowed = [self.memory.borrow(buffer, 0, 0) for buffer in (keys, values) if buffer is not None]
        layer.keys, layer.values = borrowed[0][0], borrowed[-1][0]
        layer.owners = tuple(owner for _, owner in borrowed)

    def state_layer(self, tail_values: int, state_values: int) -> int:
        self._state_layers.append(StateLayer(tail_values, state_values))
        return len(self._state_layers) - 1

    def bind_state(self, handle: int, tails: Buffer, states: Buffer) -> None:
        layer = self._state_layers[handle]
        (layer.tails, tails_owner), (layer.states, owner) = (self.memory.borrow(b, 0, 0) for b in (tails, states))
        layer.owners = tails_owner, owner

    def _bound_state(self, handle: int) -> StateLayer:
        layer = self._state_layers[handle]
        if not layer.owners and not self._is_dry:
            raise RuntimeError(f"run: state layer {handle} is not bound")
        return layer

    def expert_mask(self, experts: int) -> int:
        """Which of `experts` are here, and where: at first, each in the place of its number."""
        self._places.append(np.arange(experts, dtype=np.int32))
        return len(self._places) - 1

    def set_expert_mask(self, handle: int, present: NDArray[np.bool_]) -> None:
        self.set_expert_places(handle, np.where(present, np.arange(len(present), dtype=np.int32), np.int32(-1)))

    def set_expert_places(self, handle: int, places: NDArray[np.int32]) -> None:
        """Expert e is the matrix number places[e] of its stacks; -1: not here. In force from the next run, or after
        `refresh`."""
        self._places[handle] = np.array(places, np.int32)
        for bank in self._banks:
            bank.is_stale |= bank.mask == handle

    # ---- operations ----

    def embed(self, table: int, out: int) -> None:
        self._set_domain(out, False)
        self._operations.append(
            lambda run: run.operations.embed(self._bound(table).matrix(), run.tokens, run.at(out), run.n)
        )

    def rms_norm(self, x: int, weight: int | None, out: int, eps: float, group: int = 0, groups: int = 0) -> None:
        width, outputs = self._values[x].width, self._follow(x, out)
        group = group or width
        rest = width - group * groups if groups else 0
        if rest and groups > 1:
            raise ValueError("rms_norm: no CUDA kernel for several groups before a rest")

        def weight_at() -> int:
            return 0 if weight is None else self._bound(weight).address

        def do(run: Run) -> None:
            rows = run.rows(outputs)
            n, stride = (rows, width) if rest else (rows * (width // group), group)
            run.operations.rms_norm(run.at(x), weight_at(), run.at(out), n, group, eps, stride)
            if rest and out != x:
                run.operations.copy_part(run.at(x) + 4 * group, run.at(out) + 4 * group, rows, width, width, rest)

        def add_and_do(run: Run) -> None:
            _, a, b, _ = added
            addresses = run.at(a), run.at(b), weight_at(), run.at(x), run.at(out)
            run.operations.add_rms_norm(*addresses, run.rows(outputs), width, eps)

        added = self._sums
        if added[0] == self.operation_count - 1 and added[3] == x and group == width:
            self._pairs[added[0]] = add_and_do
        self._operations.append(do)

    def linear(self, x: int, weights: Sequence[int], biases: Sequence[int | None], outs: Sequence[int]) -> None:
        outputs = self._values[x].outputs
        for out in outs:
            self._set_domain(out, outputs)
        biases = biases or [None] * len(weights)

        def do(run: Run) -> None:
            n = run.rows(outputs)
            for weight, bias, out in zip(weights, biases, outs, strict=True):
                matrix = self._bound(weight).matrix()
                rows = run.packed(run.at(x), n, matrix.cols, matrix.type_id)
                bias_at = 0 if bias is None else self._bound(bias).address
                run.operations.linear(matrix, rows, run.at(out), n, bias_at)
            run.forget_packed()

        self._operations.append(do)

    def head_linear(
        self, x: int, weight: int, out: int, heads: int, first: int, rows: int, transposed: bool = False
    ) -> None:
        outputs, w = self._follow(x, out), self._weights[weight]
        x_head, out_head = self._values[x].width // heads, self._values[out].width // heads
        taken, made = (rows, w.cols) if transposed else (w.cols, rows)
        if x_head % (8 if is_float(w.type_id) else 32) or w.cols > 4096:
            raise ValueError(f"head_linear: no CUDA kernel for heads of {x_head} values, {w.cols} columns")

        def do(run: Run) -> None:
            matrix, n = self._bound(weight).matrix()._replace(rows=w.rows * w.count), run.rows(outputs)
            head = (n, heads, first, rows, x_head, out_head)
            if transposed:
                run.operations.head_transposed(matrix, run.at(x), run.at(out), *head)
            else:
                packed = run.packed(run.at(x), n * heads, x_head, w.type_id)
                run.operations.head_linear(matrix, packed, run.at(out), *head)
                run.forget_packed()
            if x_head > taken:
                places = run.at(x) + 4 * taken, run.at(out) + 4 * made
                run.operations.copy_part(*places, n * heads, x_head, out_head, x_head - taken)

        self._operations.append(do)

    def rope(
        self,
        x: int,
        heads: int,
        head_dim: int,
        rope_dim: int,
        mode: Literal["norm", "neox"],
        frequencies: Floats,
        magnitude: float = 1.0,
        offset: int = 0,
        temperature: Temperature = (1.0, 0.0, 0.0),
    ) -> None:
        frequencies = np.array(frequencies, np.float32)

        def do(run: Run) -> None:
            table = run.rope_table(frequencies, magnitude, temperature)
            run.operations.rope(run.at(x) + 4 * offset, table, run.n, heads, head_dim, rope_dim // 2, mode == "neox")

        self._operations.append(do)

    def attention(
        self,
        q: int,
        k: int,
        v: int,
        kv: int,
        out: int,
        heads: int,
        scale: float,
        window: int = 0,
        soft_cap: float = 0.0,
        sinks: int | None = None,
    ) -> None:
        self._set_domain(out, False)

        def do(run: Run) -> None:
            layer = self._kv_layers[kv]
            if not layer.owners and not self._is_dry:
                raise RuntimeError(f"run: attention: KV layer {kv} is not bound")
            cache = layer.cache()
            places = run.places(layer.table)
            run.operations.kv_store(cache, run.at(k), run.at(v), places, run.n)
            sinks_at = 0 if sinks is None else self._bound(sinks).address
            attend(run, cache, places, run.at(q), run.at(out), heads, scale, window, soft_cap, sinks_at)

        self._operations.append(do)

    def glu(self, gate: int, up: int, out: int, activation: Activation = "silu") -> None:
        width, outputs, kind = self._values[out].width, self._follow(gate, out), _ACTIVATIONS[activation]
        span = width // self._values[gate].width
        self._operations.append(
            lambda run: run.operations.glu(run.at(gate), run.at(up), run.at(out), run.rows(outputs) * width, kind, span)
        )

    def router(
        self,
        logits: int,
        out_ids: int,
        out_weights: int,
        top_k: int,
        gating: Literal["softmax", "sigmoid"] = "softmax",
        normalise: bool = True,
        scale: float = 1.0,
        bias: int | None = None,
        groups: int = 1,
        groups_used: int = 1,
    ) -> None:
        if not (1 <= groups <= 32 and self._values[logits].width % groups == 0):
            raise ValueError(f"router: {self._values[logits].width} experts in {groups} groups")
        experts, outputs = self._values[logits].width, self._follow(logits, out_ids, out_weights)
        self._values[out_ids].ids = True
        sigmoid = gating == "sigmoid"
        self._operations.append(
            lambda run: run.operations.router(
                run.at(logits), run.at(out_ids), run.at(out_weights), run.rows(outputs), experts, top_k, sigmoid,
                normalise, scale, 0 if bias is None else self._bound(bias).address, groups, groups_used,
            )
        )  # fmt: skip

    def experts(
        self,
        x: int,
        ids: int,
        weights: int,
        gate: int,
        up: int,
        down: int,
        out: int,
        activation: Activation = "silu",
        mask: int | None = None,
        biases: Sequence[int] = (),
    ) -> None:
        outputs, top_k, kind = self._follow(x, out), self._values[ids].width, _ACTIVATIONS[activation]
        bank = Bank((gate, up, down, *biases), mask)
        self._banks.append(bank)

        def do(run: Run) -> None:
            tables = self._tables(bank)
            at = (run.at(x), run.at(ids), run.at(weights), run.at(out))
            multiply_experts(run, *tables, *at, run.rows(outputs), top_k, kind)

        self._operations.append(do)

    def add(self, a: int, b: int, out: int) -> None:
        width, outputs = self._values[out].width, self._follow(a, out)
        self._sums = self.operation_count, a, b, out
        self._operations.append(
            lambda run: run.operations.add(run.at(a), run.at(b), run.at(out), run.rows(outputs) * width)
        )

    def scale(self, x: int, factor: float) -> None:
        width, outputs = self._values[x].width, self._values[x].outputs
        self._operations.append(
            lambda run: run.operations.scale(run.at(x), run.at(x), run.rows(outputs) * width, factor)
        )

    def soft_cap(self, x: int, cap: float) -> None:
        width, outputs = self._values[x].width, self._values[x].outputs
        self._operations.append(
            lambda run: run.operations.soft_cap(run.at(x), run.at(x), run.rows(outputs) * width, cap)
        )

    def select_rows(self, x: int, out: int) -> None:
        width = self._values[x].width
        self._set_domain(out, True)
        self._operations.append(
            lambda run: run.operations.select_rows(run.at(x), run.outputs, run.at(out), run.output_count, width)
        )

    def split_heads(self, x: int, outs: Sequence[int], sizes: Sequence[int], heads: int) -> None:
        outputs, head = self._follow(x, *outs), sum(sizes)

        def do(run: Run) -> None:
            n, begin, filled = run.rows(outputs), 0, dict.fromkeys(outs, 0)
            for out, size in zip(outs, sizes, strict=True):
                width = self._values[out].width
                for h in range(heads):
                    to = filled[out] + h * size
                    places = run.at(x) + 4 * (begin + h * head), run.at(out) + 4 * to
                    run.operations.copy_part(*places, n, heads * head, width, size)
                begin += size
                filled[out] += heads * size

        self._operations.append(do)

    def short_conv(self, x: int, weight: int, out: int, state: int) -> None:
        self._set_domain(out, False)
        w = self._weights[weight]
        if w.type_id or w.cols > 8:
            raise ValueError(f"short_conv: no CUDA kernel for type {w.type_id} with {w.cols} taps")

        def do(run: Run) -> None:
            tails, at = self._bound_state(state).tails, self._bound(weight).address
            run.operations.short_conv(run.at(x), at, run.at(out), run.spans, tails, w.rows, w.cols)

        self._operations.append(do)

    def delta_rule(
        self,
        x: int,
        alpha: int,
        beta: int,
        a: int,
        dt: int,
        out: int,
        state: int,
        key_heads: int,
        value_heads: int,
        key_dim: int,
        value_dim: int,
        tiled: bool,
        eps: float,
    ) -> None:
        self._set_domain(out, False)

        def do(run: Run) -> None:
            gates = run.at(alpha), run.at(beta), self._bound(a).address, self._bound(dt).address
            dims = key_heads, value_heads, key_dim, value_dim
            states = self._bound_state(state).states
            run.operations.delta_rule(run.at(x), gates, run.at(out), run.spans, states, *dims, tiled, eps)

        self._operations.append(do)

    def finish(self, fuse: bool = True) -> None:
        """fuse: a sum and the norm of it in one launch; both can still be read."""
        if not fuse:
            self._pairs.clear()

    def _set_domain(self, out: int, outputs: bool) -> None:
        self._values[out].outputs = outputs

    def _follow(self, x: int, *outs: int) -> bool:
        """`outs` have as many rows as x: one per output, or one per token."""
        for out in outs:
            self._values[out].outputs = self._values[x].outputs
        return self._values[x].outputs

    def _bound(self, handle: int) -> Weight:
        weight = self._weights[handle]
        if not weight.address and not self._is_dry:
            raise RuntimeError(f"run: weight {handle} is not bound")
        return weight

    def _tables(self, bank: Bank) -> tuple[ExpertTable, ExpertTable, ExpertTable]:
        weights = [self._bound(handle) for handle in bank.weights]
        count = weights[0].count if bank.mask is None else len(self._places[bank.mask])
        if bank.tables is None:
            bank.tables, bank.is_stale = self.memory.allocate(len(weights) * 8 * count), True
        if bank.is_stale:
            places = np.arange(count) if bank.mask is None else self._places[bank.mask]
            begins, sizes = (np.array(part, np.uint64)[:, None] for part in zip(*map(_extent, weights), strict=True))
            self.memory.set(bank.tables, np.where(places >= 0, begins + sizes * places.astype(np.uint64), np.uint64(0)))
            bank.is_stale = False
        at = [*range(bank.tables, bank.tables + len(weights) * 8 * count, 8 * count)]
        biases = at[3:] or (0, 0, 0)
        gate, up, down = (
            ExpertTable(table, w.type_id, count, w.rows, w.cols, bias)
            for table, w, bias in zip(at[:3], weights[:3], biases, strict=True)
        )
        return gate, up, down

    # ---- execution ----

    def run(self, pool: ThreadPool | None, batch: Batch, begin: int = 0, end: int = -1) -> None:
        """Operations begin … end for one batch. `pool` is the CPU's and not used. What a batch needs on the device
        stays there until another one comes, because a step is run in parts."""
        if self._run is None or self._run.batch is not batch:
            self.forget_run()
            self._run = Run(Operations(self.kernels, self.stream), self.memory, self._values, batch)
        self.launch(self._run, begin, end)
        self._last = self._run.n, self._run.output_count

    def launch(self, run: Run, begin: int, end: int) -> None:
        index, end = begin, self.operation_count if end < 0 else end
        while index < end:
            pair = self._pairs.get(index) if index + 1 < end else None
            (pair or self._operations[index])(run)
            index += 2 if pair else 1

    def footprint(self, batch: Batch) -> Footprint:
        """What a run of everything would take for this batch. Nothing has to be bound, and nothing is launched."""
        memory, kernels = CountingMemory(), NoKernels()
        values = [Value(value.width, value.ids, value.outputs) for value in self._values]
        real, tables = self.memory, [bank.tables for bank in self._banks]
        self.memory, self._is_dry = memory, True
        for bank in self._banks:
            bank.tables = None
        try:
            self.launch(Run(Operations(kernels), memory, values, batch), 0, -1)
        finally:
            self.memory, self._is_dry = real, False
            for bank, kept in zip(self._banks, tables, strict=True):
                bank.tables, bank.is_stale = kept, True
        return Footprint(memory.peak, frozenset(kernels.names))

    def step_run(self, tokens: int, table_blocks: int, partitions: int) -> StepRun:
        """For repeated steps of so many tokens; to be closed before the program is."""
        operations = Operations(self.kernels, self.stream)
        tables = 1 + max((layer.table for layer in self._kv_layers), default=0)
        return StepRun(operations, self.memory, self._values, tokens, tables, table_blocks, partitions)

    def width(self, value: int) -> int:
        return self._values[value].width

    @property
    def addresses(self) -> tuple[int, ...]:
        """Of all values; a larger batch may move them."""
        return tuple(value.address for value in self._values)

    def refresh(self) -> None:
        """Pointer tables as they are to be for what is launched next."""
        for bank in self._banks:
            if bank.tables is not None and bank.is_stale:
                self._tables(bank)

    def forget_run(self) -> None:
        if self._run is not None:
            self._run.close()
            self._run = None

    def close(self) -> None:
        """Gives back all memory that the program took. It must not be running."""
        self.forget_run()
        for value in self._values:
            value.release(self.memory)
        for bank in self._banks:
            if bank.tables is not None:
                self.memory.free(bank.tables)
            bank.tables = None

    def rows(self, value: int) -> DeviceRows:
        """[rows, width] of the last run, where they are: good until the next run."""
        found = self._values[value]
        shape = self._last[found.outputs], found.width
        return DeviceRows(self.memory, found.address, shape, np.int32 if found.ids else np.float32)

    def read(self, value: int) -> Any:
        """[rows, width] of the last run, copied from the device."""
        return self.rows(value).copy()

    def write(self, value: int, rows: Floats | Ints | DeviceRows) -> None:
        found = self._values[value]
        if rows.shape[1] != found.width:
            raise ValueError(f"write: value {value} has {found.width} columns, not {rows.shape[1]}")
        found.reserve(self.memory, len(rows))
        if isinstance(rows, DeviceRows):
            self.memory.move(found.address, rows.address, rows.nbytes)
        else:
            self.memory.set(found.address, rows)

    @property
    def operation_count(self) -> int:
        return len(self._operations)

    @property
    def step_count(self) -> int:
        return len(self._operations) - len(self._pairs)


def _extent(weight: Weight) -> tuple[int, int]:
    return weight.address, weight.matrix_bytes
