"""Follows grammars in a process of its own: `python -m engine.text.grammar_worker MODEL`.

llama.cpp's time for a token grows without bound where many optional parts of a grammar begin alike, its parser recurses
on the stack, and none of it can be interrupted; so it runs where its parent can kill it. Requests are a letter and what
it needs, replies as in `answer`:

    G grammar    begin to follow it             → "" or why it cannot be used
    A token      is it allowed now?             → one byte, 0 or 1
    T token      the same, and go on where it is
    M            all tokens that are allowed    → a bit each, as np.packbits has them
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref

import numpy as np

from engine.text.candidates import Candidates
from engine.text.framed_child import read_frame, write_frame
from engine.text.llama_library import collected_errors, llama
from engine.text.tokenizer import Tokenizer


class FollowedGrammar:
    """The state of one grammar along one answer. The start rule is `root`. ValueError where llama.cpp refuses it."""

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        lib = llama()
        with collected_errors() as errors:
            self._sampler = lib.llama_sampler_init_grammar(tokenizer.vocab, text.encode(), b"root")
        if not self._sampler:
            raise ValueError("; ".join(errors) or "it has no rule named root")
        weakref.finalize(self, lib.llama_sampler_free, self._sampler)
        self._one, self._all = Candidates(1), Candidates(tokenizer.n_vocab)
        self._zeros = np.zeros(tokenizer.n_vocab, np.float32)

    def allows(self, token: int) -> bool:
        one = self._one.fill(np.zeros(1, np.float32), np.array([token], np.int32)).apply(self._sampler)
        return bool(one.data["logit"][0] == 0.0)

    def take(self, token: int) -> bool:
        """Go on with `token` if it is allowed; llama.cpp throws through the C boundary otherwise."""
        allowed = self.allows(token)
        if allowed:
            llama().llama_sampler_accept(self._sampler, token)
        return allowed

    def allowed(self) -> bytes:
        logits = self._all.fill(self._zeros).apply(self._sampler).data["logit"]
        return np.packbits(logits == 0.0).tobytes()


class GrammarServer:
    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._grammar: FollowedGrammar | None = None

    def answer(self, request: bytes) -> bytes:
        kind, rest = request[:1], request[1:]
        if kind == b"G":
            self._grammar = None
            try:
                self._grammar = FollowedGrammar(rest.decode(), self._tokenizer)
            except ValueError as error:
                return str(error).encode()
            return b""
        assert self._grammar is not None
        if kind == b"M":
            return self._grammar.allowed()
        token = int.from_bytes(rest, "little")
        return bytes([self._grammar.allows(token) if kind == b"A" else self._grammar.take(token)])


def _end_with_parent() -> None:
    """However long llama.cpp takes: nobody waits for it any more."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def main(path: str) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    server = GrammarServer(Tokenizer.load(path, check=False))  # the parent has it loaded, so it is sound
    while (request := read_frame(sys.stdin.buffer)) is not None:
        write_frame(sys.stdout.buffer, server.answer(request))


if __name__ == "__main__":
    main(sys.argv[1])
