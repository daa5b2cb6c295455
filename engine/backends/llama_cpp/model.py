"""A model and its context in llama.cpp, driven through the C functions. Runs in the child only."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import psutil

from engine.errors import EngineError, OutOfMemoryError, UnsupportedError
from engine.gguf import QuantType
from engine.memory.available import available_memory, require_memory
from engine.messages import LoadOptions, ModelInfo
from engine.placement.state import VALUE_BYTES
from engine.text.llama_library import can_run_models, collected_errors, llama
from engine.text.template import reasoning_switch
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import vocabulary_error

_MICRO_BATCH = 512  # the most tokens in one llama_decode
_CELL_BYTES = 48  # of a position, whatever its keys: its number, its shift, and a bit for each of 256 sequences
_DEFAULT_CONTEXT_SHARE = 0.25  # of the available memory, for the KV cache of a context nobody chose


class CompatibilityModel:
    """Weights, one context with one sequence, and the tokens whose KV entries the context holds (`cached`)."""

    def __init__(self, path: str, options: LoadOptions, on_progress: Callable[[float], None]) -> None:
        self.path = path
        self.threads = options.threads or psutil.cpu_count(logical=False) or 1
        self._kv_type = options.kv_type
        self._model = _load_weights(path, on_progress)
        self.tokenizer = Tokenizer(self._model, path)  # frees the model with itself
        _expect_decoder(self._model, path)
        self.context_length = self._context_length(options.context_length)
        self._context = self._make_context()
        self.context_length = min(self.context_length, llama().llama_n_ctx(self._context))
        self.cached: list[int] = []

    def close(self) -> None:
        if self._context:
            llama().llama_free(self._context)
            self._context = None

    def keep_prefix(self, tokens: list[int]) -> int:
        """Keep the KV entries that `tokens` share with the cache, drop the rest; how many were kept.

        The last token is never kept, because its logits are needed.
        """
        shared = 0
        for have, want in zip(self.cached, tokens[:-1], strict=False):
            if have != want:
                break
            shared += 1
        if shared < len(self.cached):
            memory = llama().llama_get_memory(self._context)
            # Recurrent and windowed caches cannot forget only their end.
            if not llama().llama_memory_seq_rm(memory, 0, shared, -1):
                llama().llama_memory_clear(memory, True)
                shared = 0
        del self.cached[shared:]
        return shared

    def decode(self, tokens: list[int]) -> None:
        """Run at most `micro_batch` tokens after the cached ones. Raises EngineError when llama.cpp refuses."""
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        status = llama().llama_decode(self._context, llama().llama_batch_get_one(array, len(tokens)))
        if status != 0:
            raise EngineError(
                f"llama.cpp could not run the model (llama_decode returned {status}).",
                done="The answer so far was kept.",
                remedy="Choose a shorter context, or another quantization of this model.",
            )
        self.cached.extend(tokens)

    def logits(self) -> npt.NDArray[np.float32]:
        """Logits [n_vocab] after the last decoded token; a view that the next `decode` overwrites."""
        pointer = llama().llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(pointer, (self.tokenizer.n_vocab,))

    @property
    def micro_batch(self) -> int:
        """The most tokens that one `decode` takes."""
        return min(_MICRO_BATCH, self.context_length)

    def info(self) -> ModelInfo:
        lib, meta = llama(), self.tokenizer.metadata
        return ModelInfo(
            path=self.path,
            name=meta("general.name") or Path(self.path).stem,
            architecture=meta("general.architecture") or "unknown",
            engine="compatibility",
            quantization="",  # these two are the parent's, who has read the header
            parameters=lib.llama_model_n_params(self._model),
            file_bytes=0,
            context_length=self.context_length,
            trained_context_length=lib.llama_model_n_ctx_train(self._model),
            isa_tier="",
            threads=self.threads,
            warnings=("Compatibility engine: placement is per layer.", *self.tokenizer.warnings),
            has_reasoning_switch=bool(reasoning_switch(meta("tokenizer.chat_template") or None)),
            kv_type=self._kv_type,
        )

    # --- loading -----------------------------------------------------------------------------------------------

    def _context_length(self, chosen: int | None) -> int:
        """A chosen context, or an error where memory cannot hold its KV cache: llama.cpp writes all of it at once, so
        that the system would end it or others. Else the model's own, as far as a quarter of the memory holds it."""
        per_token = self._bytes_per_token()
        if not chosen:
            trained = int(llama().llama_model_n_ctx_train(self._model)) or 2048
            room = int(available_memory() * _DEFAULT_CONTEXT_SHARE) // per_token
            return min(trained, max(2048, room // 256 * 256))
        fits = available_memory() // per_token
        require_memory(
            chosen * per_token,
            f"A context of {chosen} tokens",
            remedy=f"Choose a context of at most {fits} tokens, or close other programs.",
        )
        return chosen

    def _bytes_per_token(self) -> int:
        """Of the KV cache, which llama.cpp makes as long in layers with a window."""
        lib, meta = llama(), self.tokenizer.metadata
        heads = lib.llama_model_n_head(self._model) or 1
        architecture = meta("general.architecture")
        width = sum(
            int(meta(f"{architecture}.attention.{kind}_length") or lib.llama_model_n_embd(self._model) // heads)
            for kind in ("key", "value")
        )
        rows = int(lib.llama_model_n_head_kv(self._model)) * int(lib.llama_model_n_layer(self._model))
        return max(_CELL_BYTES, int(VALUE_BYTES[self._kv_type] * width * rows))

    def _make_context(self) -> Any:
        lib = llama()
        params = lib.llama_context_default_params()
        params.n_ctx = self.context_length
        params.n_batch = params.n_ubatch = self.micro_batch
        params.n_threads = params.n_threads_batch = self.threads
        params.no_perf = True
        if self._kv_type == "q8_0":
            params.type_k = params.type_v = QuantType.Q8_0
        with collected_errors() as errors:
            context = lib.llama_init_from_model(self._model, params)
            if not context and self._kv_type != "f16":  # heads that do not make whole blocks, among other reasons
                self._kv_type = "f16"
                params.type_k = params.type_v = QuantType.F16
                context = lib.llama_init_from_model(self._model, params)
        if not context:
            raise OutOfMemoryError(
                f"llama.cpp could not make a context of {self.context_length} tokens "
                f"({'; '.join(errors) or 'no reason given'}).",
                done="The model was not loaded.",
                remedy="Choose a shorter context.",
            )
        return context


def _load_weights(path: str, on_progress: Callable[[float], None]) -> Any:
    lib = llama()
    if not can_run_models():
        raise UnsupportedError(
            f"{Path(path).name} needs the compatibility engine, and that a processor with AVX2, which this one lacks.",
            done="The model was not loaded.",
            remedy="Choose a model that Tessera runs in its own engine; the library says which.",
        )
    params = lib.llama_model_default_params()

    @lib.llama_progress_callback  # type: ignore[untyped-decorator]
    def progress(fraction: float, _data: object) -> bool:
        on_progress(fraction)
        return True

    params.progress_callback = progress
    params.n_gpu_layers = 0
    with collected_errors() as errors:
        model = lib.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise vocabulary_error(path, " ".join(errors))
    return model


def _expect_decoder(model: Any, path: str) -> None:
    lib = llama()
    if lib.llama_model_has_encoder(model) or not lib.llama_model_has_decoder(model):
        raise UnsupportedError(
            f"{Path(path).name} is no text generation model (it has an encoder, or no decoder).",
            remedy="Choose a chat or completion model.",
        )
