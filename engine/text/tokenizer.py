"""Text to token ids and back, by llama.cpp's own tokenizer, so that ids are exactly those of the ecosystem.

Only the vocabulary of a file is loaded, never its weights.
"""

from __future__ import annotations

import ctypes
import weakref
from functools import cached_property
from pathlib import Path
from typing import Any

from engine.errors import EngineError, UnsupportedError
from engine.text.llama_library import address_of, llama
from engine.text.long_runs import with_stack_for
from engine.text.reasoning import MARKS
from kernels._cpu import token_piece

_NO_TOKEN = -1
_TYPE_BPE = 2  # llama_vocab_type in llama.h


class Tokenizer:
    """One model's vocabulary. Not thread-safe; made and used on the engine thread.

    `warnings` are sentences for the owner about this vocabulary.
    """

    def __init__(self, model: Any, path: str | Path, *, owned: bool = True) -> None:
        """`model` is a llama_model pointer; with `owned` it is freed together with this object."""
        lib = llama()
        self.path = Path(path)
        self.model = model
        if owned:
            self._finalizer = weakref.finalize(self, lib.llama_model_free, model)
        self.vocab = lib.llama_model_get_vocab(model)
        self.n_vocab: int = lib.llama_vocab_n_tokens(self.vocab)
        if self.n_vocab <= 0 or lib.llama_vocab_type(self.vocab) == 0:
            raise UnsupportedError(f"{self.path.name} holds no vocabulary.", remedy="Choose a complete model.")
        self.bos_id = self._optional(lib.llama_vocab_bos(self.vocab))
        self.eos_id = self._optional(lib.llama_vocab_eos(self.vocab))
        self.add_bos = bool(lib.llama_vocab_get_add_bos(self.vocab)) and self.bos_id is not None
        self.suppressed_ids = self._read_suppressed_ids()
        self.warnings = self._read_warnings()
        self._pieces: dict[int, bytes] = {}  # as answers show them
        self._stops: dict[int, bool] = {}
        self._is_end, self._to_piece = address_of(lib.llama_vocab_is_eog), address_of(lib.llama_token_to_piece)
        self._vocab_address = address_of(self.vocab)

    @classmethod
    def load(cls, path: str | Path, *, check: bool = True) -> Tokenizer:
        """The vocabulary of the GGUF file `path`.

        With `check`, a child process has loaded the same vocabulary first (once per file hash), because llama.cpp
        aborts its process on some files. Raises FileError, FormatError or UnsupportedError.
        """
        # Imported here, because the child that checks a vocabulary starts twice as fast without them.
        from engine.gguf import GGUFFile
        from engine.text.vocabulary import vocabulary_loader
        from engine.text.vocabulary_check import check_vocabulary

        with GGUFFile.open(path) as gguf:
            if check:
                check_vocabulary(gguf)
            return cls(vocabulary_loader(gguf.metadata)(), gguf.path)  # of a split set, the file with the vocabulary

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Token ids of `text`.

        `add_special`: with BOS (and EOS, SEP) where the file asks for them; a leading BOS is never doubled.
        `parse_special`: text such as "<|im_end|>" becomes its control token.
        """
        data = text.encode("utf-8", "replace")
        tokens = with_stack_for(text, lambda: self._tokenize(data, parse_special, add_special and self._can_add()))
        if add_special and self.add_bos and tokens[:2] == [self.bos_id, self.bos_id]:
            return tokens[1:]
        return tokens

    def encode_prompt(self, text: str) -> list[int]:
        """Ids of a rendered chat prompt: exactly one BOS where the file asks for one, and never an EOS at its end."""
        tokens = self.encode(text, add_special=False)
        if self.add_bos and self.bos_id is not None and tokens[:1] != [self.bos_id]:
            return [self.bos_id, *tokens]
        return tokens

    def is_stop(self, token: int) -> bool:
        """Whether `token` ends an answer: EOS, EOT, EOM and the file's other end-of-generation tokens.

        EOS and EOT are among them, except where llama.cpp knows that one does not end an answer: <|end|> between the
        channels of harmony.
        """
        is_stop = self._stops.get(token)
        if is_stop is None:
            is_stop, piece = self._read(token)
            self._stops[token] = is_stop
            if piece:  # asked for next, where the answer goes on
                self._pieces[token] = piece
        return is_stop

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of one token, possibly part of a character.

        Control tokens are empty unless `special`, or unless they tell the parts of an answer apart (reasoning, tool
        calls), as "<|channel|>" does.
        """
        if special:
            return self._read_piece(token, True)
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._shown(token, self._read_piece(token, False))
        return piece

    @cached_property
    def marks(self) -> frozenset[int]:
        """The tokens that tell the parts of an answer apart."""
        found = [token for mark in MARKS if (token := self.id_of(mark)) is not None]
        return frozenset(token for token in found if not self.is_stop(token))

    def text(self, token: int) -> str:
        """The token as the vocabulary spells it, such as "<|im_end|>" or "Ġthe"."""
        self._expect_id(token)
        return str(llama().llama_vocab_get_text(self.vocab, token).decode("utf-8", "replace"))

    def id_of(self, text: str) -> int | None:
        """The control or user-defined token spelt `text`, if there is one."""
        ids = self.encode(text, add_special=False)
        return ids[0] if len(ids) == 1 and self.text(ids[0]) == text else None

    def decode(self, tokens: list[int], *, special: bool = False) -> str:
        """Text of `tokens`; a character that is incomplete at the end shows as U+FFFD."""
        return b"".join(self.piece(token, special=special) for token in tokens).decode("utf-8", "replace")

    def metadata(self, key: str) -> str | None:
        """A scalar metadata value of the file as text."""
        lib, size = llama(), 256
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = lib.llama_model_meta_val_str(self.model, key.encode(), buffer, size)
            if length < 0:
                return None
            if length < size:
                return buffer.value.decode("utf-8", "replace")
            size = length + 1

    # --- reading -----------------------------------------------------------------------------------------------

    def _can_add(self) -> bool:
        # llama.cpp aborts when a file asks for a BOS or EOS that it does not define.
        lib = llama()
        wants_bos = bool(lib.llama_vocab_get_add_bos(self.vocab))
        wants_eos = bool(lib.llama_vocab_get_add_eos(self.vocab))
        return not (wants_bos and self.bos_id is None) and not (wants_eos and self.eos_id is None)

    def _tokenize(self, data: bytes, parse_special: bool, add_special: bool) -> list[int]:
        lib = llama()
        room = len(data) + 16
        while True:
            ids = (ctypes.c_int32 * room)()
            count = lib.llama_tokenize(self.vocab, data, len(data), ids, room, add_special, parse_special)
            if count >= 0:
                return ids[:count]
            if count == -(2**31):
                raise EngineError("The text is too long to tokenize.", remedy="Shorten it.")
            room = -count

    def _shown(self, token: int, piece: bytes) -> bytes:
        if not piece and token in self.marks:  # asked last: finding the marks takes milliseconds
            return self._read_piece(token, True)
        return piece

    def _read(self, token: int, special: bool = False) -> tuple[bool, bytes]:
        """Whether `token` ends an answer, and its bytes."""
        self._expect_id(token)
        return token_piece(self._vocab_address, self._is_end, self._to_piece, token, special)

    def _read_piece(self, token: int, special: bool) -> bytes:
        return self._read(token, special)[1]

    def _expect_id(self, token: int) -> None:
        # llama.cpp throws through the C boundary on an id outside the vocabulary.
        if not 0 <= token < self.n_vocab:
            raise IndexError(f"token {token} is outside the vocabulary of {self.n_vocab}")

    def _optional(self, token: int) -> int | None:
        return None if token == _NO_TOKEN else int(token)

    def _read_suppressed_ids(self) -> tuple[int, ...]:
        count = ctypes.c_int32(0)
        pointer = llama().llama_vocab_get_suppress_tokens(self.vocab, ctypes.byref(count))
        return tuple(pointer[i] for i in range(count.value))

    def _read_warnings(self) -> tuple[str, ...]:
        is_gpt2 = self.metadata("tokenizer.ggml.model") == "gpt2"  # other kinds imply their pre-tokenizer
        if not is_gpt2 or llama().llama_vocab_type(self.vocab) != _TYPE_BPE:
            return ()
        pre = self.metadata("tokenizer.ggml.pre")
        if pre not in (None, "", "default"):
            return ()
        told = f"{self.path.name} does not name its pre-tokenizer (tokenizer.ggml.pre)"
        if pre:
            told = f'{self.path.name} names its pre-tokenizer only "default" (tokenizer.ggml.pre)'
        return (
            f"{told}, so words may be split otherwise than in training. "
            "If answers look garbled, download a newer conversion.",
        )
