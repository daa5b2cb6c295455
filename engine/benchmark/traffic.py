"""Bytes that one decode step must read: what the memory roofline divides by."""

from __future__ import annotations

from engine.models.graph import Embed, Experts, Graph


def decode_bytes(graph: Graph, experts_used: int, depth: int, kv_value_bytes: float) -> float:
    """Weights read once per token (of stacked experts only the used share) and the cache of `depth` positions.

    An embedding table counts in full only where it is also the output matrix; otherwise one row is read.
    """
    experts = {name for op in graph.ops if isinstance(op, Experts) for name in (op.gate, op.up, op.down)}
    looked_up = {op.table for op in graph.ops if isinstance(op, Embed)} - _multiplied(graph)
    total = 0.0
    for name, tensor in graph.weights.items():
        if name in looked_up:
            total += tensor.nbytes / tensor.rows
        elif name in experts:
            total += tensor.nbytes * experts_used / tensor.count
        else:
            total += tensor.nbytes
    values = sum(layer.kv_heads * sum(layer.rows) for layer in graph.kv_layers)
    return total + depth * values * kv_value_bytes


def _multiplied(graph: Graph) -> set[str]:
    return {weight for op in graph.ops for weight in getattr(op, "weights", ()) if isinstance(weight, str)}
