"""A file's vocabulary, read by llama.cpp: half of the time until the first token, so what it need not do is spared.

llama.cpp reads the header that is in memory already, instead of the file once more, and does not search for special
tokens that are not there. SmolLM2's then takes 123 instead of 165 ms of processor time (Zen 3, medians of eight).
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import EngineError, FormatError, UnsupportedError
from engine.text.llama_library import (
    collected_errors,
    gguf_functions,
    library_version,
    llama,
    restore_log,
    silence_log,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from engine.gguf.metadata import Metadata  # the child that checks a vocabulary starts twice as fast without it

_TENSOR_COUNT = slice(8, 16)  # in a header
_CONTROL = 3  # a token's type, as in the GGUF specification

# Special tokens that llama.cpp looks for by their text, among all tokens, where no key names them: llama-vocab.cpp,
# "auto-detect special tokens by text", of this version of llama-cpp-python. Under another version it looks for itself.
_TABLE_VERSION = "0.3.36"
SOUGHT: Mapping[str, tuple[str, ...]] = {
    "eot": (
        "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "_<EOT>",
        "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>",
    ),
    "eom": ("<|eom_id|>",),
    "fim_pre": (
        "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
        "<|prefix|>",
    ),
    "fim_suf": (
        "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>",
        "<|suffix|>",
    ),
    "fim_mid": (
        "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
        "<|middle|>",
    ),
    "fim_pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep": ("<|file_sep|>",),
}  # fmt: skip


def load_vocabulary(path: str | Path) -> Any:
    """A llama_model pointer that holds only the vocabulary of `path`. Raises FormatError or UnsupportedError."""
    params = _parameters()
    silence_log()
    try:
        model = llama().llama_model_load_from_file(os.fsencode(path), params)
    finally:
        restore_log()
    return model or _told_why(path, params)


def vocabulary_loader(metadata: Metadata) -> Callable[[], Any]:
    """`load_vocabulary` of an open file for another thread, to be called once. What is here needs the interpreter.

    Each call into C waits for the interpreter's lock when it returns, up to 5 ms where the first thread is busy, so
    that the other thread makes one.
    """
    path = metadata.path
    if gguf_functions() is None:
        return lambda: load_vocabulary(path)
    params = _parameters(_found_already(metadata) if is_table_version() else {})
    silence_log()
    try:
        header = bytearray(metadata.header)
        header[_TENSOR_COUNT] = bytes(8)
        parsed = _Parsed(header)
    except BaseException:
        restore_log()
        raise

    def load() -> Any:
        try:
            model = parsed.load(params)
        finally:
            restore_log()
        return model or _told_why(path, _parameters())

    return load


def load_header(header: bytearray) -> Any | None:
    """A llama_model pointer from the bytes of a header without tensors; None where llama.cpp cannot read it."""
    silence_log()
    try:
        return _Parsed(header).load(_parameters())
    finally:
        restore_log()


def is_table_version() -> bool:
    """Whether what is known here of llama.cpp's vocabularies is known of the version that is installed."""
    return library_version() == _TABLE_VERSION


def free_vocabulary(read: Future[Any]) -> None:
    """Give back what a load in another thread brought, where nobody wants it any more."""
    if not read.cancelled() and read.exception() is None:
        llama().llama_model_free(read.result())


class _Parsed:
    """A gguf_context, freed with this object."""

    def __init__(self, header: bytearray) -> None:
        functions = gguf_functions()
        content = (ctypes.c_char * len(header)).from_buffer(header)
        self._pointer = functions.gguf_init_from_buffer(content, len(header), functions.Parameters(no_alloc=True))
        if self._pointer:
            weakref.finalize(self, functions.gguf_free, self._pointer)

    def load(self, params: Any) -> Any | None:
        lib = llama()
        no_tensors = lib.llama_model_set_tensor_data_t(0)
        return self._pointer and lib.llama_model_init_from_user(self._pointer, no_tensors, None, params)


def _parameters(overrides: Mapping[str, int] | None = None) -> Any:
    lib = llama()
    params = lib.llama_model_default_params()
    params.vocab_only = True
    params.n_gpu_layers = 0
    if overrides:
        array = (lib.llama_model_kv_override * (len(overrides) + 1))()  # an empty key ends it
        for item, (key, value) in zip(array, overrides.items(), strict=False):
            item.key, item.tag, item.value.val_i64 = key.encode(), lib.LLAMA_KV_OVERRIDE_TYPE_INT, value
        params.kv_overrides = array
    return params


def _found_already(metadata: Metadata) -> dict[str, int]:
    """Values for the keys of special tokens that make llama.cpp find what it would have found, without a search.

    Where no token has such a text, that is the token that ends every answer: to be named once more changes nothing. One
    that is there is named if it is of the control type already, which it would be given otherwise. What is ambiguous or
    unusual is left to llama.cpp.
    """
    if not all(key in metadata for key in map(_key, ("tokens", "token_type", "eos_token_id"))):
        return {}
    try:
        tokens, types = metadata.string_array(_key("tokens")), metadata.i32_array(_key("token_type"))
        end = metadata.u32(_key("eos_token_id"))
    except FormatError:
        return {}
    if end >= len(tokens) or len(types) < len(tokens):
        return {}
    places = tokens.find([text for texts in SOUGHT.values() for text in texts])
    found: dict[str, int] = {}
    for name, texts in SOUGHT.items():
        here = [places[text] for text in texts if text in places]
        if not here:
            found[_key(f"{name}_token_id")] = end
        elif len(here) == 1 and types[here[0]] == _CONTROL:
            found[_key(f"{name}_token_id")] = here[0]
    return {key: token for key, token in found.items() if key not in metadata}


def _key(name: str) -> str:
    return f"tokenizer.ggml.{name}"


def _told_why(path: str | Path, params: Any) -> Any:
    """The vocabulary, read once more from its file to be told why it could not be read."""
    with collected_errors() as errors:
        model = llama().llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise vocabulary_error(path, " ".join(errors))
    return model


def vocabulary_error(path: str | Path, detail: str) -> EngineError:
    """What llama.cpp's error lines `detail` about `path` mean to the owner."""
    name = Path(path).name
    for marker, key in (
        ("unknown pre-tokenizer type: '", "tokenizer.ggml.pre"),
        ("unknown tokenizer: '", "tokenizer.ggml.model"),
        ("unknown model architecture: '", "general.architecture"),
    ):
        if marker in detail:
            value = detail.split(marker, 1)[1].split("'", 1)[0]
            return UnsupportedError(
                f'{name}: {key} is "{value}", which this version does not know.',
                remedy="Update Tessera, or choose another conversion of this model.",
            )
    reason = detail.rsplit("error loading model: ", 1)[-1].split("llama_model_load", 1)[0].strip()
    return FormatError(
        f"The vocabulary of {name} cannot be read: {reason or 'no reason given'}.",
        remedy="Download the file again, or choose another conversion of this model.",
    )
