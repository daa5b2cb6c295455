"""The peer from its file to text: llama.cpp's own loading, tokenizer and sampler chain."""

from __future__ import annotations

import ctypes
import statistics
import time
from typing import Any

import llama_cpp.llama_cpp as llama

from engine.benchmark.contestant import PROMPT, Pause, Setup
from engine.benchmark.llama_cpp_contestant import load, silent_library
from engine.errors import EngineError
from engine.messages import SamplingParams


class LlamaCppAnswerer:
    """`variant` as in LlamaCppContestant."""

    def __init__(self, setup: Setup) -> None:
        self._silence = silent_library()
        self._setup = setup
        self._context: Any = None

    def first_token(self) -> float:
        begin = time.perf_counter()
        model, self._context = load(self._setup)
        self._vocabulary = llama.llama_model_get_vocab(model)
        self._sampler = _sampler(SamplingParams())
        room = (llama.llama_token * 8)()
        count = llama.llama_tokenize(self._vocabulary, PROMPT, len(PROMPT), room, len(room), True, True)
        self._token = self._next(room, count)
        return time.perf_counter() - begin

    def pause(self, tokens: int) -> Pause:
        between, steps = [], []
        single = (llama.llama_token * 1)()
        logits_at = time.perf_counter()
        for _ in range(tokens):
            single[0] = self._token
            begin = time.perf_counter()
            self._decode(single, 1)
            now = time.perf_counter()
            between.append(begin - logits_at)
            steps.append(now - logits_at)
            logits_at = now
            self._token = self._choose()
        return Pause(statistics.median(between[1:]), statistics.median(steps[1:]))

    def close(self) -> None:
        """The process ends, and with it all that llama.cpp holds."""

    def _next(self, tokens: Any, count: int) -> int:
        self._decode(tokens, count)
        return self._choose()

    def _decode(self, tokens: Any, count: int) -> None:
        if llama.llama_decode(self._context, llama.llama_batch_get_one(tokens, count)) != 0:
            raise EngineError(f"llama.cpp failed to evaluate {count} tokens.")
        llama.llama_synchronize(self._context)

    def _choose(self) -> int:
        token = int(llama.llama_sampler_sample(self._sampler, self._context, -1))
        piece = ctypes.create_string_buffer(64)
        llama.llama_token_to_piece(self._vocabulary, token, piece, len(piece), 0, False)
        return token


def _sampler(params: SamplingParams) -> Any:
    """The same stages as our own sampler's for the same parameters."""
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    for stage in (
        llama.llama_sampler_init_top_k(params.top_k),
        llama.llama_sampler_init_top_p(params.top_p, 1),
        llama.llama_sampler_init_min_p(params.min_p, 1),
        llama.llama_sampler_init_temp(params.temperature),
        llama.llama_sampler_init_dist(1),
    ):
        llama.llama_sampler_chain_add(chain, stage)
    return chain
