"""What segments cost by set rates: for clocks that run on plans instead of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.models.graph import Experts, op_weights
from engine.runtime.placement import MISSES
from engine.runtime.work import SegmentWork


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes of weights read per second, and the fixed cost of an operation in seconds, on either side."""

    cpu_bandwidth: float
    device_bandwidth: float
    op_seconds: float = 0.0

    def seconds(self, work: SegmentWork) -> float:
        """Of a segment that has just run: of its experts, only those that it used are read."""
        bandwidth = self.device_bandwidth if work.side.on_device else self.cpu_bandwidth
        ops = work.graph.ops[work.segment.begin : work.segment.end]
        total = 0.0
        for op in ops:
            sizes = sum(work.graph.weights[name].nbytes for name in op_weights(op))
            total += sizes * _used_share(work, op) if isinstance(op, Experts) else sizes
        return total / bandwidth + len(ops) * self.op_seconds


def _used_share(work: SegmentWork, op: Experts) -> float:
    """Of the matrices that the operation was given: which of them this step used. On the device, ids are slots."""
    count = work.graph.weights[op.gate].count
    ids = np.unique(work.side.program.program.read(work.side.handle(op.ids)))
    if op.item.endswith(MISSES):
        ids = ids[work.tables.absent(op.item.removesuffix(MISSES))[ids]]
    return float(((ids >= 0) & (ids < count)).sum()) / count
