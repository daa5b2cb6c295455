"""Recording: a forward pass as a list of operations, each a function of the run that it is part of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from kernels.cuda.handles import Bank, Handles
from kernels.cuda.operands import GELU, LINEAR, SIGMOID, SILU, SWIGLU_OAI, Temperature, is_float
from kernels.cuda.run import Run, attend, multiply_experts

if TYPE_CHECKING:
    from kernels._cpu import Activation, Floats

_ACTIVATIONS = {"silu": SILU, "gelu": GELU, "sigmoid": SIGMOID, "swiglu_oai": SWIGLU_OAI, "linear": LINEAR}


@dataclass
class Recorder(Handles):
    """One method per operation of `kernels._cpu.Program`; sizes come from the batch, addresses when it is run."""

    _operations: list[Callable[[Run], None]] = field(default_factory=list)
    _pairs: dict[int, Callable[[Run], None]] = field(default_factory=dict)  # operations index and index + 1 in one
    _sums: tuple[int, int, int, int] = (-1, 0, 0, 0)  # the latest `add`: its index, a, b and out

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
        self._add_bank(bank)

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

    def finish(self, fuse: bool = True, kept: Sequence[int] | None = None) -> None:
        """fuse: a sum and the norm of it in one launch; both can still be read. Every value is kept in any case."""
        if not fuse:
            self._pairs.clear()

    @property
    def operation_count(self) -> int:
        return len(self._operations)

    @property
    def step_count(self) -> int:
        return len(self._operations) - len(self._pairs)

    def _set_domain(self, out: int, outputs: bool) -> None:
        self._values[out].outputs = outputs

    def _follow(self, x: int, *outs: int) -> bool:
        """`outs` have as many rows as x: one per output, or one per token."""
        for out in outs:
            self._values[out].outputs = self._values[x].outputs
        return self._values[x].outputs
