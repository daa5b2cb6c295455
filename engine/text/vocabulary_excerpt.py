"""The part of a vocabulary that one text needs: what llama.cpp reads in 2 ms, where the whole takes 120.

Byte-level BPE asks its vocabulary only for pieces of the text, as its bytes are spelt there. So llama.cpp gives a text
the same tokens from a vocabulary that holds no others: a small header of the tokens and merges that occur in the text,
of all tokens that are not ordinary, and of those of one character, each in its place in the order of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.errors import EngineError, FormatError
from engine.gguf.metadata import SCALAR_BYTES, Metadata, StringArray, ValueType
from engine.text.llama_library import gguf_functions
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import SOUGHT, is_table_version, load_header

# Pre-tokenizers that spell every byte as a character, and change nothing before: the tests compare each of them.
PRE_TOKENIZERS = frozenset({
    "command-r", "deepseek-r1-qwen", "deepseek-v3", "exaone4", "gpt-2", "gpt-4o", "kimi-k2", "lfm2", "llama-bpe",
    "llama4", "minimax-m2", "olmo", "qwen2", "qwen35", "refact", "seed-coder", "smollm", "starcoder", "stablelm2",
    "tekken",
})  # fmt: skip
_NORMAL = 1  # a token's type, as in the GGUF specification
_DEFAULT_ID = 11  # llama.cpp's BOS and EOS of such a vocabulary, where the file names none that is there
_SMALLEST_SHARE = 8  # a vocabulary of which more than this part is in every excerpt is read as a whole
_PREFIX = "tokenizer.ggml."
_SOUGHT_BYTES = frozenset(text.encode() for texts in SOUGHT.values() for text in texts)


def _byte_characters() -> list[str]:
    """How byte-level BPE spells each byte: GPT-2's bytes_to_unicode."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


_SPELT = _byte_characters()
_BYTES = {character: byte for byte, character in enumerate(_SPELT)}


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A vocabulary of its own, and which token of the whole each of its tokens is."""

    tokenizer: Tokenizer
    ids: Sequence[int]

    def encode(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """As `Tokenizer.encode` of the whole vocabulary, for the text that the excerpt was made for."""
        tokens = self.tokenizer.encode(text, add_special=add_special, parse_special=parse_special)
        return [self.ids[token] for token in tokens]


class VocabularyExcerpts:
    """Makes excerpts of one file's vocabulary; None from `of` where they would not be right, or not be small."""

    def __init__(
        self,
        metadata: Metadata,
        tokens: StringArray,
        types: npt.NDArray[np.int32],
        merges: StringArray,
        is_plain: npt.NDArray[np.bool_],
        always: npt.NDArray[np.bool_],
    ) -> None:
        self._metadata, self._tokens, self._types, self._merges = metadata, tokens, types, merges
        self._is_plain, self._always = is_plain, always

    @classmethod
    def of(cls, metadata: Metadata) -> VocabularyExcerpts | None:
        if gguf_functions() is None or not is_table_version() or f"{_PREFIX}suppress_tokens" in metadata:
            return None
        try:
            if metadata.string(f"{_PREFIX}model") != "gpt2" or metadata.string(f"{_PREFIX}pre") not in PRE_TOKENIZERS:
                return None
            tokens, merges = metadata.string_array(f"{_PREFIX}tokens"), metadata.string_array(f"{_PREFIX}merges")
            types = metadata.i32_array(f"{_PREFIX}token_type", count=len(tokens))
        except FormatError:
            return None
        keys = _id_keys(metadata)
        if len(tokens) <= _DEFAULT_ID or any(metadata.entry(key).kind is not ValueType.U32 for key in keys):
            return None
        begins, sizes = tokens.begins, tokens.sizes
        if not sizes.min():
            return None  # llama.cpp names it by its place
        data = np.frombuffer(metadata.header, np.uint8)
        first, last = data[begins], data[begins + sizes - 1]
        # What looks like a mark: llama.cpp looks for several by their text, and some have rules of their own.
        is_mark = np.isin(first, [ord("<"), ord("["), ord("_"), "▁".encode()[0]])
        is_mark &= np.isin(last, [ord(">"), ord("]")])
        is_plain = (types == _NORMAL) & ~is_mark
        is_plain[[_DEFAULT_ID, *(number for key in keys if (number := metadata.u32(key)) < len(tokens))]] = False
        always = ~is_plain | (sizes == 1) | ((sizes == 2) & (first >= 0xC2))
        if np.count_nonzero(always) * _SMALLEST_SHARE > len(tokens):
            return None
        # Of several texts for one special token, llama.cpp takes and retypes any one.
        if any(tokens.raw(token) in _SOUGHT_BYTES for token in np.flatnonzero(is_mark & (types == _NORMAL)).tolist()):
            return None
        return cls(metadata, tokens, types, merges, is_plain, always)

    @property
    def n_vocab(self) -> int:
        return len(self._tokens)

    def is_plain(self, token: int) -> bool:
        """Whether the token is in the vocabulary for its text alone, and so ends no answer."""
        return bool(self._is_plain[token])

    def text(self, token: int) -> str:
        """As `Tokenizer.text`."""
        return self._tokens.raw(token).split(b"\0", 1)[0].decode("utf-8", "replace")

    def piece(self, token: int) -> bytes | None:
        """The bytes of a plain token; None where only llama.cpp knows them."""
        if not self.is_plain(token):
            return None
        try:
            return bytes(_BYTES[character] for character in self._tokens[token])
        except KeyError:
            return None

    def excerpt(self, text: str) -> Excerpt | None:
        """What `text` needs, and all its parts; None where llama.cpp cannot read it."""
        spelt = "".join(_SPELT[byte] for byte in text.encode("utf-8", "replace")).encode()
        is_kept = self._always.copy()
        is_kept[self._tokens.within(spelt)] = True
        ids = np.flatnonzero(is_kept)
        merges = self._merges.within(spelt, pairs=True)
        try:
            model = load_header(self._header(ids, merges))
            return Excerpt(Tokenizer(model, self._metadata.path), ids.tolist()) if model else None
        except EngineError:
            return None

    def _header(self, ids: npt.NDArray[np.int64], merges: npt.NDArray[np.int64]) -> bytearray:
        """A GGUF header with all of the file's keys but its other arrays."""
        metadata, values = self._metadata, dict[str, bytes]()
        for key in metadata:
            entry = metadata.entry(key)
            if entry.item is None:
                size = SCALAR_BYTES.get(entry.kind) or 8 + struct.unpack_from("<Q", metadata.header, entry.position)[0]
                values[key] = struct.pack("<I", entry.kind) + metadata.header[entry.position : entry.position + size]
        named = {key: metadata.u32(key) for key in _id_keys(metadata)}
        for key in (f"{_PREFIX}bos_token_id", f"{_PREFIX}eos_token_id"):
            if named.get(key, self.n_vocab) >= self.n_vocab:
                named[key] = _DEFAULT_ID
        for key, token in named.items():
            values.pop(key, None)
            if token < self.n_vocab:  # llama.cpp leaves others out, as this does
                values[key] = struct.pack("<II", ValueType.U32, int(np.searchsorted(ids, token)))
        values[f"{_PREFIX}tokens"] = _string_array(self._tokens.raw(token) for token in ids.tolist())
        values[f"{_PREFIX}merges"] = _string_array(map(self._merges.raw, merges.tolist()))
        kinds = self._types[ids].astype("<i4").tobytes()
        values[f"{_PREFIX}token_type"] = struct.pack("<IIQ", ValueType.ARRAY, ValueType.I32, len(ids)) + kinds
        start = struct.pack("<4sIQQ", b"GGUF", 3, 0, len(values))
        return bytearray(start + b"".join(_string(key.encode()) + value for key, value in values.items()))


def _id_keys(metadata: Metadata) -> list[str]:
    return [key for key in metadata if key.startswith(_PREFIX) and key.endswith("_token_id")]


def _string(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def _string_array(strings: Iterable[bytes]) -> bytes:
    packed = [_string(data) for data in strings]
    return struct.pack("<IIQ", ValueType.ARRAY, ValueType.STRING, len(packed)) + b"".join(packed)
