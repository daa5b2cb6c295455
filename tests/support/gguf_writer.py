"""Writes tiny GGUF files for tests: any metadata, tensors with raw bytes, split sets, and broken files on purpose.

    GGUFBuilder("llama").add("llama.block_count", 2).tensor("token_embd.weight", (8, 32)).write(path)

Written apart from the reader, from the GGUF specification, so that the two check each other.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.gguf.quant_types import QuantType


class ValueType(enum.IntEnum):
    U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)


_STRUCT = {
    ValueType.U8: "B", ValueType.I8: "b", ValueType.U16: "H", ValueType.I16: "h", ValueType.U32: "I",
    ValueType.I32: "i", ValueType.F32: "f", ValueType.BOOL: "?", ValueType.U64: "Q", ValueType.I64: "q",
    ValueType.F64: "d",
}  # fmt: skip
_NUMPY_TYPES = {
    "u1": ValueType.U8, "i1": ValueType.I8, "u2": ValueType.U16, "i2": ValueType.I16, "u4": ValueType.U32,
    "i4": ValueType.I32, "f4": ValueType.F32, "b1": ValueType.BOOL, "u8": ValueType.U64, "i8": ValueType.I64,
    "f8": ValueType.F64,
}  # fmt: skip


@dataclasses.dataclass
class Pair:
    """One key-value pair as bytes: `type_id` and `payload` may be nonsense."""

    key: bytes
    type_id: int
    payload: bytes


@dataclasses.dataclass
class Tensor:
    """`dims` in ggml order (row length first). `offset` None: placed after the one before, aligned."""

    name: bytes
    dims: tuple[int, ...]
    type_id: int
    data: bytes
    offset: int | None = None


def infer_type(value: Any) -> ValueType:
    """str: STRING, bool: BOOL, int: U32, else I32, U64 or I64 by size, float: F32, list or array: ARRAY."""
    if isinstance(value, bool | np.bool_):
        return ValueType.BOOL
    if isinstance(value, str | bytes):
        return ValueType.STRING
    if isinstance(value, int | np.integer):
        if value < 0:
            return ValueType.I32 if value >= -(2**31) else ValueType.I64
        return ValueType.U32 if value < 2**32 else ValueType.U64
    if isinstance(value, float | np.floating):
        return ValueType.F32
    return ValueType.ARRAY


class GGUFBuilder:
    """Collects metadata and tensors, then gives the file's bytes. Methods return the builder for chaining.

    `tensor_count`, `pair_count` and `magic` may be set to lies. `big_endian` turns every number around.
    `alignment` is written as general.alignment when it is not 32.
    """

    def __init__(self, architecture: str | None = "llama", *, version: int = 3, alignment: int = 32,
                 big_endian: bool = False) -> None:  # fmt: skip
        self.version = version
        self.alignment = alignment
        self.order = ">" if big_endian else "<"
        self.magic = b"GGUF"
        self.tensor_count: int | None = None
        self.pair_count: int | None = None
        self.pairs: list[Pair] = []
        self.tensors: list[Tensor] = []
        if architecture is not None:
            self.add("general.architecture", architecture)
        if alignment != 32:
            self.add("general.alignment", alignment)

    # --- content ----------------------------------------------------------------------------------------------

    def add(self, key: str | bytes, value: Any, type: ValueType | None = None,
            item_type: ValueType | None = None) -> GGUFBuilder:  # fmt: skip
        """A pair; `type` and (of arrays) `item_type` are inferred where not given."""
        type = infer_type(value) if type is None else type
        return self.add_raw(key, int(type), self._payload(value, type, item_type))

    def add_all(self, pairs: dict[str, Any] | Iterable[tuple[str, Any]]) -> GGUFBuilder:
        for key, value in pairs.items() if isinstance(pairs, dict) else pairs:
            self.add(key, value)
        return self

    def add_raw(self, key: str | bytes, type_id: int, payload: bytes) -> GGUFBuilder:
        self.pairs.append(Pair(key.encode() if isinstance(key, str) else key, type_id, payload))
        return self

    def tensor(self, name: str | bytes, shape: Sequence[int], type: QuantType | int = QuantType.F32,
               data: bytes | np.ndarray | None = None, *, offset: int | None = None) -> GGUFBuilder:  # fmt: skip
        """A tensor of numpy-order `shape` (row length last); zeros where no data is given."""
        if data is None:
            type = QuantType(type)
            elements = int(np.prod(shape, dtype=np.int64))
            data = bytes(elements // type.block_elements * type.block_bytes)
        elif isinstance(data, np.ndarray):
            data = data.tobytes()
        return self.tensor_raw(name, tuple(reversed(shape)), int(type), data, offset=offset)

    def tensor_raw(self, name: str | bytes, dims: Sequence[int], type_id: int, data: bytes = b"", *,
                   offset: int | None = None) -> GGUFBuilder:  # fmt: skip
        """A tensor whose dims (ggml order), type and data need not agree."""
        name = name.encode() if isinstance(name, str) else name
        self.tensors.append(Tensor(name, tuple(dims), type_id, data, offset))
        return self

    # --- bytes ------------------------------------------------------------------------------------------------

    def header(self) -> bytes:
        """Everything before the padding in front of the tensor data."""
        tensor_count = len(self.tensors) if self.tensor_count is None else self.tensor_count
        pair_count = len(self.pairs) if self.pair_count is None else self.pair_count
        parts = [self.magic, self._pack("IQQ", self.version, tensor_count, pair_count)]
        for pair in self.pairs:
            parts += [self._string(pair.key), self._pack("I", pair.type_id), pair.payload]
        for tensor, offset in zip(self.tensors, self._offsets(), strict=True):
            parts += [self._string(tensor.name), self._pack("I", len(tensor.dims))]
            parts += [self._pack("Q", dim) for dim in tensor.dims]
            parts.append(self._pack("IQ", tensor.type_id, offset))
        return b"".join(parts)

    def build(self) -> bytes:
        header = self.header()
        out = bytearray(header)
        if not self.tensors:
            return bytes(out)
        start = -(-len(header) // self._step) * self._step
        for tensor, offset in zip(self.tensors, self._offsets(), strict=True):
            if offset <= 1 << 30:  # lies about far offsets get no data
                out.extend(bytes(max(0, start + offset - len(out))))
                out[start + offset : start + offset + len(tensor.data)] = tensor.data
        out.extend(bytes(-len(out) % self._step if self._step <= 1 << 16 else 0))
        return bytes(out)

    def write(self, path: Path | str) -> Path:
        path = Path(path)
        path.write_bytes(self.build())
        return path

    @property
    def _step(self) -> int:
        return max(self.alignment, 1)

    def _offsets(self) -> list[int]:
        offsets, end = [], 0
        for tensor in self.tensors:
            offset = -(-end // self._step) * self._step if tensor.offset is None else tensor.offset
            offsets.append(offset)
            end = offset + len(tensor.data)
        return offsets

    def _pack(self, codes: str, *values: Any) -> bytes:
        return struct.pack(self.order + codes, *values)

    def _string(self, value: str | bytes) -> bytes:
        raw = value.encode() if isinstance(value, str) else value
        return self._pack("Q", len(raw)) + raw

    def _payload(self, value: Any, type: ValueType, item_type: ValueType | None) -> bytes:
        if type is ValueType.STRING:
            return self._string(value)
        if type is not ValueType.ARRAY:
            return self._pack(_STRUCT[type], value)
        items = list(value)
        if item_type is None:
            item_type = self._common_type(items)
        head = self._pack("IQ", item_type, len(items))
        if item_type in _STRUCT:
            return head + self._pack(f"{len(items)}{_STRUCT[item_type]}", *items)
        return head + b"".join(self._payload(item, item_type, None) for item in items)

    @staticmethod
    def _common_type(items: list[Any]) -> ValueType:
        """The type of an array's items: of numpy scalars their own, else inferred."""
        if items and isinstance(items[0], np.generic):
            return _NUMPY_TYPES[items[0].dtype.str[1:]]
        types = {infer_type(item) for item in items}
        if not types:
            return ValueType.U32
        if len(types) == 1:
            return types.pop()
        if types <= {ValueType.U32, ValueType.I32}:
            return ValueType.I32
        raise ValueError(f"items of mixed types {types}")


def shard_name(stem: str, index: int, count: int) -> str:
    """File name of shard `index` (from 0) of a set, as gguf-split writes it."""
    return f"{stem}-{index + 1:05d}-of-{count:05d}.gguf"


def write_split(builder: GGUFBuilder, folder: Path, stem: str, tensors_per_shard: Sequence[int]) -> list[Path]:
    """Writes the builder's tensors as a split set; metadata goes to the first shard, which may hold no tensors."""
    if sum(tensors_per_shard) != len(builder.tensors):
        raise ValueError("tensors_per_shard does not add up")
    count, paths, begin = len(tensors_per_shard), [], 0
    for index, amount in enumerate(tensors_per_shard):
        shard = GGUFBuilder(None, version=builder.version, alignment=builder.alignment)
        if index == 0:
            shard.pairs = list(builder.pairs)
        shard.add("split.no", index, ValueType.U16).add("split.count", count, ValueType.U16)
        shard.add("split.tensors.count", len(builder.tensors), ValueType.I32)
        shard.tensors = [dataclasses.replace(t, offset=None) for t in builder.tensors[begin : begin + amount]]
        begin += amount
        paths.append(shard.write(folder / shard_name(stem, index, count)))
    return paths
