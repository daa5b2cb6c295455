"""Placement items: the parts of a model that move as one between devices.

Attention of a layer (with its norms and its sequence state) is one item, a feed-forward block's gate, up and down
together another; router and shared experts go together; each expert is an item of its own, listed here by the layer's
`ExpertBank`; then the embedding and the output head.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.placement.hardware.profile import ADD, GLU, NORM, PACK, ROPE
from engine.placement.shape import LayerShape, ModelShape, TensorShape
from engine.placement.state import StateShape


class Device(enum.Enum):
    CPU = "cpu"
    GPU = "gpu"

    @property
    def label(self) -> str:
        return self.value.upper()


class ItemKind(enum.Enum):
    EMBEDDING = "embedding"
    ATTENTION = "attention"
    FEED_FORWARD = "feed-forward"
    SHARED = "router and shared experts"
    OUTPUT = "output head"


_KEYS = {
    ItemKind.EMBEDDING: "embedding",
    ItemKind.ATTENTION: "attn",
    ItemKind.FEED_FORWARD: "ffn",
    ItemKind.SHARED: "ffn",
    ItemKind.OUTPUT: "output",
}


@dataclass(frozen=True, slots=True)
class Matrix:
    """A product's weight: `rows × cols` of one type."""

    type_name: str
    rows: int
    cols: int
    bytes: int

    @property
    def macs(self) -> int:
        return self.rows * self.cols


@dataclass(frozen=True, slots=True)
class PlacementItem:
    """`bytes` are its weights; its state's bytes depend on the context. `layer` is -1 outside the layers. The last of
    its `matrices` takes what the others make."""

    kind: ItemKind
    layer: int
    bytes: int
    matrices: tuple[Matrix, ...]
    state: StateShape | None = None
    ops: int = 0  # operations of the captured program, for fixed costs
    inputs: int = 0  # of its products: those side by side share theirs, and run as one
    elements: tuple[tuple[str, int], ...] = ()  # element-wise work per token: kind and values
    tied_bytes: int = 0  # of `bytes`, those of the embedding table: the head reads it where none is its own
    is_last: bool = False  # of the last layer: behind its attention go on only the tokens whose logits are asked for

    @property
    def name(self) -> str:
        return self.kind.value if self.layer < 0 else f"{self.kind.value} {self.layer}"

    @property
    def key(self) -> str:
        """The item's name in a model's graph, as lowering asks for it."""
        return _KEYS[self.kind] if self.layer < 0 else f"blk.{self.layer}.{_KEYS[self.kind]}"

    def state_bytes(self, context: int, value_bytes: float, *, windows_only: bool = False) -> int:
        return self.state.bytes(context, value_bytes, windows_only=windows_only) if self.state else 0


@dataclass(frozen=True, slots=True)
class ExpertBank:
    """The experts of one layer, all alike. `matrices` and `expert_bytes` are those of one expert."""

    layer: int
    count: int
    used: int
    expert_bytes: int
    matrices: tuple[Matrix, ...]
    width: int = 0  # of one expert's activation
    is_last: bool = False  # as an item's

    @property
    def key(self) -> str:
        """The bank's name in a model's graph."""
        return f"blk.{self.layer}.experts"

    @property
    def bytes(self) -> int:
        return self.count * self.expert_bytes


@dataclass(frozen=True, slots=True)
class ModelItems:
    """Everything that can be placed, in graph order. `banks[i]` follows the SHARED item of its layer."""

    items: tuple[PlacementItem, ...]
    banks: tuple[ExpertBank, ...]

    @property
    def dense_bytes(self) -> int:
        """Bytes of everything but the experts."""
        return sum(item.bytes - item.tied_bytes for item in self.items)

    @property
    def expert_bytes(self) -> int:
        return sum(bank.bytes for bank in self.banks)


# Steps of the captured program per item, after fusion: norm with the product that follows, product with the addition
# or activation that follows. Attention: q/k/v, two rotations, attention, output; more with norms of q and k.
_OPS = {
    ItemKind.EMBEDDING: 1,
    ItemKind.ATTENTION: 3,  # q, k, v at once; heads, cache and attention; the output projection
    ItemKind.FEED_FORWARD: 2,
    ItemKind.SHARED: 3,
    ItemKind.OUTPUT: 2,
}
_PARTS = ("attn_q", "attn_k", "attn_output", "ffn_up", "ffn_up_shexp", "ffn_down", "ffn_down_shexp")
_LAST = ("attn_output", "ffn_down", "ffn_down_shexp")  # products of what the others of their item have made
_FEED_FORWARD = ("ffn_", "post_ffw", "exp_probs_b", "layer_output_scale")


def model_items(shape: ModelShape) -> ModelItems:
    embedding = [t for t in shape.outer if _is_embedding(t.name)]
    head = [t for t in shape.outer if not _is_embedding(t.name)]
    items = [_item(ItemKind.EMBEDDING, -1, embedding)]
    banks = []
    for layer in shape.layers:
        layer_items, bank = _layer_items(layer, shape)
        if layer is shape.layers[-1]:
            layer_items = [replace(item, is_last=True) for item in layer_items]
            bank = bank and replace(bank, is_last=True)
        items += layer_items
        if bank is not None:
            banks.append(bank)
    output = _item(ItemKind.OUTPUT, -1, head)
    if not any(t.name == "output.weight" for t in head):
        output = _tied(output, [t for t in embedding if t.name == "token_embd.weight"])
    items.append(output)
    return ModelItems(tuple(items), tuple(banks))


def _layer_items(layer: LayerShape, shape: ModelShape) -> tuple[list[PlacementItem], ExpertBank | None]:
    experts, feed_forward, attention = [], [], []
    # Where a layer has no ffn_norm, the norm behind attention is the one before the feed-forward block.
    has_ffn_norm = any(".ffn_norm." in t.name or ".post_ffw_norm." in t.name for t in layer.tensors)
    for tensor in layer.tensors:
        part = tensor.name.split(".", 2)[2]
        if "_exps" in part:
            experts.append(tensor)
        elif part.startswith(_FEED_FORWARD) or (part.startswith("post_attention_norm") and not has_ffn_norm):
            feed_forward.append(tensor)
        else:
            attention.append(tensor)
    items = []
    if attention:
        items.append(_item(ItemKind.ATTENTION, layer.index, attention, layer.state))
    if feed_forward:
        kind = ItemKind.SHARED if experts else ItemKind.FEED_FORWARD
        items.append(_item(kind, layer.index, feed_forward))
    return items, _bank(layer.index, experts, shape) if experts else None


def _is_embedding(name: str) -> bool:
    return "embd" in name and "norm" not in name


def _item(kind: ItemKind, layer: int, tensors: Iterable[TensorShape], state: StateShape | None = None) -> PlacementItem:
    tensors = sorted(tensors, key=lambda t: _part(t) in _LAST)  # as they are used, in whatever order a file has them
    matrices = tuple(Matrix(t.type_name, t.rows * t.count, t.cols, t.bytes) for t in tensors if _is_product(t))
    size, inputs = sum(t.bytes for t in tensors), _inputs(tensors)
    return PlacementItem(kind, layer, size, matrices, state, _OPS[kind], len(inputs), _elements(tensors, inputs))


def _inputs(tensors: list[TensorShape]) -> set[tuple[int, bool]]:
    """Of an item's products, by their width: those side by side share theirs."""
    return {(t.cols, _part(t) in _LAST) for t in tensors if _is_product(t)}


def _elements(tensors: list[TensorShape], inputs: set[tuple[int, bool]]) -> tuple[tuple[str, int], ...]:
    """Element-wise work of an item: norms by their weights, packing of inputs, rotation of q and k, activation of gate
    and up, and the addition to the residual stream after a block's last product."""
    rows = dict.fromkeys(_PARTS, 0)
    for tensor in tensors:
        part = _part(tensor)
        if part in _PARTS and tensor.name.endswith("weight"):
            rows[part] += tensor.rows
    norms = sum(
        t.cols for t in tensors if t.name.endswith("_norm.weight") and "_q_" not in t.name and "_k_" not in t.name
    )
    if any(t.name.endswith("attn_q_norm.weight") for t in tensors):
        norms += rows["attn_q"] + rows["attn_k"]
    counts = (
        (NORM, norms),
        (PACK, sum(cols for cols, _ in inputs)),
        (ROPE, rows["attn_q"] + rows["attn_k"]),
        (GLU, rows["ffn_up"] + rows["ffn_up_shexp"]),
        (ADD, rows["attn_output"] + rows["ffn_down"] + rows["ffn_down_shexp"]),
    )
    return tuple((kind, count) for kind, count in counts if count)


def _tied(output: PlacementItem, table: list[TensorShape]) -> PlacementItem:
    whole = _item(ItemKind.OUTPUT, -1, table)
    return replace(
        output,
        bytes=output.bytes + whole.bytes,
        matrices=output.matrices + whole.matrices,
        inputs=output.inputs + whole.inputs,
        tied_bytes=whole.bytes,
    )


def _part(tensor: TensorShape) -> str:
    """ "attn_q" of "blk.3.attn_q.weight"."""
    return tensor.name.rsplit(".", 1)[0].rsplit(".", 1)[-1]


def _is_product(tensor: TensorShape) -> bool:
    return len(tensor.shape) > 1 and tensor.rows > 1 and "conv1d" not in tensor.name


def _bank(layer: int, experts: list[TensorShape], shape: ModelShape) -> ExpertBank:
    stacked = [t for t in experts if t.count > 1 or len(t.shape) == 3]
    matrices = tuple(Matrix(t.type_name, t.rows, t.cols, t.bytes // t.count) for t in stacked if _is_product(t))
    expert_bytes = sum(t.bytes for t in experts) // shape.experts
    width = sum(t.rows for t in stacked if "ffn_up" in t.name)
    return ExpertBank(layer, shape.experts, shape.experts_used, expert_bytes, matrices, width)
