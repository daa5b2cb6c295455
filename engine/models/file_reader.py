"""FileReader: a GGUF file's keys and tensors side by side, and how what is wrong with them is said."""

from __future__ import annotations

import re

from engine.errors import EngineError, FormatError, UnsupportedError
from engine.gguf import GGUFFile
from engine.models.family import Family
from engine.models.keys import Keys
from engine.models.spec import TensorShape

_LAYER = re.compile(r"blk\.(\d{1,9})\.")


class FileReader:
    """`tensors` loses what is read out of it on the way; what remains is the graph's."""

    def __init__(self, family: Family, gguf: GGUFFile) -> None:
        self.family = family
        self.gguf = gguf
        self.keys = Keys(gguf)
        self.tensors = tensor_shapes(gguf, family.ignored_tensors)
        self.warnings: list[str] = []
        self.blocks = self._blocks()

    def _blocks(self) -> int:
        """Layers that run. Extra prediction layers are counted in block_count, stand last, and may not be there."""
        count = self.keys.integer("block_count", minimum=1)
        if count > len(self.tensors):  # a count that is a lie must not cost memory
            raise self._broken(f"block_count is {count}, and the file holds {len(self.tensors)} tensors")
        extra = self.keys.integer("nextn_predict_layers", 0)
        if extra >= count:
            raise self._broken(f"nextn_predict_layers is {extra}, of {count} layers in all")
        if extra:
            self.warnings.append(f"The last {extra} of {count} layers only predict further tokens; they are not used.")
        unused = range(count - extra, count)
        self.tensors = {name: t for name, t in self.tensors.items() if _layer_of(name) not in unused}
        return count - extra

    def _tensor(self, name: str) -> TensorShape:
        tensor = self.tensors.get(name)
        if tensor is None:
            raise self._broken(f"the tensor “{name}” is missing")
        return tensor

    def _head_dim(self, name: str, heads: int) -> int:
        rows = self._tensor(name).rows
        if rows % heads:
            raise self._broken(f"the {rows} rows of “{name}” do not divide into {heads} heads")
        return rows // heads

    def _agreed(self, key: str, from_shape: int, layer: int = 0) -> int:
        """`from_shape`, with a warning where the metadata says otherwise."""
        stated = self.keys.per_layer(key, layer, self.blocks, default=from_shape)
        if stated != from_shape:
            self.warnings.append(f"The key {key} says {stated}, the tensors say {from_shape}; the tensors are right.")
        return from_shape

    def _unbuilt(self, key: str, value: object) -> EngineError:
        full = f"{self.gguf.architecture}.{key}"
        return UnsupportedError(
            f"{self.gguf.path.name}: {full} is {value}, which our own engine does not compute.",
            remedy="It may run on the compatibility engine.",
        )

    def _broken(self, problem: str) -> EngineError:
        return FormatError(f"{self.gguf.path.name}: {problem}.", remedy="Download the file again.")


def _layer_of(name: str) -> int:
    """Number of the layer that a tensor belongs to; -1 outside the layers."""
    match = _LAYER.match(name)
    return int(match[1]) if match else -1


def tensor_shapes(gguf: GGUFFile, ignored: tuple[str, ...] = ()) -> dict[str, TensorShape]:
    """Every tensor as [count, rows, cols], but for names that end in one of `ignored`."""
    shapes = {}
    for tensor in gguf.tensors.values():
        if not tensor.name.endswith(ignored):
            cols, rows, count, outer = (*tensor.ggml_shape, 1, 1, 1, 1)[:4]
            if tensor.name.endswith("_exps.bias"):  # one vector per expert
                rows, count = 1, rows
            shapes[tensor.name] = TensorShape(
                tensor.name, tensor.type_id, tensor.type_name, rows, cols, count * outer, tensor.n_bytes
            )
    return shapes
