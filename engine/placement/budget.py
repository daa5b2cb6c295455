"""Memory limits, and what counts against them besides weights and sequence state.

A budget is an absolute ceiling on what the driver charges to this process: context, workspaces, staging and scratch
included. It is never derived from a reading of free memory; `recommended_budget` only proposes one.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.placement.costs import Workload
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.shape import ModelShape

MiB = 1 << 20
GiB = 1 << 30

# A CUDA context with its modules on Turing and later, as drivers 5xx charge it, and cuBLAS's default workspace.
CONTEXT_BYTES = 320 * MiB
WORKSPACE_BYTES = 32 * MiB
# Two staging tiles, so that one is copied while the other is used; weights are streamed in tiles of this size.
STAGING_BYTES = 2 * 32 * MiB
# Kept free for others on the card: more where it drives a display; Windows' WDDM silently spills to system memory.
HEADROOM_BYTES = 256 * MiB
DISPLAY_HEADROOM_BYTES = 768 * MiB
WDDM_HEADROOM_BYTES = 2 * GiB
# RAM that stays free for everything else on the machine; below it, a PC freezes instead of failing.
RAM_RESERVE_BYTES = 2 * GiB
# Our own interpreter, window and tables.
PROCESS_BYTES = 300 * MiB


@dataclass(frozen=True, slots=True)
class Budget:
    """`gpu_bytes`: what Tessera may take on the GPU. `ram_bytes`: all RAM it may take; None: the machine's, less
    the reserve."""

    gpu_bytes: int
    ram_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.gpu_bytes < 0 or (self.ram_bytes is not None and self.ram_bytes < 0):
            raise ValueError("a budget cannot be negative")


def headroom_bytes(hardware: HardwareProfile) -> int:
    """What a card keeps free for the display and the driver."""
    if hardware.platform == "windows":
        return WDDM_HEADROOM_BYTES
    return DISPLAY_HEADROOM_BYTES if hardware.drives_display else HEADROOM_BYTES


def recommended_budget(hardware: HardwareProfile, taken_by_others: int = 0) -> Budget:
    """The largest safe budget: the card less headroom and less what other programs hold now."""
    if hardware.gpu is None:
        return Budget(0)
    return Budget(max(0, hardware.gpu.memory_bytes - headroom_bytes(hardware) - taken_by_others))


def gpu_limit(budget: Budget, hardware: HardwareProfile) -> int:
    """The budget, but never more than the card has less its headroom."""
    return min(budget.gpu_bytes, recommended_budget(hardware).gpu_bytes)


def ram_limit(budget: Budget, hardware: HardwareProfile) -> int:
    machine = max(0, hardware.cpu.memory_bytes - RAM_RESERVE_BYTES)
    return machine if budget.ram_bytes is None else min(machine, budget.ram_bytes)


def scratch_bytes(shape: ModelShape, work: Workload) -> int:
    """Activations of one prefill chunk, float32: the residual stream and its copies, the widest projections of a
    layer (all experts' of its tokens), and the logits of the rows that are asked for."""
    widest = max((_layer_width(shape, i) for i in range(len(shape.layers))), default=shape.hidden)
    per_token = 4 * (4 * shape.hidden + widest)
    return min(work.chunk, work.prompt) * per_token + 4 * shape.vocabulary


def _layer_width(shape: ModelShape, index: int) -> int:
    """Values per token that live at once: the outputs of the wider half of a layer."""
    attention = feed_forward = 0
    for tensor in shape.layers[index].tensors:
        if len(tensor.shape) < 2:
            continue
        used = shape.experts_used if "_exps" in tensor.name else 1
        if "ffn_" in tensor.name:
            feed_forward += tensor.rows * used
        elif "conv1d" not in tensor.name:
            attention += tensor.rows
    return max(attention, feed_forward)


def gpu_overhead(shape: ModelShape, work: Workload) -> int:
    """GPU memory taken as soon as anything runs there, before the first weight."""
    return CONTEXT_BYTES + WORKSPACE_BYTES + STAGING_BYTES + scratch_bytes(shape, work)


def ram_overhead(shape: ModelShape, work: Workload) -> int:
    return PROCESS_BYTES + scratch_bytes(shape, work)
