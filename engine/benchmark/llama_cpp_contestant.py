"""The peer: llama.cpp through its Python binding's C functions, no Python between the tokens of a batch."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import llama_cpp.llama_cpp as llama

from engine.benchmark.contestant import Setup, benchmark_tokens
from engine.errors import EngineError
from engine.gguf import QuantType
from kernels import _cpu


def silent_library() -> Any:
    """Starts the library without its log. The value is to be kept: C holds only the address of the callback."""
    silence = llama.llama_log_callback(_cpu.IGNORE_LOG)  # as in our own loads, without Python
    llama.llama_log_set(silence, ctypes.c_void_p(0))
    llama.llama_backend_init()
    return silence


def load(setup: Setup) -> tuple[Any, Any]:
    """Model and context, both pointers."""
    model_params = llama.llama_model_default_params()
    model_params.n_gpu_layers = setup.gpu_layers
    model_params.use_extra_bufts = "not repacked" not in setup.variant
    model = llama.llama_model_load_from_file(setup.path.encode(), model_params)
    if not model:
        raise EngineError(
            f"llama.cpp could not load {setup.path}.",
            done="Nothing was measured.",
            remedy="Measure without --against llama.cpp, or install a newer llama-cpp-python that knows the model.",
        )
    params = llama.llama_context_default_params()
    params.n_ctx = setup.context_length
    params.n_batch = setup.context_length
    params.n_ubatch = setup.micro_batch
    params.type_k = params.type_v = QuantType[setup.kv_type.upper()]
    if "no flash attention" in setup.variant:  # on a CPU without it, llama.cpp decodes faster at depth
        params.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.n_threads = params.n_threads_batch = setup.threads
    context = llama.llama_init_from_model(model, params)
    if not context:
        raise EngineError(f"llama.cpp could not make a context of {setup.context_length} tokens.")
    return model, context


class LlamaCppContestant:
    """`variant` "repacked" lets llama.cpp repack weights for this CPU; "not repacked" keeps the file's layout.

    Either may be followed by ", no flash attention".
    """

    def __init__(self, setup: Setup) -> None:
        self._silence = silent_library()
        self._model, self._context = load(setup)
        vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self._model))
        self._tokens = benchmark_tokens(setup.context_length, vocabulary)
        self._depth = 0

    def use_threads(self, count: int) -> None:
        llama.llama_set_n_threads(self._context, count, count)

    def prefill(self, tokens: int) -> float:
        self._clear()
        return self._evaluate(self._tokens[:tokens])

    def fill(self, depth: int) -> None:
        if depth < self._depth:
            if llama.llama_memory_seq_rm(llama.llama_get_memory(self._context), 0, depth, -1):
                self._depth = depth
            else:  # recurrent states cannot go back
                self._clear()
        if depth > self._depth:
            self._evaluate(self._tokens[self._depth : depth])

    def decode(self, tokens: int) -> float:
        start = self._depth
        return sum(self._evaluate([token]) for token in self._tokens[start : start + tokens])

    def close(self) -> None:
        """The process ends, and with it all that llama.cpp holds."""

    def _clear(self) -> None:
        llama.llama_memory_clear(llama.llama_get_memory(self._context), False)
        self._depth = 0

    def _evaluate(self, tokens: list[int]) -> float:
        array = (llama.llama_token * len(tokens))(*tokens)
        batch = llama.llama_batch_get_one(array, len(tokens))
        begin = time.perf_counter()
        status = llama.llama_decode(self._context, batch)
        llama.llama_synchronize(self._context)
        elapsed = time.perf_counter() - begin
        if status != 0:
            raise EngineError(f"llama.cpp failed to evaluate {len(tokens)} tokens (status {status}).")
        self._depth += len(tokens)
        return elapsed
