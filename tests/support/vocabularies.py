"""Small vocabularies as GGUF files: what a tokenizer test needs, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.gguf_writer import GGUFBuilder, ValueType

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # llama_token_type in llama.h

# SentencePiece merges neighbours only into tokens, so every beginning of a word is one.
SPM_WORDS = ("▁", *("▁Hello"[:n] for n in range(2, 7)), *("▁world"[:n] for n in range(2, 7)), "!", "a", "b", "▁a")
FIRST_BYTE = 3  # ids of the SPM vocabulary: <unk>, <s>, </s>, 256 bytes, SPM_WORDS, then `extra`
FIRST_WORD = FIRST_BYTE + 256


def spm_vocabulary(extra: Sequence[tuple[str, int]] = (), **keys: Any) -> GGUFBuilder:
    """A SentencePiece vocabulary with byte fallback. `extra` are (text, type); `keys` are tokenizer.ggml.*."""
    tokens = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    tokens += [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
    tokens += [(word, NORMAL) for word in SPM_WORDS]
    return _vocabulary("llama", [*tokens, *extra], keys)


def byte_characters() -> list[str]:
    """The printable stand-ins of the 256 bytes in byte-level BPE, in order of the byte (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def bpe_vocabulary(
    extra: Sequence[tuple[str, int]] = (("<|endoftext|>", CONTROL),), pre: str | None = "gpt-2", **keys: Any
) -> GGUFBuilder:
    """A byte-level BPE vocabulary: ids 0 to 255 are the bytes, then "he", "ll", "hell", then `extra`."""
    tokens = [(character, NORMAL) for character in byte_characters()]
    tokens += [("he", NORMAL), ("ll", NORMAL), ("hell", NORMAL)]
    builder = _vocabulary("gpt2", [*tokens, *extra], keys)
    builder.add("tokenizer.ggml.merges", ["h e", "l l", "he ll"])
    if pre is not None:
        builder.add("tokenizer.ggml.pre", pre)
    return builder


def _vocabulary(kind: str, tokens: Sequence[tuple[str, int]], keys: dict[str, Any]) -> GGUFBuilder:
    builder = GGUFBuilder("llama")
    builder.add("llama.vocab_size", len(tokens))
    builder.add("tokenizer.ggml.model", kind)
    builder.add("tokenizer.ggml.tokens", [text for text, _ in tokens])
    builder.add("tokenizer.ggml.scores", [-float(index) for index in range(len(tokens))])
    builder.add("tokenizer.ggml.token_type", [type for _, type in tokens], ValueType.ARRAY, item_type=ValueType.I32)
    for key, value in keys.items():
        builder.add(f"tokenizer.ggml.{key}", value)
    return builder
