"""llama.cpp as the oracle: logits, greedy tokens and perplexity from its C functions.

One thread by default: its threads wait for each other in loops, which on a busy machine takes a hundred times longer.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import llama_cpp
import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]


@llama_cpp.llama_log_callback
def _silent(level: int, text: bytes, user_data: ctypes.c_void_p) -> None:
    """llama.cpp prints a page per load otherwise."""


class LlamaOracle:
    """A model in llama.cpp with a context of `context` tokens."""

    def __init__(
        self, path: Path | str, *, context: int = 512, threads: int = 1, experts: int = 0, flash_attention: bool = False
    ) -> None:
        """With `experts`, the number per layer, `logits_and_experts` can be asked."""
        llama_cpp.llama_log_set(_silent, ctypes.c_void_p())
        llama_cpp.llama_backend_init()
        model_params = llama_cpp.llama_model_default_params()
        model_params.n_gpu_layers = 0
        self._model = llama_cpp.llama_model_load_from_file(os.fsencode(path), model_params)
        if not self._model:
            raise RuntimeError(f"llama.cpp cannot load {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = params.n_ubatch = min(context, 512)
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = (
            llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash_attention else llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        self._ranked: dict[int, list[npt.NDArray[np.int32]]] = {}
        if experts:
            params.cb_eval = self._callback = _expert_callback(self._ranked, experts)
        self._context = llama_cpp.llama_init_from_model(self._model, params)
        if not self._context:
            raise RuntimeError(f"llama.cpp cannot make a context for {path}")
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._vocab = llama_cpp.llama_model_get_vocab(self._model)
        self.vocabulary_size = llama_cpp.llama_vocab_n_tokens(self._vocab)
        self._batch = llama_cpp.llama_batch_init(params.n_batch, 0, 1)
        self._batch_size = params.n_batch

    def __enter__(self) -> LlamaOracle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._context:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            llama_cpp.llama_model_free(self._model)
            self._context = None

    def tokenize(self, text: str) -> list[int]:
        """Ids of plain text, without special tokens."""
        raw = text.encode()
        ids = (llama_cpp.llama_token * (len(raw) + 8))()
        count = llama_cpp.llama_tokenize(self._vocab, raw, len(raw), ids, len(ids), False, True)
        return list(ids[:count])

    def logits(self, tokens: Sequence[int]) -> Logits:
        """Logits [tokens, vocabulary] after each token of one sequence that starts anew."""
        llama_cpp.llama_memory_clear(self._memory, True)
        self._ranked.clear()
        return np.concatenate(list(self._decode(tokens)))

    def logits_and_experts(self, tokens: Sequence[int]) -> tuple[Logits, dict[int, npt.NDArray[np.int32]]]:
        """Logits, and for each layer the experts of each token in the router's order, best first."""
        logits = self.logits(tokens)
        return logits, {layer: np.concatenate(parts) for layer, parts in self._ranked.items()}

    def extend(self, token: int, position: int) -> Logits:
        """Logits [vocabulary] after one more token of the sequence that `logits` began."""
        return next(iter(self._decode([token], position)))[0]

    def greedy(self, prompt: Sequence[int], count: int) -> tuple[list[int], Logits]:
        """`count` greedy tokens after `prompt`, and the logits [count, vocabulary] that they were chosen from."""
        logits = [self.logits(prompt)[-1]]
        tokens = [int(logits[0].argmax())]
        while len(tokens) < count:
            logits.append(self.extend(tokens[-1], len(prompt) + len(tokens) - 1))
            tokens.append(int(logits[-1].argmax()))
        return tokens, np.stack(logits)

    def _decode(self, tokens: Sequence[int], position: int = 0) -> Iterator[Logits]:
        for begin in range(0, len(tokens), self._batch_size):
            chunk = tokens[begin : begin + self._batch_size]
            batch = self._batch
            batch.n_tokens = len(chunk)
            for i, token in enumerate(chunk):
                batch.token[i] = token
                batch.pos[i] = position + begin + i
                batch.n_seq_id[i] = 1
                batch.seq_id[i][0] = 0
                batch.logits[i] = 1
            status = llama_cpp.llama_decode(self._context, batch)
            if status != 0:
                raise RuntimeError(f"llama_decode gives {status}")
            pointer = llama_cpp.llama_get_logits(self._context)
            shape = (len(chunk), self.vocabulary_size)
            yield np.ctypeslib.as_array(pointer, shape=shape).copy()


def _expert_callback(ranked: dict[int, list[npt.NDArray[np.int32]]], experts: int) -> Any:
    """Copies each layer's router order, int32 [tokens, experts], best first, as the graph computes it."""
    name = _ggml_function("ggml_get_name", ctypes.c_char_p, ctypes.c_void_p)
    data = _ggml_function("ggml_get_data", ctypes.c_void_p, ctypes.c_void_p)
    nbytes = _ggml_function("ggml_nbytes", ctypes.c_size_t, ctypes.c_void_p)

    def look(tensor: int, ask: bool, user_data: int) -> bool:
        what, _, layer = name(tensor).decode().partition("-")
        if what == "ffn_moe_argsort" and not ask:
            raw = ctypes.string_at(data(tensor), nbytes(tensor))
            ranked.setdefault(int(layer), []).append(np.frombuffer(raw, np.int32).reshape(-1, experts))
        return what == "ffn_moe_argsort" or not ask

    return llama_cpp.ggml_backend_sched_eval_callback(look)


def _ggml_function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.CDLL(str(next((Path(llama_cpp.__file__).parent / "lib").glob("*ggml-base.*")))), name)
    function.restype, function.argtypes = result, arguments
    return function


def kl_divergence(reference: Logits, other: Logits) -> npt.NDArray[np.float64]:
    """KL(reference ‖ other) in nats of each row's distribution."""
    p, q = log_softmax(reference), log_softmax(other)
    result: npt.NDArray[np.float64] = (np.exp(p) * (p - q)).sum(axis=-1)
    return result


def log_softmax(logits: Logits) -> npt.NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    result: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result
