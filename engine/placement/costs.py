"""Seconds of a placement item on a device: a roofline per matrix, and a fixed cost per operation.

A product over `tokens` rows takes the longer of reading its weights and of its arithmetic:

    max(bytes / bandwidth, macs × tokens / rate(type, tokens))
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.placement.hardware.profile import ATTENTION, GLU, DeviceProfile
from engine.placement.items import ExpertBank, ItemKind, Matrix, PlacementItem
from engine.placement.state import F16_BYTES


@dataclass(frozen=True, slots=True)
class Workload:
    """What is predicted: prefill of `prompt` tokens in chunks, then decode at `depth`, in a cache of `context`.

    `reused`: tokens before the prompt that are in the cache already.
    """

    context: int = 4096
    prompt: int = 2048
    depth: int = 2048
    chunk: int = 512
    value_bytes: float = F16_BYTES
    reused: int = 0

    def __post_init__(self) -> None:
        if min(self.context, self.prompt, self.chunk) < 1 or min(self.depth, self.reused) < 0:
            raise ValueError("context, prompt and chunk must be at least 1 token, depth and reused at least 0")

    @property
    def chunks(self) -> int:
        return -(-self.prompt // self.chunk)

    @property
    def chunk_tokens(self) -> int:
        """Of an average chunk: the last one may be short."""
        return -(-self.prompt // self.chunks)


def product_seconds(matrix: Matrix, device: DeviceProfile, tokens: float = 1.0, share: float = 1.0) -> float:
    """`share`: of the bandwidth that this access pattern leaves."""
    reading = matrix.bytes / (device.bandwidth * share)
    return max(reading, matrix.macs * tokens / device.kernels.rate(matrix.type_name, tokens))


def decode_seconds(item: PlacementItem, device: DeviceProfile, work: Workload) -> float:
    """One token through one item."""
    seconds = item.ops * device.op_seconds
    if item.kind is ItemKind.EMBEDDING:
        return seconds  # one row is looked up
    seconds += sum(product_seconds(matrix, device) for matrix in item.matrices)
    return seconds + _element_seconds(item, device, 1) + _state_seconds(item, device, 1, work.depth, work)


def prefill_seconds(item: PlacementItem, device: DeviceProfile, work: Workload) -> float:
    """One chunk through one item, at the prompt's average depth. The head sees the last token only."""
    tokens = work.chunk_tokens
    if item.kind is ItemKind.OUTPUT:
        return decode_seconds(item, device, work) / work.chunks
    seconds = item.ops * device.op_seconds
    if item.kind is ItemKind.EMBEDDING:
        return seconds
    seconds += sum(product_seconds(matrix, device, tokens) for matrix in item.matrices)
    seconds += _element_seconds(item, device, tokens)
    return seconds + _state_seconds(item, device, tokens, work.reused + (work.prompt + 1) // 2, work)


def _element_seconds(item: PlacementItem, device: DeviceProfile, tokens: int) -> float:
    return tokens * sum(count / device.element_rates[kind] for kind, count in item.elements)


def expert_decode_seconds(bank: ExpertBank, device: DeviceProfile) -> float:
    """One token through one expert: its matrices lie scattered, one op serves all experts of a layer."""
    return sum(product_seconds(m, device, share=device.scattered_share) for m in bank.matrices)


def expert_prefill_seconds(bank: ExpertBank, device: DeviceProfile, tokens: int) -> float:
    """A chunk through all experts of a layer, its tokens spread evenly over them."""
    each = max(1.0, tokens * bank.used / bank.count)
    touched = min(bank.count, tokens * bank.used)
    products = touched * sum(product_seconds(m, device, each) for m in bank.matrices)
    return products + tokens * bank.used * bank.width / device.element_rates[GLU]


def _state_seconds(item: PlacementItem, device: DeviceProfile, tokens: int, depth: int, work: Workload) -> float:
    if item.state is None:
        return 0.0
    # Measured: short rows of many heads leave little to overlap, so the two add up.
    reading = item.state.read_bytes(depth, work.value_bytes) / device.bandwidth
    return reading + tokens * item.state.macs(depth) / device.kernels.rate(ATTENTION, tokens)
