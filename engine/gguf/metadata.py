"""Typed access to a file's metadata: a key is read with its type, and a default or REQUIRED. Read or refuse.

An integer of another width is taken where its value fits; any other difference of type is a FormatError that names
the key, what was expected, what was found, and the file. Values are decoded when asked for.
"""

from __future__ import annotations

import enum
import itertools
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload

import numpy as np
import numpy.typing as npt

from engine.errors import FormatError, UnsupportedError
from engine.gguf.errors import display_name
from kernels import _cpu

D = TypeVar("D")
E = TypeVar("E")


class Required(enum.Enum):
    REQUIRED = enum.auto()


REQUIRED: Final = Required.REQUIRED


class ValueType(enum.IntEnum):
    """Types of metadata values, by their ids in the file."""

    U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)

    @property
    def label(self) -> str:
        return self.name.lower()


_FORMATS = {
    ValueType.U8: "u1", ValueType.I8: "i1", ValueType.U16: "<u2", ValueType.I16: "<i2", ValueType.U32: "<u4",
    ValueType.I32: "<i4", ValueType.F32: "<f4", ValueType.BOOL: "u1", ValueType.U64: "<u8",
    ValueType.I64: "<i8", ValueType.F64: "<f8",
}  # fmt: skip
_STRUCTS = {
    ValueType.U8: "<B", ValueType.I8: "<b", ValueType.U16: "<H", ValueType.I16: "<h", ValueType.U32: "<I",
    ValueType.I32: "<i", ValueType.F32: "<f", ValueType.BOOL: "<B", ValueType.U64: "<Q", ValueType.I64: "<q",
    ValueType.F64: "<d",
}  # fmt: skip
SCALAR_BYTES = {kind: struct.calcsize(code) for kind, code in _STRUCTS.items()}
_INTEGERS = frozenset(_STRUCTS) - {ValueType.F32, ValueType.F64, ValueType.BOOL}
_FLOATS = frozenset({ValueType.F32, ValueType.F64})


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a value stands in the header: of strings at their length, of arrays at the first item."""

    kind: ValueType
    position: int
    item: ValueType | None
    count: int

    @property
    def label(self) -> str:
        return self.kind.label if self.item is None else f"array of {self.count} {self.item.label}"


class StringArray(Sequence[str]):
    """Strings of an array, decoded one by one on demand. Bytes that are no UTF-8 come out as U+FFFD; see `raw`."""

    def __init__(self, header: memoryview, position: int, count: int) -> None:
        self._header, self._position = header, position
        self._offsets: npt.NDArray[np.int64] = _cpu.string_offsets(header, position, count)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self.raw(index).decode("utf-8", "replace")

    def raw(self, index: int) -> bytes:
        index = range(len(self))[index]
        return bytes(self._header[self._offsets[index] : self._offsets[index + 1] - 8])

    @property
    def begins(self) -> npt.NDArray[np.int64]:
        """Where each string's bytes begin in the header."""
        return self._offsets[:-1]

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each string."""
        return np.diff(self._offsets) - 8

    def find(self, texts: Iterable[str]) -> dict[str, int]:
        """Where each of `texts` is first; without those that are empty or not there."""
        wanted = {text.encode(): text for text in texts if text}
        begins, sizes = self.begins, self.sizes
        likely = np.flatnonzero(np.isin(sizes, [len(text) for text in wanted]))
        data = np.frombuffer(self._header, np.uint8)
        # What is left is few enough for a loop. Backwards, because numbered tokens begin alike.
        for place in reversed(range(min(map(len, wanted), default=0))):
            is_wanted = np.zeros(256, np.bool_)
            is_wanted[[text[place] for text in wanted]] = True
            likely = likely[is_wanted[data[begins[likely] + place]]]
        found: dict[str, int] = {}
        for index in likely.tolist():
            if (text := wanted.get(self.raw(index))) is not None:
                found.setdefault(text, index)
        return found

    def within(self, text: bytes, *, pairs: bool = False) -> npt.NDArray[np.int64]:
        """Which strings of two bytes or more occur in `text`; of `pairs`, those whose two words do, one after the
        other."""
        return _cpu.strings_within(self._header, self._position, len(self), text, pairs)

    def __iter__(self) -> Iterator[str]:
        bounds = self._offsets.tolist()
        header = self._header
        for begin, after in itertools.pairwise(bounds):
            yield str(header[begin : after - 8], "utf-8", "replace")


Value = int | float | bool | str | npt.NDArray[Any] | StringArray


class Metadata(Mapping[str, Value]):
    """A file's key-value pairs. As a mapping it gives values as they stand; the typed methods read or refuse."""

    def __init__(self, path: str, header: memoryview, entries: dict[str, Entry]) -> None:
        self.path = path
        self.header = header
        self._entries = entries

    # --- as a mapping -----------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __getitem__(self, key: str) -> Value:
        entry = self._entries[key]
        if entry.item is ValueType.STRING:
            return StringArray(self.header, entry.position, entry.count)
        if entry.item is not None:
            items = np.frombuffer(self.header, _FORMATS[entry.item], entry.count, entry.position)
            return items.view(np.bool_) if entry.item is ValueType.BOOL else items
        if entry.kind is ValueType.STRING:
            return self._string_bytes(entry).decode("utf-8", "replace")
        number = struct.unpack_from(_STRUCTS[entry.kind], self.header, entry.position)[0]
        return bool(number) if entry.kind is ValueType.BOOL else number

    def entry(self, key: str) -> Entry:
        return self._entries[key]

    # --- typed ------------------------------------------------------------------------------------------------

    def u32(self, key: str, default: D | Required = REQUIRED) -> int | D:
        return self._integer(key, default, "a u32", 0, 2**32 - 1)

    def u64(self, key: str, default: D | Required = REQUIRED) -> int | D:
        return self._integer(key, default, "a u64", 0, 2**64 - 1)

    def i32(self, key: str, default: D | Required = REQUIRED) -> int | D:
        return self._integer(key, default, "an i32", -(2**31), 2**31 - 1)

    def f32(self, key: str, default: D | Required = REQUIRED) -> float | D:
        """A finite number."""

        def read(entry: Entry) -> float:
            value = self[key]
            if entry.kind not in _FLOATS:
                raise self._wrong(key, "an f32", entry.label)
            if not math.isfinite(float(value)):  # type: ignore[arg-type]
                raise self._wrong(key, "a finite f32", str(value))
            return float(value)  # type: ignore[arg-type]

        return self._read(key, default, "an f32", read)

    def bool(self, key: str, default: D | Required = REQUIRED) -> bool | D:
        def read(entry: Entry) -> bool:
            if entry.kind is not ValueType.BOOL:
                raise self._wrong(key, "a bool", entry.label)
            raw = self.header[entry.position]
            if raw > 1:
                raise self._wrong(key, "a bool", f"a bool of value {raw}")
            return raw == 1

        return self._read(key, default, "a bool", read)

    def string(self, key: str, default: D | Required = REQUIRED) -> str | D:
        def read(entry: Entry) -> str:
            if entry.kind is not ValueType.STRING:
                raise self._wrong(key, "a string", entry.label)
            try:
                return self._string_bytes(entry).decode()
            except UnicodeDecodeError as error:
                raise self._wrong(key, "a string", f"bytes that are not UTF-8 (at {error.start})") from None

        return self._read(key, default, "a string", read)

    def choice(self, key: str, choices: Mapping[str, E], default: D | Required = REQUIRED) -> E | D:
        """A string that must be one of `choices`; what it stands for. UnsupportedError on any other."""
        name = self.string(key, None if default is not REQUIRED else REQUIRED)
        if name is None:
            return default  # type: ignore[return-value]
        if name not in choices:
            known = ", ".join(sorted(choices))
            raise UnsupportedError(f"{display_name(self.path)}: {key} is {name!r}; known are {known}.")
        return choices[name]

    def u32_array(self, key: str, default: D | Required = REQUIRED, *, count: int | None = None) -> tuple[int, ...] | D:
        """Whole numbers, exactly `count` of them where given."""

        def read(entry: Entry) -> tuple[int, ...]:
            return self._u32_items(key, entry, count)

        return self._read(key, default, "an array of u32", read)

    def u32_array_or_scalar(self, key: str, count: int, default: D | Required = REQUIRED) -> tuple[int, ...] | D:
        """One number per layer: an array of exactly `count`, or a scalar that holds for all of them."""

        def read(entry: Entry) -> tuple[int, ...]:
            if entry.item is not None:
                return self._u32_items(key, entry, count)
            return (self.u32(key),) * count

        return self._read(key, default, f"a u32 or an array of {count}", read)

    def f32_array(
        self, key: str, default: D | Required = REQUIRED, *, count: int | None = None
    ) -> npt.NDArray[np.float32] | D:
        def read(entry: Entry) -> npt.NDArray[np.float32]:
            if entry.item not in _FLOATS:
                raise self._wrong(key, "an array of f32", entry.label)
            self._check_items(key, entry, count)
            return np.asarray(self[key], np.float32)

        return self._read(key, default, "an array of f32", read)

    def i32_array(
        self, key: str, default: D | Required = REQUIRED, *, count: int | None = None
    ) -> npt.NDArray[np.int32] | D:
        def read(entry: Entry) -> npt.NDArray[np.int32]:
            return self._items_in(key, entry, count, "i32", -(2**31), 2**31 - 1).astype(np.int32)

        return self._read(key, default, "an array of i32", read)

    def string_array(self, key: str, default: D | Required = REQUIRED, *, count: int | None = None) -> StringArray | D:
        def read(entry: Entry) -> StringArray:
            if entry.item is not ValueType.STRING:
                raise self._wrong(key, "an array of strings", entry.label)
            self._check_items(key, entry, count)
            return StringArray(self.header, entry.position, entry.count)

        return self._read(key, default, "an array of strings", read)

    # --- parts ------------------------------------------------------------------------------------------------

    def _read(self, key: str, default: D | Required, expected: str, read: Callable[[Entry], E]) -> E | D:
        entry = self._entries.get(key)
        if entry is not None:
            return read(entry)
        if isinstance(default, Required):
            raise FormatError(f"{display_name(self.path)} lacks the metadata key {key} ({expected}).")
        return default

    def _integer(self, key: str, default: D | Required, expected: str, low: int, high: int) -> int | D:
        def read(entry: Entry) -> int:
            if entry.kind not in _INTEGERS:
                raise self._wrong(key, expected, entry.label)
            value = self[key]
            assert isinstance(value, int)
            if not low <= value <= high:
                raise self._wrong(key, expected, f"{value}")
            return value

        return self._read(key, default, expected, read)

    def _items_in(
        self, key: str, entry: Entry, count: int | None, expected: str, low: int, high: int
    ) -> npt.NDArray[Any]:
        if entry.item not in _INTEGERS:
            raise self._wrong(key, f"an array of {expected}", entry.label)
        self._check_items(key, entry, count)
        items = np.asarray(self[key])
        if entry.count and (int(items.min()) < low or int(items.max()) > high):
            raise self._wrong(key, f"an array of {expected}", f"values from {items.min()} to {items.max()}")
        return items

    def _u32_items(self, key: str, entry: Entry, count: int | None) -> tuple[int, ...]:
        return tuple(self._items_in(key, entry, count, "u32", 0, 2**32 - 1).tolist())

    def _check_items(self, key: str, entry: Entry, count: int | None) -> None:
        if count is not None and entry.count != count:
            raise self._wrong(key, f"{count} items", f"{entry.count}")

    def _string_bytes(self, entry: Entry) -> bytes:
        (length,) = struct.unpack_from("<Q", self.header, entry.position)
        return bytes(self.header[entry.position + 8 : entry.position + 8 + length])

    def _wrong(self, key: str, expected: str, found: str) -> FormatError:
        return FormatError(f"{display_name(self.path)}: {key} must be {expected}, but is {found}.")
