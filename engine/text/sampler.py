"""From logits to the next token, through llama.cpp's sampler functions.

The order of stages is the ecosystem's: grammar, penalties, top-k, top-p, min-p, temperature, draw. A grammar is
consulted for the drawn token first, and masks the whole vocabulary only when that token does not fit.
"""

from __future__ import annotations

import math
import secrets
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.errors import EngineError
from engine.messages import SamplingParams
from engine.text.candidates import Candidates, Logits
from engine.text.grammar import Grammar
from engine.text.llama_library import address_of, llama
from engine.text.tokenizer import Tokenizer
from kernels._cpu import BestSampler

_RANDOM_SEED = 0xFFFFFFFF  # llama.cpp's word for "draw one yourself"
_GREEDY_BELOW = 1e-5  # dividing by less could overflow float32


class Sampler:
    """One answer's sampler: holds the penalty window, the grammar's state and the random generator.

    `seed` is the one in use: the request's, or a drawn one. The same seed, parameters, history and logits give
    the same tokens. `history` is the prompt, for the penalties.
    """

    def __init__(self, params: SamplingParams, tokenizer: Tokenizer, *, history: Sequence[int] = ()) -> None:
        """Raises EngineError for values out of range and GrammarError for a grammar that cannot be used."""
        _expect_valid(params)
        self.params = params
        self.seed = secrets.randbits(31) if params.seed is None else params.seed
        self._n_vocab = tokenizer.n_vocab
        self._suppressed = np.array(tokenizer.suppressed_ids, np.int64)
        self._greedy = params.temperature < _GREEDY_BELOW
        self._candidates = Candidates(tokenizer.n_vocab)
        self._chain = None if self._greedy else _make_chain(params, self.seed)
        self._grammar = Grammar(params.grammar, tokenizer) if params.grammar else None
        self._penalties = _Penalties(params, tokenizer.n_vocab) if _has_penalties(params) else None
        if self._penalties is not None:
            for token in history[-params.penalty_last_n :]:
                self._penalties.accept(token)
        self._best = self._best_sampler()
        # Most requests: then one call makes the choice, and little runs between two tokens.
        needs_all = self._penalties is not None and (self._chain is None or params.top_k == 0)
        is_plain = self._grammar is None and not self._suppressed.size and not needs_all
        self._plain = self._best if is_plain else None

    def sample(self, logits: Logits, row: int = 0) -> int:
        """Choose the next token from a row of float32 `logits` [rows, n_vocab] or [n_vocab], and remember it.

        They are contiguous, and left unchanged. Logits beyond the vocabulary belong to padding, and are left out.
        Raises EngineError when the logits hold NaN, GrammarError when the grammar admits no token.
        """
        if self._plain is not None:
            penalties = self._penalties
            token = self._plain.sample(logits, row, None if penalties is None else penalties.recent)
            if token < 0:
                raise _no_number()
            if penalties is not None:
                penalties.accept(token)
            return token
        logits = self._adjusted(self._without_padding(logits if logits.ndim == 1 else logits[row]))
        token = self._choose(logits)
        if self._grammar is not None and not self._grammar.take(token):
            logits = self._grammar.masked(logits)
            token = self._choose(logits)
            self._grammar.take(token)
        if self._penalties is not None:
            self._penalties.accept(token)
        return token

    def _without_padding(self, logits: Logits) -> Logits:
        if logits.size < self._n_vocab:
            raise ValueError(f"{logits.size} logits for a vocabulary of {self._n_vocab}")
        return logits[: self._n_vocab]

    def _adjusted(self, logits: Logits) -> Logits:
        if self._penalties is not None:
            logits = self._penalties.apply(logits)
        if self._suppressed.size:
            logits = logits.copy()
            logits[self._suppressed] = -np.inf
        return logits

    def _best_sampler(self) -> BestSampler | None:
        """Chooses natively where few logits are enough: the best of all, or of a top-k. Penalties come before."""
        apply, penalties = address_of(llama().llama_sampler_apply), self._penalties
        if self._chain is None:
            return BestSampler(self._n_vocab, 1, apply)
        if self.params.top_k == 0:
            return None
        before = penalties.sampler.address if penalties is not None else 0
        return BestSampler(self._n_vocab, self.params.top_k, apply, self._chain.address, before)

    def _choose(self, logits: Logits) -> int:
        """From logits that are penalised already."""
        if self._best is not None:
            token = self._best.sample(logits)
            if token < 0:
                raise _no_number()
            return token
        best = int(logits.argmax())  # the first NaN, if there is any
        if not math.isfinite(logits[best]):
            raise _no_number()
        token = self._candidates.fill(logits).apply(self._chain).selected
        return token if token >= 0 and logits[token] != -np.inf else best


def _no_number() -> EngineError:
    return EngineError(
        "The model's output is not a number, so no token can be chosen.",
        done="The answer was ended here.",
        remedy="The file may be damaged; download it again, or choose another quantization.",
    )


class _Penalties:
    """Repetition, presence and frequency penalties, applied only to the tokens in the window.

    llama.cpp's function looks every candidate up; handing it the few tokens that can change gives the same
    logits at a fraction of the time.
    """

    def __init__(self, params: SamplingParams, n_vocab: int) -> None:
        lib = llama()
        self.sampler = _Owned(
            lib.llama_sampler_init_penalties(
                n_vocab,
                params.penalty_last_n,
                params.repetition_penalty,
                params.frequency_penalty,
                params.presence_penalty,
            )
        )
        self._ring = np.empty(params.penalty_last_n, np.int32)
        self._accepted = 0
        self._accept = lib.llama_sampler_accept
        self._few = Candidates(params.penalty_last_n)

    @property
    def recent(self) -> npt.NDArray[np.int32]:
        """The tokens in the window, in any order, some of them several times."""
        return self._ring if self._accepted >= self._ring.size else self._ring[: self._accepted]

    def accept(self, token: int) -> None:
        self._ring[self._accepted % self._ring.size] = token
        self._accepted += 1
        self._accept(self.sampler, token)

    def apply(self, logits: Logits) -> Logits:
        tokens = np.unique(self.recent)
        if not tokens.size:
            return logits
        few = self._few.fill(logits[tokens], tokens).apply(self.sampler)
        changed = logits.copy()
        changed[tokens] = few.data["logit"][: tokens.size]
        return changed


def _make_chain(params: SamplingParams, seed: int) -> Any:
    lib = llama()
    stages = []
    if params.top_k > 0:
        stages.append(lib.llama_sampler_init_top_k(params.top_k))
    if params.top_p < 1.0:
        stages.append(lib.llama_sampler_init_top_p(params.top_p, 1))
    if params.min_p > 0.0:
        stages.append(lib.llama_sampler_init_min_p(params.min_p, 1))
    if params.temperature != 1.0:
        stages.append(lib.llama_sampler_init_temp(params.temperature))
    stages.append(lib.llama_sampler_init_dist(_llama_seed(seed)))
    chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
    for stage in stages:
        lib.llama_sampler_chain_add(chain, stage)  # the chain owns its stages
    return _Owned(chain)


class _Owned:
    """A sampler that is freed with this object; passes as ctypes argument by `_as_parameter_`."""

    def __init__(self, sampler: Any) -> None:
        self._as_parameter_ = sampler
        self.address = address_of(sampler)
        self._finalizer = weakref.finalize(self, llama().llama_sampler_free, sampler)


def _llama_seed(seed: int) -> int:
    seed &= 0xFFFFFFFF
    return seed - 1 if seed == _RANDOM_SEED else seed


def _has_penalties(params: SamplingParams) -> bool:
    changed = params.repetition_penalty != 1.0 or params.presence_penalty or params.frequency_penalty
    return bool(changed) and params.penalty_last_n > 0


def _expect_valid(params: SamplingParams) -> None:
    limits = {
        "temperature": (0.0, 100.0),
        "top_k": (0, 2**31 - 1),
        "top_p": (0.0, 1.0),
        "min_p": (0.0, 1.0),
        "repetition_penalty": (0.01, 100.0),
        "presence_penalty": (-100.0, 100.0),
        "frequency_penalty": (-100.0, 100.0),
        "penalty_last_n": (0, 1 << 20),
    }
    for name, (low, high) in limits.items():
        value = getattr(params, name)
        if not low <= value <= high:  # also false for NaN
            raise EngineError(
                f"Sampler setting {name} is {value}; it must lie between {low} and {high}.",
                done="Nothing was generated.",
                remedy="Change that setting.",
            )
