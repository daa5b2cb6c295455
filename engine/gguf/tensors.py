"""What a file says of one tensor."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from engine.errors import UnsupportedError
from engine.gguf.quant_types import QuantType, known_type, type_name


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Place and type of a tensor. `offset` is absolute in the file of shard number `shard`, `n_bytes` its data's size.

    `ggml_shape` begins with the row length; `shape` is the same in numpy order, with the row length last. Of a type
    that is not known, `n_bytes` reaches to the next tensor.
    """

    name: str
    ggml_shape: tuple[int, ...]
    type_id: int
    offset: int
    n_bytes: int
    shard: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.ggml_shape[::-1]

    @property
    def type(self) -> QuantType:
        """The type; UnsupportedError where it is not known to this version."""
        known = known_type(self.type_id)
        if known is None:
            raise UnsupportedError(
                f"Tensor {self.name!r} is of {self.type_name}; the file was made for a newer or different engine.",
                remedy="Update Tessera, or choose a file in another quantisation.",
            )
        return known

    @property
    def is_known_type(self) -> bool:
        return known_type(self.type_id) is not None

    @property
    def type_name(self) -> str:
        return type_name(self.type_id)

    @property
    def elements(self) -> int:
        return math.prod(self.ggml_shape)

    def in_shard(self, shard: int) -> TensorInfo:
        return dataclasses.replace(self, shard=shard)
