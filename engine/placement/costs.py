"""Seconds of a placement item on a device: a roofline per matrix, and a fixed cost per operation and step.

A product over `tokens` rows takes the longer of reading its weights and of its arithmetic:

    max(bytes / bandwidth, macs × tokens / rate(type, tokens))

and, on a measured CPU, what stalls it in addition to computing; one straight from rows also takes something per row,
and per input, which those side by side share. Packing of inputs, norms, rotations, activations are priced per value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.placement.hardware.profile import (
    ADD,
    ATTENTION,
    EXPERTS,
    FEW_SCORE,
    FEWEST_IN_PANELS,
    GLU,
    PACK,
    PRODUCT,
    SCORE,
    DeviceProfile,
)
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


def product_seconds(matrix: Matrix, device: DeviceProfile, tokens: float = 1.0, kind: str = PRODUCT) -> float:
    reading = matrix.bytes / device.bandwidth
    computing = matrix.macs * tokens / device.kernels.rate(matrix.type_name, tokens)
    if tokens < FEWEST_IN_PANELS:
        return device.seconds_from_rows(matrix.type_name, matrix.rows * tokens, reading, computing)
    return device.seconds(kind, tokens, reading, computing)


def weights_rate(device: DeviceProfile) -> float:
    """Bytes/s of Q4_K weights that one token goes through: the memory's speed, or less where arithmetic is slower."""
    elements = 4096
    matrix = Matrix("Q4_K", elements, elements, elements * elements * 144 // 256)  # a block: 256 weights in 144 bytes
    return matrix.bytes / product_seconds(matrix, device)


def decode_seconds(item: PlacementItem, device: DeviceProfile, work: Workload) -> float:
    """One token through one item."""
    if item.kind is ItemKind.EMBEDDING:
        return _embedding_seconds(item, device)
    seconds = item.ops * device.op_seconds + _products_seconds(item, device, 1)
    return seconds + _element_seconds(item, device, 1) + _state_seconds(item, device, 1, work.depth, work)


def tokens_through(part: PlacementItem | ExpertBank, work: Workload) -> int:
    """Of a chunk, behind the attention of the part's layer: of the last layer the last token alone."""
    return 1 if part.is_last else work.chunk_tokens


def prefill_seconds(item: PlacementItem, device: DeviceProfile, work: Workload) -> float:
    """One chunk through one item, at the prompt's average depth. The head sees the last token only."""
    if item.kind is ItemKind.OUTPUT:
        return decode_seconds(item, device, work) / work.chunks
    if item.kind is ItemKind.EMBEDDING:
        return _embedding_seconds(item, device)
    tokens = work.chunk_tokens if item.kind is ItemKind.ATTENTION else tokens_through(item, work)
    seconds = item.ops * device.op_seconds + _products_seconds(item, device, tokens)
    seconds += _element_seconds(item, device, tokens)
    return seconds + _state_seconds(item, device, tokens, work.reused + (work.prompt + 1) // 2, work)


def _embedding_seconds(item: PlacementItem, device: DeviceProfile) -> float:
    """Rows are looked up; every step begins here."""
    return item.ops * device.op_seconds + device.step_seconds


def _products_seconds(item: PlacementItem, device: DeviceProfile, tokens: int) -> float:
    starts = item.inputs * device.start_seconds if tokens < FEWEST_IN_PANELS else 0.0
    last = len(item.matrices) - 1
    return starts + sum(
        product_seconds(matrix, device, 1 if item.is_last and number == last else tokens)
        for number, matrix in enumerate(item.matrices)
    )


def _element_seconds(item: PlacementItem, device: DeviceProfile, tokens: int) -> float:
    return tokens * sum(count / device.element_rates[kind] for kind, count in item.elements)


def expert_decode_seconds(bank: ExpertBank, device: DeviceProfile) -> float:
    """One token through one expert: its matrices lie scattered, one op serves all experts of a layer. What stalls their
    products is in the share of the bandwidth."""
    bandwidth = device.bandwidth * device.scattered_share
    scattered = replace(device, bandwidth=bandwidth, row_stalls={}, row_seconds=0.0)
    return sum(product_seconds(matrix, scattered) for matrix in bank.matrices)


def expert_prefill_seconds(bank: ExpertBank, device: DeviceProfile, tokens: int) -> float:
    """A chunk through a layer's experts, drawn evenly: how many it touches, and how many tokens each of them sees."""
    pairs = tokens * bank.used
    touched = bank.count * (1 - (1 - bank.used / bank.count) ** tokens)
    kind = EXPERTS if EXPERTS in device.stalls else PRODUCT
    products = touched * sum(product_seconds(m, device, max(1.0, pairs / touched), kind) for m in bank.matrices)
    hidden = max((m.cols for m in bank.matrices), default=0)
    values = ((PACK, hidden + bank.width), (GLU, bank.width), (ADD, hidden))
    return products + pairs * sum(count / device.element_rates[kind] for kind, count in values)


def _state_seconds(item: PlacementItem, device: DeviceProfile, tokens: int, depth: int, work: Workload) -> float:
    state = item.state
    if state is None:
        return 0.0
    reading = state.read_bytes(depth, work.value_bytes) / device.bandwidth
    rows = tokens * state.rows_per_key
    rate = device.kernels.rate(ATTENTION, rows)
    scores = device.element_rates[FEW_SCORE if tokens == 1 else SCORE]
    computing = state.macs(depth) / rate + state.scores(depth) / scores
    return device.seconds(ATTENTION, rows, reading, tokens * computing)
