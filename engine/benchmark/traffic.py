"""What a token costs at least: the bytes that a decode step must read, the multiplications of a prompt's token."""

from __future__ import annotations

from dataclasses import dataclass

from engine.models.graph import Embed, Experts, Graph, HeadLinear, KVLayer, Linear, Router, SelectRows, StateLayer


@dataclass(frozen=True, slots=True)
class Work:
    """A decode step reads `step_bytes` at depth 0, `cache_bytes` more per position.

    A prompt's token costs `products` multiply-adds with weights.
    """

    step_bytes: float
    cache_bytes: float
    products: float

    @classmethod
    def of(cls, graph: Graph, kv_value_bytes: float) -> Work:
        """`kv_value_bytes`: of one cached value."""
        used = next((op.top_k for op in graph.ops if isinstance(op, Router)), 0)
        assert used or not any(isinstance(op, Experts) for op in graph.ops)
        step = decode_bytes(graph, used, 0, kv_value_bytes)
        return cls(step, decode_bytes(graph, used, 1, kv_value_bytes) - step, prefill_products(graph, used))


def decode_bytes(graph: Graph, experts_used: int, depth: int, kv_value_bytes: float) -> float:
    """Weights read once per token (of stacked experts only the used share) and the cache of `depth` positions.

    An embedding table counts in full only where it is also the output matrix; otherwise one row is read.
    """
    experts = {name for op in graph.ops if isinstance(op, Experts) for name in op.tensors}
    looked_up = {op.table for op in graph.ops if isinstance(op, Embed)} - _multiplied(graph)
    total = 0.0
    for name, tensor in graph.weights.items():
        if name in looked_up:
            total += tensor.nbytes / tensor.rows
        elif name in experts:
            total += tensor.nbytes * experts_used / tensor.count
        else:
            total += tensor.nbytes
    values = sum(layer.kv_heads * sum(layer.rows) for layer in graph.kv_layers if isinstance(layer, KVLayer))
    states = sum(layer.tail_values + layer.state_values for layer in graph.kv_layers if isinstance(layer, StateLayer))
    return total + depth * values * kv_value_bytes + 2 * 4 * states  # a state is read and written


def prefill_products(graph: Graph, experts_used: int) -> float:
    """Multiply-adds with weights per token of a prompt; attention's and the last token's output matrix not counted."""
    total = 0.0
    for op in graph.ops:
        if isinstance(op, SelectRows):
            break
        if isinstance(op, Experts):
            shapes = [graph.weights[name] for name in (op.gate, op.up, op.down)]
            total += experts_used * sum(shape.rows * shape.cols for shape in shapes)
        elif isinstance(op, HeadLinear):
            total += op.heads * op.rows * graph.weights[op.weight].cols
        elif isinstance(op, Linear):
            total += sum(graph.weights[name].rows * graph.weights[name].cols for name in op.weights)
    return total


def _multiplied(graph: Graph) -> set[str]:
    return {weight for op in graph.ops for weight in getattr(op, "weights", ()) if isinstance(weight, str)}
