"""Each sampler stage against the same stage in NumPy, and what a sampler must never do."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from engine.errors import EngineError
from engine.messages import SamplingParams
from engine.text.candidates import Candidates
from engine.text.llama_library import llama
from engine.text.sampler import Sampler
from engine.text.tokenizer import Tokenizer
from kernels import _cpu
from tests.support.gguf_writer import GGUFBuilder, ValueType
from tests.support.vocabularies import spm_vocabulary

Array = npt.NDArray[np.float64]

NEUTRAL = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=1)
DRAWS = 20_000


def logits_of(tokenizer: Tokenizer, seed: int = 0, scale: float = 2.0) -> npt.NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal(tokenizer.n_vocab) * scale).astype(np.float32)


def softmax(logits: Array) -> Array:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def reference(logits: npt.NDArray[np.float32], params: SamplingParams) -> Array:
    """Probabilities after top-k, top-p, min-p and temperature, in this order, as their papers define them."""
    scores = logits.astype(np.float64)
    order = np.argsort(-scores, kind="stable")
    if params.top_k:
        order = order[: params.top_k]
    if params.top_p < 1.0:
        mass = np.cumsum(softmax(scores[order]))
        order = order[: int(np.searchsorted(mass, params.top_p)) + 1]
    if params.min_p > 0.0:
        p = softmax(scores[order])
        order = order[p >= params.min_p * p.max()]
    probabilities = np.zeros(scores.size)
    probabilities[order] = softmax(scores[order] / params.temperature)
    return probabilities


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 2.0},
        {"top_k": 1},
        {"top_k": 5},
        {"top_k": 1000},
        {"top_p": 0.5},
        {"top_p": 0.9},
        {"min_p": 0.2},
        {"top_k": 40, "top_p": 0.8, "min_p": 0.05, "temperature": 0.8},
    ],
)
def test_frequencies_follow_the_reference(small_tokenizer: Tokenizer, changes: dict[str, float]) -> None:
    """Pearson's chi-square of 20,000 draws; the bound is exceeded by chance once in a million seeds."""
    params = dataclasses.replace(NEUTRAL, **changes)
    logits = logits_of(small_tokenizer)
    sampler = Sampler(params, small_tokenizer)
    counts = Counter(sampler.sample(logits) for _ in range(DRAWS))
    expected = reference(logits, params) * DRAWS
    assert all(expected[token] > 0 for token in counts), "a token that the stages should have cut"
    common = expected >= 5  # the rest is pooled, as the test asks for
    observed = np.array([counts[token] for token in range(expected.size)], np.float64)
    cells = [(observed[common], expected[common])]
    if expected[~common].sum() > 0:
        cells.append((observed[~common].sum(keepdims=True), expected[~common].sum(keepdims=True)))
    chi_square = sum(float(((o - e) ** 2 / e).sum()) for o, e in cells)
    freedom = max(sum(o.size for o, _ in cells) - 1, 1)
    # Wilson and Hilferty's approximation of the quantile; 4.9 standard deviations
    bound = freedom * (1 - 2 / (9 * freedom) + 4.9 * np.sqrt(2 / (9 * freedom))) ** 3
    assert chi_square < bound


@pytest.mark.parametrize("top_k", [1, 40, 300, 2000])
@pytest.mark.parametrize("levels", [None, 3])
def test_top_k_of_a_large_vocabulary(starter_tokenizer: Tokenizer, top_k: int, levels: int | None) -> None:
    """Candidates are narrowed before llama.cpp sees them: no token of the best k may be lost, ties included."""
    logits = logits_of(starter_tokenizer, scale=1.0)
    if levels:
        logits = np.clip(np.round(logits), -1, levels - 2).astype(np.float32)
    logits[-3:] = 9.0, 8.0, 7.0  # after the last whole block
    candidates = Candidates(logits.size)
    _, count = _cpu.best_logits(logits, top_k, candidates.data.view(np.uint8))
    candidates.fill(candidates.data["logit"][:count].copy(), candidates.data["id"][:count].copy())
    kept = set(candidates.data["id"][: candidates.apply(make_top_k(top_k))._array.size].tolist())
    assert len(kept) == top_k
    threshold = np.sort(logits)[-top_k]
    assert {int(token) for token in (logits > threshold).nonzero()[0]} <= kept
    assert all(logits[token] >= threshold for token in kept)


def make_top_k(k: int) -> Any:
    return llama().llama_sampler_init_top_k(k)


def penalised(logits: npt.NDArray[np.float32], window: list[int], params: SamplingParams) -> npt.NDArray[np.float32]:
    """CTRL's repetition penalty, then OpenAI's frequency and presence penalties."""
    out = logits.copy()
    for token, count in Counter(window).items():
        factor = np.float32(params.repetition_penalty)
        out[token] = out[token] * factor if out[token] <= 0 else out[token] / factor
        out[token] -= np.float32(count * params.frequency_penalty + params.presence_penalty)
    return out


@pytest.mark.parametrize(
    "changes",
    [
        {"repetition_penalty": 1.3},
        {"presence_penalty": 0.7},
        {"frequency_penalty": 0.4},
        {"repetition_penalty": 1.1, "presence_penalty": 0.2, "frequency_penalty": 0.1, "penalty_last_n": 8},
        {"frequency_penalty": -0.5},
    ],
)
def test_penalties_of_a_greedy_answer(small_tokenizer: Tokenizer, changes: dict[str, float]) -> None:
    """The same tokens as NumPy over 200 steps, the window moving on, beginning with the prompt."""
    params = dataclasses.replace(NEUTRAL, temperature=0.0, **changes)
    history = [5, 6, 7, 5]
    sampler, window = Sampler(params, small_tokenizer, history=history), list(history)
    for step in range(200):
        logits = logits_of(small_tokenizer, seed=step % 7)
        expected = int(penalised(logits, window[-params.penalty_last_n :], params).argmax())
        assert sampler.sample(logits) == expected
        window.append(expected)


def test_penalties_of_a_drawn_answer(small_tokenizer: Tokenizer) -> None:
    params = dataclasses.replace(NEUTRAL, presence_penalty=50.0, penalty_last_n=20)
    sampler, logits = Sampler(params, small_tokenizer), logits_of(small_tokenizer)
    tokens = [sampler.sample(logits) for _ in range(100)]
    assert all(tokens[i] not in tokens[max(0, i - 20) : i] for i in range(100))


@pytest.mark.parametrize("changes", [{"repetition_penalty": 1.1}, {"presence_penalty": -3.0, "penalty_last_n": 5}])
def test_penalties_of_the_best_are_those_of_all(byte_tokenizer: Tokenizer, changes: dict[str, float]) -> None:
    params = dataclasses.replace(SamplingParams(seed=4), **changes)
    best, all_tokens = (Sampler(params, byte_tokenizer, history=range(9)) for _ in range(2))
    assert best._plain is not None
    all_tokens._plain = None
    rng = np.random.default_rng(2)
    for _ in range(300):
        logits = rng.standard_normal(byte_tokenizer.n_vocab).astype(np.float32) * 3
        assert best.sample(logits) == all_tokens.sample(logits)


def test_penalties_may_be_off(small_tokenizer: Tokenizer) -> None:
    params = dataclasses.replace(NEUTRAL, temperature=0.0, repetition_penalty=2.0, penalty_last_n=0)
    sampler, logits = Sampler(params, small_tokenizer, history=[1, 2, 3]), logits_of(small_tokenizer)
    assert {sampler.sample(logits) for _ in range(5)} == {int(logits.argmax())}


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1, 2**40])
def test_a_seed_repeats_its_tokens(small_tokenizer: Tokenizer, seed: int) -> None:
    logits = [logits_of(small_tokenizer, seed=i) for i in range(50)]
    runs = [
        [sampler.sample(row) for row in logits]
        for sampler in (Sampler(dataclasses.replace(NEUTRAL, seed=seed), small_tokenizer) for _ in range(2))
    ]
    assert runs[0] == runs[1]


def test_seeds_differ_and_a_drawn_one_is_told(small_tokenizer: Tokenizer) -> None:
    logits = [logits_of(small_tokenizer, seed=i) for i in range(50)]
    drawn = Sampler(dataclasses.replace(NEUTRAL, seed=None), small_tokenizer)
    tokens = [drawn.sample(row) for row in logits]
    again = Sampler(dataclasses.replace(NEUTRAL, seed=drawn.seed), small_tokenizer)
    other = Sampler(dataclasses.replace(NEUTRAL, seed=drawn.seed + 1), small_tokenizer)
    assert [again.sample(row) for row in logits] == tokens
    assert [other.sample(row) for row in logits] != tokens


def test_greedy_takes_the_first_of_equals(small_tokenizer: Tokenizer) -> None:
    logits = np.zeros(small_tokenizer.n_vocab, np.float32)
    logits[[7, 9]] = 3.0
    assert Sampler(SamplingParams(temperature=0.0), small_tokenizer).sample(logits) == 7


@pytest.mark.parametrize("params", [SamplingParams(seed=1), SamplingParams(temperature=0, repetition_penalty=1.5)])
def test_logits_are_left_alone(small_tokenizer: Tokenizer, params: SamplingParams) -> None:
    logits = logits_of(small_tokenizer)
    before = logits.copy()
    sampler = Sampler(params, small_tokenizer, history=[1, 2, 3])
    for _ in range(5):
        sampler.sample(logits)
    assert (logits == before).all()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_broken_logits_are_an_error(small_tokenizer: Tokenizer, temperature: float, bad: float) -> None:
    logits = logits_of(small_tokenizer)
    logits[100] = bad
    sampler = Sampler(dataclasses.replace(NEUTRAL, temperature=temperature), small_tokenizer)
    with pytest.raises(EngineError, match="not a number"):
        sampler.sample(logits)
    with pytest.raises(EngineError, match="not a number"):
        sampler.sample(np.full_like(logits, -np.inf))


@pytest.mark.parametrize("temperature", [1e-30, 1e-4, 100.0])
def test_excluded_tokens_are_never_drawn(small_tokenizer: Tokenizer, temperature: float) -> None:
    logits = np.full(small_tokenizer.n_vocab, -np.inf, np.float32)
    logits[[3, 200]] = 1.0, 30.0
    sampler = Sampler(dataclasses.replace(NEUTRAL, temperature=temperature), small_tokenizer)
    assert {sampler.sample(logits) for _ in range(200)} <= {3, 200}


def test_suppressed_tokens_of_the_file(load: Callable[[GGUFBuilder], Tokenizer]) -> None:
    builder = spm_vocabulary()
    builder.add("tokenizer.ggml.suppress_tokens", [7, 8], ValueType.ARRAY, item_type=ValueType.I32)
    tokenizer = load(builder)
    logits = np.zeros(tokenizer.n_vocab, np.float32)
    logits[[7, 8, 9]] = 9.0, 8.0, 7.0
    assert Sampler(SamplingParams(temperature=0.0), tokenizer).sample(logits) == 9


def test_wrong_size_is_refused(small_tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="100 logits"):
        Sampler(NEUTRAL, small_tokenizer).sample(np.zeros(100, np.float32))


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"top_p": 1.5},
        {"min_p": -0.1},
        {"top_k": -1},
        {"repetition_penalty": 0.0},
        {"frequency_penalty": float("inf")},
        {"penalty_last_n": -1},
    ],
)
def test_values_out_of_range(small_tokenizer: Tokenizer, changes: dict[str, float]) -> None:
    with pytest.raises(EngineError, match=next(iter(changes))):
        Sampler(dataclasses.replace(NEUTRAL, **changes), small_tokenizer)
