"""The map's cells: one row per layer, columns of tensors and then of experts, as arrays. Free of Qt.

A cell is an expert, or a tensor that is no expert. Rows: the embedding, each layer, the output head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from app.translation import tr
from engine.placement.items import Device, ItemKind, model_items
from engine.placement.pins import Pins
from engine.placement.plan import PlacementPlan
from engine.placement.shape import ModelShape, TensorShape

NOWHERE, GPU, RAM, MOVING, DISK = range(5)  # places; NOWHERE: no cell there

Places = npt.NDArray[np.uint8]

# Columns that every family has, in graph order; others follow by name.
_ORDER = (
    "attn_norm",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "ffn_norm",
    "ffn_gate_inp",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
)


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell stands for. `item` is the key of the placement item it moves with, `expert` -1 for tensors."""

    row: int
    column: int
    name: str
    type_name: str
    bytes: int
    item: str
    expert: int = -1


class MapCells:
    """All cells of a model. Places of the cells come as [rows, columns] arrays of the constants above."""

    def __init__(self, shape: ModelShape) -> None:
        self.shape = shape
        items = model_items(shape)
        self._keys = {(item.kind, item.layer): item.key for item in items.items}
        self.banks = {bank.layer: bank for bank in items.banks}
        self.experts = max((bank.count for bank in items.banks), default=0)
        self._expert_name = tr("blk.{layer} expert {number}")
        self.parts = _parts(shape)
        self.columns = len(self.parts) + self.experts
        self.rows = len(shape.layers) + 2
        self.tensors: dict[tuple[int, int], Cell] = {}
        for row, layer in enumerate(shape.layers, start=1):
            for tensor in layer.tensors:
                if "_exps" not in tensor.name:
                    self._add(row, self.parts.index(_part(tensor)), tensor, self._key_of(layer.index, tensor))
        self.outer = {0: self._outer_row(0), self.rows - 1: self._outer_row(self.rows - 1)}

    @property
    def tensor_columns(self) -> int:
        return len(self.parts)

    def label(self, row: int) -> str:
        if row == 0:
            return tr("in")
        return tr("out") if row == self.rows - 1 else str(row - 1)

    def at(self, row: int, column: int) -> Cell | None:
        if not (0 <= row < self.rows and 0 <= column < self.columns):
            return None
        expert = column - self.tensor_columns
        if expert < 0:
            return self.tensors.get((row, column))
        bank = self.banks.get(row - 1)
        if bank is None or expert >= bank.count:
            return None
        types = " + ".join(dict.fromkeys(matrix.type_name for matrix in bank.matrices))
        name = self._expert_name.format(layer=bank.layer, number=expert)
        return Cell(row, column, name, types, bank.expert_bytes, bank.key, expert)

    def cells_of(self, pins: Pins) -> list[tuple[int, int]]:
        """Row and column of everything that is pinned."""
        found = [at for at, cell in self.tensors.items() if pins.item(cell.item) is not None]
        for pin in pins.all:
            row = self._bank_rows.get(pin.key)
            if row is not None and pin.expert >= 0:
                found.append((row, self.tensor_columns + pin.expert))
        return sorted(found)

    def mask_of(self, keys: Set[tuple[str, int]]) -> npt.NDArray[np.bool_]:
        """[rows, columns]: the cells of items (with -1) and of experts, by the bank's key and their number."""
        names = np.array([(name, -1) in keys for name in self._item_names], bool)
        mask: npt.NDArray[np.bool_] = np.where(self._item_index < 0, False, names[self._item_index])
        for key, expert in keys:
            if expert >= 0 and (row := self._bank_rows.get(key)) is not None:
                mask[row, self.tensor_columns + expert] = True
        return mask

    # --- places -----------------------------------------------------------------------------------------------

    def of_plan(self, plan: PlacementPlan) -> Places:
        """Where the plan puts each cell. Which experts are in a bank's slots is known only where heat names them;
        else the first cells of the row stand for the slots, however they will be filled."""
        residents = {
            e.bank.key: e.resident if len(e.resident) == e.slots else range(e.slots) for e in plan.experts if e.slots
        }
        return self.of_residency({p.item.key for p in plan.items if p.device is Device.GPU}, residents)

    def of_residency(
        self, on_gpu: Set[str], residents: Mapping[str, Sequence[int]], moving: Set[str] = frozenset()
    ) -> Places:
        """`on_gpu`: keys of items there; `residents`: by bank key, the experts in slots."""
        items = np.array(
            [MOVING if name in moving else GPU if name in on_gpu else RAM for name in self._item_names], np.uint8
        )
        places: Places = np.where(self._item_index < 0, NOWHERE, items[self._item_index]).astype(np.uint8)
        for key, experts in residents.items():
            row = self._bank_rows.get(key)
            if row is not None:
                places[row, self.tensor_columns + np.asarray(experts, np.int64)] = GPU
        return places

    @cached_property
    def _item_names(self) -> list[str]:
        banks = [bank.key for bank in self.banks.values()]
        return list(dict.fromkeys([*(cell.item for cell in self.tensors.values()), *banks]))

    @cached_property
    def _item_index(self) -> npt.NDArray[np.int32]:
        """Per cell the number of its item, -1 where there is no cell."""
        numbers = {name: number for number, name in enumerate(self._item_names)}
        index = np.full((self.rows, self.columns), -1, np.int32)
        for (row, column), cell in self.tensors.items():
            index[row, column] = numbers[cell.item]
        for layer, bank in self.banks.items():
            index[layer + 1, self.tensor_columns : self.tensor_columns + bank.count] = numbers[bank.key]
        return index

    @cached_property
    def _bank_rows(self) -> dict[str, int]:
        return {bank.key: layer + 1 for layer, bank in self.banks.items()}

    def bytes_of_part(self, part: int) -> int:
        """Bytes of the largest tensor of a column, for its width on screen."""
        inner = [cell for cell in self.tensors.values() if cell.column == part and cell.row not in self.outer]
        return max((cell.bytes for cell in inner), default=0)

    # --- building ---------------------------------------------------------------------------------------------

    def _add(self, row: int, column: int, tensor: TensorShape, item: str) -> None:
        self.tensors.setdefault((row, column), Cell(row, column, tensor.name, tensor.type_name, tensor.bytes, item))

    def _key_of(self, layer: int, tensor: TensorShape) -> str:
        kinds = [ItemKind.ATTENTION, ItemKind.FEED_FORWARD, ItemKind.SHARED]
        if _part(tensor).startswith(("ffn_", "post_ffw", "exp_probs_b", "layer_output_scale")):
            kinds.reverse()
        return next(self._keys[kind, layer] for kind in kinds if (kind, layer) in self._keys)

    def _outer_row(self, row: int) -> tuple[int, ...]:
        """Spreads the tensors outside the layers over a row; where each of them begins."""
        embedding = row == 0
        found = [t for t in self.shape.outer if ("embd" in t.name and "norm" not in t.name) == embedding]
        found.sort(key=lambda tensor: tensor.bytes)
        kind = ItemKind.EMBEDDING if embedding else ItemKind.OUTPUT
        small = min(len(found), self.tensor_columns) - 1
        starts = tuple(range(max(0, small) + 1)) if found else ()
        for column in range(self.tensor_columns if found else 0):
            self._add(row, column, found[min(column, len(found) - 1)], self._keys[kind, -1])
        return starts


def _part(tensor: TensorShape) -> str:
    part = tensor.name.split(".", 2)[2]
    return part.removesuffix(".weight")


def _parts(shape: ModelShape) -> tuple[str, ...]:
    names = {_part(t) for layer in shape.layers for t in layer.tensors if "_exps" not in t.name}

    def place(name: str) -> tuple[int, str]:
        stem = name.split(".")[0]
        known = [key for key in _ORDER if stem == key or stem.startswith(key + "_")]
        if known:
            return _ORDER.index(max(known, key=len)), name
        return (4 if not stem.startswith("ffn") else 9), name

    return tuple(sorted(names, key=place))
