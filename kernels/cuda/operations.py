"""One method per operation: which kernel, with which grid, block and shared memory. Works with either kernel set.

Every pointer is an address on the kernel set's device. Activations are float32 rows [n, width]. Where a matrix is
quantised its input is `Int8Rows`, made by `quantize`; where it is float, the float rows themselves with `facts` 0
(`rows_of`). All of it may be captured into a CUDA graph: nothing here depends on what the memory holds.
"""

from __future__ import annotations

from kernels.cuda.kernel_set import KernelSet
from kernels.cuda.operands import (
    HEADS_PER_BLOCK,
    K_TYPES,
    MATVEC_MOST,
    PARTITION,
    ROWS_PER_BLOCK,
    SILU,
    TILE,
    Cache,
    ExpertTable,
    Items,
    Matrix,
    Places,
    Rows,
    Spans,
    Temperature,
    prefill_form,
)
from kernels.cuda.source import CACHE_TYPES, WEIGHT_TYPES


class Operations:
    def __init__(self, kernels: KernelSet, stream: int = 0) -> None:
        self._kernels = kernels
        self.stream = stream

    def _launch(self, name: str, grid: tuple[int, ...], threads: int, *args: int | float, shared: int = 0) -> None:
        x, y, z = (*grid, 1, 1)[:3]
        if x == 0 or y == 0 or z == 0:  # a batch without outputs has no rows there
            return
        self._kernels.launch(name, (x, y, z), (threads, 1, 1), args, shared, self.stream)

    # ---- rows ----

    def quantize(self, x: int, out: Rows, n: int, cols: int, type_id: int) -> None:
        """Float rows to int8, as matrices of this type take them."""
        lanes_per_scale = 32 if type_id in K_TYPES else 4
        self._launch("quantize", (n, _chunks(cols, 1024)), 128, x, *out, cols, lanes_per_scale)

    def rms_norm(self, x: int, weight: int, y: int, n: int, width: int, epsilon: float, stride: int = 0) -> None:
        """`stride`: values from one row to the next, where they are parts of wider rows; 0: they touch."""
        self._launch("rms_norm", (n,), 256, x, 0, weight, 0, y, width, stride or width, epsilon)

    def copy_part(self, x: int, y: int, n: int, x_stride: int, y_stride: int, count: int) -> None:
        """`count` values of each of n rows; x and y are where the first begin."""
        self._launch("copy_part", (n,), 128, x, y, x_stride, y_stride, count)

    def add_rms_norm(
        self, x: int, residual: int, weight: int, sums: int, y: int, n: int, width: int, epsilon: float
    ) -> None:
        """sums = x + residual; y = its norm. `sums` may be x or residual."""
        self._launch("rms_norm", (n,), 256, x, residual, weight, sums, y, width, width, epsilon)

    def rope_table(
        self,
        positions: int,
        frequencies: int,
        table: int,
        n: int,
        pairs: int,
        magnitude: float,
        temperature: Temperature = (1.0, 0.0, 0.0),
    ) -> None:
        """table: [n, 2, pairs] floats, for every `rope` of this batch with these frequencies and this temperature."""
        self._launch("rope_table", (n,), 128, positions, frequencies, table, pairs, magnitude, *temperature)

    def rope(self, x: int, table: int, n: int, heads: int, head_dim: int, pairs: int, halves: bool) -> None:
        """In place. halves: mode "neox", else "norm"."""
        self._launch("rope", (n,), 256, x, table, heads, head_dim, pairs, int(halves))

    def glu(self, gate: int, up: int, y: int, count: int, activation: int = SILU, span: int = 1) -> None:
        """y [count] = activation(gate) * up; each of the gate's values stands for `span` of up's."""
        self._launch("glu", (_chunks(count, 256),), 256, gate, up, y, count, activation, span)

    def add(self, a: int, b: int, y: int, count: int) -> None:
        self._launch("add", (_chunks(count, 256),), 256, a, b, y, count)

    def scale(self, x: int, y: int, count: int, factor: float) -> None:
        self._launch("scale", (_chunks(count, 256),), 256, x, y, count, factor)

    def soft_cap(self, x: int, y: int, count: int, cap: float) -> None:
        """y = cap tanh(x / cap)."""
        self._launch("soft_cap", (_chunks(count, 256),), 256, x, y, count, cap)

    def select_rows(self, x: int, rows: int, y: int, count: int, width: int) -> None:
        """y[i] = x[rows[i]]; rows: int32 [count]."""
        self._launch("select_rows", (count,), 256, x, rows, y, width)

    # ---- handing over ----

    def raise_flag(self, flag: int) -> None:
        """uint32 in memory that the host sees: 1 when what was launched before is done."""
        self._launch("raise_flag", (1,), 1, flag)

    def await_flag(self, flag: int) -> None:
        """What is launched from now on waits until the host has set it to 1; it is 0 again then."""
        self._launch("await_flag", (1,), 1, flag)

    # ---- matrices ----

    def embed(self, table: Matrix, tokens: int, y: int, n: int) -> None:
        """tokens: int32 [n]; one outside the table gives a row of NaN."""
        name = f"embed_{WEIGHT_TYPES[table.type_id]}"
        self._launch(name, (n,), 128, table.address, tokens, y, table.rows, table.cols)

    def linear(self, w: Matrix, x: Rows, y: int, n: int, bias: int = 0, residual: int = 0) -> None:
        """y = x w^T + bias + residual. bias: [rows]; residual: [n, rows], may be y."""
        if n <= MATVEC_MOST:
            self.matvec(w, x, y, n, bias, residual)
        else:
            self.matmul(w, x, y, n, bias, residual)

    def matvec(self, w: Matrix, x: Rows, y: int, n: int, bias: int = 0, residual: int = 0) -> None:
        name, grid = f"matvec_{WEIGHT_TYPES[w.type_id]}", (_chunks(w.rows, ROWS_PER_BLOCK), n)
        self._launch(name, grid, 128, w.address, *x, bias, residual, y, w.rows, w.cols)

    def matmul(self, w: Matrix, x: Rows, y: int, n: int, bias: int = 0, residual: int = 0) -> None:
        name, grid = f"matmul_{WEIGHT_TYPES[w.type_id]}", (_chunks(w.rows, TILE), _chunks(n, TILE))
        self._launch(name, grid, 128, w.address, 0, 0, 0, 0, 1, *x, bias, residual, y, w.rows, w.cols, n)

    def head_linear(
        self, w: Matrix, x: Rows, y: int, n: int, heads: int, first: int, rows: int, x_head: int, y_head: int
    ) -> None:
        """Of y [n, heads, y_head], a head's first `rows` are W_h times the first w.cols of x [n, heads, x_head].

        Head h has the `rows` rows from h * (w.rows / heads) + first on. x_head: a multiple of 8, of 32 for quantised w.
        """
        args = (w.address, *x, y, w.rows // heads, first, rows, w.cols, x_head, y_head)
        self._launch(f"head_matvec_{WEIGHT_TYPES[w.type_id]}", (_chunks(rows, ROWS_PER_BLOCK), heads, n), 128, *args)

    def head_transposed(
        self, w: Matrix, x: int, y: int, n: int, heads: int, first: int, rows: int, x_head: int, y_head: int
    ) -> None:
        """The same with W_h transposed: of float rows x the first `rows` values of each head, w.cols values of y."""
        args = (w.address, x, y, w.rows // heads, first, rows, w.cols, x_head, y_head)
        shared = 4 * (128 // _chunks(w.cols, 32)) * w.cols
        self._launch(f"head_transposed_{WEIGHT_TYPES[w.type_id]}", (heads, n), 128, *args, shared=shared)

    # ---- recurrent layers ----

    def short_conv(self, x: int, w: int, y: int, spans: Spans, tails: int, channels: int, taps: int) -> None:
        """silu of a convolution over time; w [channels, taps], tails [slots, taps - 1, channels]."""
        args = (x, w, y, spans.order, spans.spans, spans.slots, tails, channels, taps)
        self._launch("short_conv", (_chunks(channels, 128), spans.count), 128, *args)

    def delta_rule(
        self,
        x: int,
        gates: tuple[int, int, int, int],
        y: int,
        spans: Spans,
        states: int,
        key_heads: int,
        value_heads: int,
        key_dim: int,
        value_dim: int,
        tiled: bool,
        epsilon: float,
    ) -> None:
        """gates: alpha and beta [n, value_heads], a and dt [value_heads]. states: [slots, value_heads, key_dim,
        value_dim]."""
        given = (x, *gates, y, spans.order, spans.spans, spans.slots, states)
        args = (*given, key_heads, key_dim, value_dim, int(tiled), epsilon)
        self._launch("delta_rule", (value_heads, spans.count), 128, *args, shared=8 * key_dim)

    # ---- experts ----

    def router(
        self,
        logits: int,
        ids: int,
        weights: int,
        n: int,
        experts: int,
        top_k: int,
        sigmoid: bool = False,
        normalise: bool = True,
        scale: float = 1.0,
        bias: int = 0,
        groups: int = 1,
        groups_used: int = 1,
    ) -> None:
        """logits [n, experts] to ids (int32) and weights [n, top_k]; bias: [experts]; at most 32 groups."""
        args = (logits, ids, weights, experts, top_k, int(sigmoid), int(normalise), scale, bias, groups, groups_used)
        self._launch("router", (n,), 32, *args, shared=4 * experts)

    def experts_gate_up(
        self, gate: ExpertTable, up: ExpertTable, ids: int, x: Rows, y: int, n: int, top_k: int, activation: int = SILU
    ) -> None:
        """For few rows: y [n, top_k, rows] = activation(gate x) * up x; zeros for absent experts."""
        if not gate.is_like(up):
            raise ValueError(f"gate and up must be alike: {gate}, {up}")
        grid = (_chunks(gate.rows, ROWS_PER_BLOCK), top_k, n)
        args = (
            gate.address,
            up.address,
            gate.biases,
            up.biases,
            ids,
            *x,
            y,
            gate.experts,
            gate.rows,
            gate.cols,
            top_k,
            activation,
        )
        self._launch(f"experts_gate_up_{WEIGHT_TYPES[gate.type_id]}", grid, 128, *args)

    def experts_down(self, down: ExpertTable, ids: int, weights: int, x: Rows, y: int, n: int, top_k: int) -> None:
        """For few rows: y [n, rows] = the weighted sum over the experts that are here; x: [n, top_k, cols]."""
        grid = (_chunks(down.rows, ROWS_PER_BLOCK), n)
        args = (down.address, down.biases, ids, weights, *x, y, down.experts, down.rows, down.cols, top_k)
        self._launch(f"experts_down_{WEIGHT_TYPES[down.type_id]}", grid, 128, *args)

    def group_pairs(self, table: ExpertTable, ids: int, starts: int, pairs: int, n: int, top_k: int) -> None:
        """For many rows: starts (int32 [experts + 1]) and pairs (int32 [n * top_k]) for experts_matmul."""
        args = (table.address, ids, starts, pairs, table.experts, n * top_k)
        self._launch("group_pairs", (1,), 256, *args, shared=4 * table.experts)

    def experts_matmul(
        self, table: ExpertTable, starts: int, pairs: int, x: Rows, y: int, n: int, pairs_per_input: int
    ) -> None:
        """y [pair, rows] = expert(pair) x[pair / pairs_per_input]; n: most pairs that one expert can have."""
        grid = (_chunks(table.rows, TILE), _chunks(n, TILE), table.experts)
        args = (0, table.address, table.biases, starts, pairs, pairs_per_input, *x, 0, 0, y, table.rows, table.cols, 0)
        self._launch(f"matmul_{WEIGHT_TYPES[table.type_id]}", grid, 128, *args)

    def combine_experts(
        self, table: ExpertTable, ids: int, weights: int, x: int, y: int, n: int, width: int, top_k: int
    ) -> None:
        """y [n, width] = the weighted sum of x [n, top_k, width] over the experts that are here."""
        args = (table.address, ids, weights, x, y, table.experts, width, top_k)
        self._launch("combine_experts", (n, _chunks(width, 256)), 256, *args)

    # ---- attention ----

    def kv_store(self, cache: Cache, k: int, v: int, at: Places, n: int) -> None:
        args = (k, v, cache.keys, cache.values, *at[:3], cache.kv_heads, cache.key_dim, cache.value_dim)
        name = f"kv_store_{CACHE_TYPES[cache.type_id]}"
        self._launch(name, (n, cache.kv_heads), 32, *args, cache.block_tokens, at.table_blocks)

    def attention_decode(
        self,
        cache: Cache,
        q: int,
        out: int,
        at: Places,
        n: int,
        heads: int,
        scale: float,
        window: int = 0,
        partitions: int = 1,
        partials: int = 0,
        extents: int = 0,
        soft_cap: float = 0.0,
        sinks: int = 0,
    ) -> None:
        """q [n, heads, key_dim] to out [n, heads, value_dim]; the batch's own keys are stored already.

        soft_cap: scores become cap tanh(score / cap). sinks: float32 [heads], or 0.

        partitions: `partitions_for` the furthest position, or more. Above 1, partials [n, heads, partitions, value_dim]
        floats and extents (EXTENT_BYTES each) are scratch.
        """
        groups = cache.kv_heads * _chunks(heads // cache.kv_heads, HEADS_PER_BLOCK)
        shared = 4 * (HEADS_PER_BLOCK * (cache.key_dim + PARTITION) + 1024)
        dims = (heads, cache.kv_heads, cache.key_dim, cache.value_dim, cache.block_tokens, at.table_blocks)
        args = (q, cache.keys, cache.values, *at[:3], out, partials, extents, *dims, scale, window, soft_cap, sinks)
        name = CACHE_TYPES[cache.type_id]
        self._launch(f"attention_decode_{name}", (n, groups, partitions), 128, *args, shared=shared)
        if partitions > 1:
            combine = (partials, extents, at.positions, out, partitions, cache.value_dim, window, sinks)
            self._launch(f"attention_combine_{name}", (n, heads), 128, *combine)

    def attention_prefill(
        self,
        cache: Cache,
        q: int,
        out: int,
        at: Places,
        items: Items,
        heads: int,
        scale: float,
        window: int = 0,
        soft_cap: float = 0.0,
        sinks: int = 0,
    ) -> None:
        """The same for many queries, on tensor cores; `items` are the batch's `prefill_items`, on the device."""
        form = prefill_form(cache, heads)
        if form is None:
            largest = max(cache.key_dim, cache.value_dim)
            raise ValueError(f"no CUDA kernel for prefill with dimension {largest}, {heads} on {cache.kv_heads} heads")
        name = f"attention_prefill{form.suffix}_{CACHE_TYPES[cache.type_id]}"
        dims = (heads, cache.kv_heads, cache.key_dim, cache.value_dim, cache.block_tokens, at.table_blocks)
        args = (
            q,
            cache.keys,
            cache.values,
            at.positions,
            items.order,
            items.items,
            at.tables,
            out,
            *dims,
            scale,
            window,
            soft_cap,
            sinks,
        )
        self._launch(name, (items.count, cache.kv_heads * form.groups), 128, *args, shared=form.shared)


def _chunks(count: int, size: int) -> int:
    return -(-count // size)
