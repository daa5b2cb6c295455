"""Parses the header of one GGUF file: version, metadata entries, tensor infos. Source: the GGUF specification.

The header is read into memory, never through a mapping, so that a file that shrinks meanwhile is an error
and not a signal. Nothing is believed before it was checked against the file's size: counts and lengths are bounded
by the bytes that remain, so memory stays within a few times the header's size. Arrays are skipped, not decoded.
"""

from __future__ import annotations

import io
import math
import struct
from dataclasses import dataclass

import numpy as np

from engine.errors import FileError, UnsupportedError
from engine.gguf.errors import TruncatedFileError, display_name, first_bytes, malformed, shown
from engine.gguf.metadata import SCALAR_BYTES, Entry, Metadata, ValueType
from engine.gguf.quant_types import known_type
from engine.gguf.tensors import TensorInfo
from kernels import _cpu

# Limits far above any real file (the largest known: 10 MB, 60 pairs, 20k tensors); they bound time and memory.
MAX_HEADER_BYTES = 1 << 29
MAX_PAIRS = 1 << 16
MAX_TENSORS = 1 << 20
MAX_KEY_BYTES = (1 << 16) - 1
MAX_DIMS = 4
MIN_ALIGNMENT = 8
DEFAULT_ALIGNMENT = 32
_FIRST_READ = 1 << 18
_SMALLEST_PAIR = 14  # key of one byte, type, value of one byte
_SMALLEST_TENSOR = 25  # name of one byte, no dims, type, offset

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_ARRAY = struct.Struct("<IQ")
_TYPE_OFFSET = struct.Struct("<IQ")
_DIMS = [struct.Struct(f"<{n}Q") for n in range(MAX_DIMS + 1)]


@dataclass(frozen=True, slots=True)
class Header:
    version: int
    metadata: Metadata
    tensors: dict[str, TensorInfo]
    data_offset: int  # of the tensor data, aligned
    data_end: int  # after the last tensor
    alignment: int

    @property
    def next_file_offset(self) -> int:
        """Where another file would begin if it had been appended to this one."""
        return -(-self.data_end // self.alignment) * self.alignment


class _Cursor:
    """The file's first bytes in memory, grown as they are asked for."""

    def __init__(self, fd: int, file_bytes: int, path: str) -> None:
        self.fd, self.file_bytes, self.path = fd, file_bytes, path
        self.buffer = memoryview(b"")
        self.position = 0

    def require(self, count: int, what: str) -> int:
        """Makes sure that `count` bytes follow, steps over them, and gives where they begin."""
        begin, end = self.position, self.position + count
        if end > len(self.buffer):
            self.fill(end, what)
        self.position = end
        return begin

    def fill(self, end: int, what: str) -> None:
        """Reads on at least to `end`."""
        if end > self.file_bytes:
            raise TruncatedFileError(
                f"{display_name(self.path)} is cut short: {what} ends at byte {end}, the file has {self.file_bytes}.",
                end, self.file_bytes,
            )  # fmt: skip
        if end > MAX_HEADER_BYTES:
            raise malformed(self.path, f"{what} ends at byte {end}, and a header has at most {MAX_HEADER_BYTES}")
        have = len(self.buffer)
        wanted = min(self.file_bytes, MAX_HEADER_BYTES, max(end, 2 * have, _FIRST_READ))
        grown = np.empty(wanted, np.uint8).data  # not zeroed first: that costs as much as reading
        grown[:have] = self.buffer
        with io.FileIO(self.fd, closefd=False) as file:
            file.seek(have)
            while have < wanted:
                count = file.readinto(grown[have:])
                if not count:
                    raise FileError(f"{display_name(self.path)} became shorter while it was read.")
                have += count
        self.buffer = grown

    def unpack(self, layout: struct.Struct, what: str) -> tuple[int, ...]:
        begin = self.require(layout.size, what)
        return layout.unpack_from(self.buffer, begin)

    def u32(self, what: str) -> int:
        return self.unpack(_U32, what)[0]

    def u64(self, what: str) -> int:
        return self.unpack(_U64, what)[0]

    def string(self, what: str) -> bytes:
        length = self.u64(what)
        begin = self.require(length, what)
        return bytes(self.buffer[begin : begin + length])

    def skip_strings(self, count: int, what: str) -> None:
        while count:
            done, self.position = _cpu.skip_strings(self.buffer, self.position, count)
            count -= done
            if count:  # the next string is not wholly in memory yet
                self.string(what)
                count -= 1


def parse_header(fd: int, file_bytes: int, path: str) -> Header:
    cursor = _Cursor(fd, file_bytes, path)
    version = _read_version(cursor)
    tensor_count = cursor.u64("the tensor count")
    pair_count = cursor.u64("the metadata count")
    _check_count(cursor, "metadata entries", pair_count, _SMALLEST_PAIR, MAX_PAIRS)
    entries = _read_pairs(cursor, pair_count)
    alignment = _alignment(Metadata(path, cursor.buffer, entries))
    _check_count(cursor, "tensors", tensor_count, _SMALLEST_TENSOR, MAX_TENSORS)
    raw = [_read_tensor(cursor, index) for index in range(tensor_count)]
    header_bytes = cursor.position
    metadata = Metadata(path, cursor.buffer[:header_bytes].toreadonly(), entries)
    data_offset = -(-header_bytes // alignment) * alignment
    tensors = _place_tensors(path, file_bytes, data_offset, alignment, raw)
    data_end = max((t.offset + t.n_bytes for t in tensors.values()), default=header_bytes)
    return Header(version, metadata, tensors, data_offset, data_end, alignment)


# What else is found under the name of a model, by its first bytes.
_OTHER_FILES = {
    b"PK\x03\x04": "a zip archive", b"vers": "a Git LFS pointer: the model itself was not downloaded",
    b"<!DO": "a web page", b"<htm": "a web page", b"ggjt": "an old GGML file, from before GGUF",
    b"ggml": "an old GGML file, from before GGUF", b"lmgg": "an old GGML file, from before GGUF",
    b"tjgg": "an old GGML file, from before GGUF", b"FUGG": "a big-endian file",
}  # fmt: skip


def _read_version(cursor: _Cursor) -> int:
    name = display_name(cursor.path)
    if cursor.file_bytes == 0:
        raise TruncatedFileError(f"{name} is empty.", 24, 0)
    begin = cursor.require(min(4, cursor.file_bytes), "the magic number")
    magic = bytes(cursor.buffer[begin : begin + 4])
    if magic != b"GGUF" and not (len(magic) < 4 and b"GGUF".startswith(magic)):
        guess = _OTHER_FILES.get(magic)
        what = f"it seems to be {guess}" if guess else f"it begins with {first_bytes(magic)}"
        raise malformed(cursor.path, f"not a GGUF file, {what}", "Choose a file that ends in .gguf.")
    if len(magic) < 4:
        cursor.require(1, "the magic number")
    version = cursor.u32("the version")
    if version & 0xFFFF == 0 and version:
        raise UnsupportedError(
            f"{name} is a big-endian GGUF file (version {version >> 24}), made for another kind of computer.",
            remedy="Choose a little-endian file; nearly all are.",
        )
    if version not in (2, 3):
        raise UnsupportedError(
            f"{name} is of GGUF version {version}; versions 2 and 3 are known.",
            remedy="Download a newer conversion of the model." if version < 2 else "Update Tessera.",
        )
    return version


def _check_count(cursor: _Cursor, what: str, count: int, smallest: int, limit: int) -> None:
    remaining = cursor.file_bytes - cursor.position
    if count * smallest > remaining:
        raise TruncatedFileError(
            f"{display_name(cursor.path)}: the header announces {count} {what}, which take at least "
            f"{count * smallest} bytes, and {remaining} follow.",
            cursor.position + count * smallest, cursor.file_bytes,
        )  # fmt: skip
    if count > limit:
        raise malformed(cursor.path, f"the header announces {count} {what}; at most {limit} are supported")


def _read_pairs(cursor: _Cursor, count: int) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for index in range(count):
        raw = cursor.string(f"the key of metadata entry {index}")
        if not raw or len(raw) > MAX_KEY_BYTES:
            raise malformed(cursor.path, f"metadata entry {index} has a key of {len(raw)} bytes")
        try:
            key = raw.decode()
        except UnicodeDecodeError:
            raise malformed(cursor.path, f"the key {shown(raw)} of metadata entry {index} is not UTF-8") from None
        if key in entries:
            raise malformed(cursor.path, f"the metadata key {shown(raw)} occurs twice")
        entries[key] = _read_value(cursor, f"the value of metadata key {shown(raw)}")
    return entries


def _read_value(cursor: _Cursor, what: str) -> Entry:
    kind = _value_type(cursor, cursor.u32(what), what)
    if kind is not ValueType.ARRAY:
        begin = cursor.position
        cursor.require(cursor.u64(what) if kind is ValueType.STRING else SCALAR_BYTES[kind], what)
        return Entry(kind, begin, None, 1)
    item_id, count = cursor.unpack(_ARRAY, what)
    item = _value_type(cursor, item_id, what)
    if item is ValueType.ARRAY:
        raise UnsupportedError(f"{display_name(cursor.path)}: {what} is an array of arrays, which no model needs.")
    begin = cursor.position
    needed = count * (8 if item is ValueType.STRING else SCALAR_BYTES[item])
    if begin + needed > cursor.file_bytes:
        raise TruncatedFileError(
            f"{display_name(cursor.path)}: {what} announces {count} items, which take at least {needed} bytes, and "
            f"{cursor.file_bytes - begin} follow.",
            begin + needed, cursor.file_bytes,
        )  # fmt: skip
    if item is ValueType.STRING:
        cursor.skip_strings(count, what)
    else:
        cursor.require(needed, what)
    return Entry(kind, begin, item, count)


def _value_type(cursor: _Cursor, type_id: int, what: str) -> ValueType:
    if type_id > ValueType.F64:
        raise malformed(cursor.path, f"{what} has the unknown type {type_id} (at byte {cursor.position - 4})")
    return ValueType(type_id)


def _alignment(metadata: Metadata) -> int:
    """general.alignment, a u32: a power of two from 8 on, so that blocks can be read where they stand."""
    alignment = metadata.u32("general.alignment", DEFAULT_ALIGNMENT)
    if alignment < MIN_ALIGNMENT or alignment & (alignment - 1):
        problem = f"general.alignment is {alignment}, and must be a power of two from {MIN_ALIGNMENT} on"
        raise malformed(metadata.path, problem)
    return alignment


_RawTensor = tuple[bytes, tuple[int, ...], int, int]  # name, dims, type id, offset in the data


def _read_tensor(cursor: _Cursor, index: int) -> _RawTensor:
    what = f"the info of tensor {index}"
    name = cursor.string(what)
    if not name:
        raise malformed(cursor.path, f"tensor {index} has no name")
    n_dims = cursor.u32(what)
    if n_dims > MAX_DIMS:
        raise malformed(cursor.path, f"tensor {shown(name)} has {n_dims} dimensions; at most {MAX_DIMS} are possible")
    dims = cursor.unpack(_DIMS[n_dims], what)
    type_id, offset = cursor.unpack(_TYPE_OFFSET, what)
    return name, dims, type_id, offset


def _tensor_bytes(path: str, name: bytes, dims: tuple[int, ...], type_id: int) -> int:
    """Bytes of a tensor's data; 0 where the type is not known."""
    if 0 in dims:
        raise malformed(path, f"tensor {shown(name)} has an empty dimension: {list(dims)}")
    elements = math.prod(dims)
    if elements >= 1 << 62:
        raise malformed(path, f"the size of tensor {shown(name)} overflows: {list(dims)}")
    kind = known_type(type_id)
    if kind is None:
        return 0
    row = dims[0] if dims else 1
    if row % kind.block_elements:
        raise malformed(path, f"tensor {shown(name)} has rows of {row} values, no multiple of {kind.name}'s "
                              f"block of {kind.block_elements}")  # fmt: skip
    return elements // kind.block_elements * kind.block_bytes


def _place_tensors(
    path: str, file_bytes: int, data_offset: int, alignment: int, raw: list[_RawTensor]
) -> dict[str, TensorInfo]:
    """Checks every tensor's place: aligned, inside the file, apart from the others, its name once only."""
    tensors: dict[str, TensorInfo] = {}
    last_name, last_end = b"", 0
    by_offset = sorted(range(len(raw)), key=lambda i: raw[i][3])
    placed: dict[int, TensorInfo] = {}
    for rank, index in enumerate(by_offset):
        name, dims, type_id, offset = raw[index]
        n_bytes = _tensor_bytes(path, name, dims, type_id)
        if offset % alignment:
            raise malformed(path, f"tensor {shown(name)} begins at offset {offset}, no multiple of {alignment}")
        end = data_offset + offset + n_bytes
        if end > file_bytes:
            raise TruncatedFileError(
                f"{display_name(path)} is cut short: tensor {shown(name)} takes bytes {end - n_bytes} to {end}, the "
                f"file has {file_bytes}.",
                end, file_bytes,
            )  # fmt: skip
        if offset < last_end:
            raise malformed(path, f"tensors {shown(last_name)} and {shown(name)} overlap at offset {offset}")
        if known_type(type_id) is None:  # as far as the next tensor
            following = raw[by_offset[rank + 1]][3] if rank + 1 < len(raw) else max(file_bytes - data_offset, offset)
            n_bytes = following - offset
        last_name, last_end = name, offset + n_bytes
        placed[index] = TensorInfo(_tensor_name(path, name), dims, type_id, data_offset + offset, n_bytes, 0)
    for index in range(len(raw)):
        info = placed[index]
        if info.name in tensors:
            raise malformed(path, f"the tensor name {info.name!r} occurs twice")
        tensors[info.name] = info
    return tensors


def _tensor_name(path: str, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise malformed(path, f"the tensor name {shown(raw)} is not UTF-8") from None
