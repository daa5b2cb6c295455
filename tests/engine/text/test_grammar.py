"""Grammars bind every token, and one that cannot be used is refused instead of ignored."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from app.chat.parameters.json_schema import grammar_of
from engine.messages import SamplingParams
from engine.text import grammar
from engine.text.grammar import GrammarError
from engine.text.sampler import Sampler
from engine.text.tokenizer import Tokenizer
from tests.support.gguf_writer import GGUFBuilder
from tests.support.vocabularies import bpe_vocabulary, byte_characters

JSON = r"""
root   ::= "{" pair ("," pair){0,3} "}"
pair   ::= string ":" value
value  ::= string | number | "true" | "null" | "[" (number ("," number){0,2})? "]"
string ::= "\"" [a-zA-Zäöü 🙂]{0,8} "\""
number ::= "-"? ("0" | [1-9] [0-9]{0,3}) ("." [0-9]{1,3})?
"""


def answer(tokenizer: Tokenizer, params: SamplingParams, seed: int, limit: int = 300) -> str:
    """Text from random logits until a stop token."""
    rng, sampler, tokens = np.random.default_rng(seed), Sampler(params, tokenizer), []
    for _ in range(limit):
        token = sampler.sample((rng.standard_normal(tokenizer.n_vocab) * 3).astype(np.float32))
        if tokenizer.is_stop(token):
            return tokenizer.decode(tokens)
        tokens.append(token)
    raise AssertionError(f"no end after {limit} tokens: {tokenizer.decode(tokens)}")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_json_parses(starter_tokenizer: Tokenizer, temperature: float, seed: int) -> None:
    params = SamplingParams(temperature=temperature, grammar=JSON, seed=seed)
    assert isinstance(json.loads(answer(starter_tokenizer, params, seed)), dict)


@pytest.mark.parametrize("seed", range(3))
def test_json_parses_byte_by_byte(byte_tokenizer: Tokenizer, seed: int) -> None:
    """Characters of several bytes are followed through their tokens."""
    params = SamplingParams(temperature=1.0, top_k=0, grammar=JSON, seed=seed)
    assert isinstance(json.loads(answer(byte_tokenizer, params, seed)), dict)


def test_a_fixed_text(starter_tokenizer: Tokenizer) -> None:
    params = SamplingParams(temperature=0.0, grammar='root ::= "漢字 🙂!"')
    assert answer(starter_tokenizer, params, seed=0) == "漢字 🙂!"


def test_a_choice_follows_the_logits(starter_tokenizer: Tokenizer) -> None:
    yes, no = starter_tokenizer.encode("yes"), starter_tokenizer.encode("no")
    sampler = Sampler(SamplingParams(temperature=0.0, grammar='root ::= "yes" | "no"'), starter_tokenizer)
    logits = np.zeros(starter_tokenizer.n_vocab, np.float32)
    logits[5], logits[no[0]], logits[yes[0]] = 10.0, 3.0, 2.0  # the best token is not allowed
    assert sampler.sample(logits) == no[0]


def test_with_penalties_and_cut_off_stages(starter_tokenizer: Tokenizer) -> None:
    params = SamplingParams(grammar="root ::= [a-z]{20}", top_k=3, top_p=0.1, repetition_penalty=1.5, seed=3)
    assert re.fullmatch("[a-z]{20}", answer(starter_tokenizer, params, seed=1))


@pytest.mark.parametrize(
    "grammar",
    [
        "  # only a comment",
        "root = [a-z]",
        'root ::= "a',
        "root ::= [a-z",
        "root ::= undefined",
        'start ::= "a"',  # no root
        'root ::= root "a" | "b"',  # left recursion
        'root ::= "a"\0',
        "root ::= " + "(" * 5000 + '"a"' + ")" * 5000,
        "\n".join(f'r{i} ::= r{i + 1} "a"' for i in range(20_000)) + '\nroot ::= r0\nr20000 ::= "b"',
        "}{",
        "{}",
    ],
)
def test_unusable_grammars_are_refused(starter_tokenizer: Tokenizer, grammar: str) -> None:
    with pytest.raises(GrammarError, match="grammar cannot be used") as caught:
        Sampler(SamplingParams(grammar=grammar), starter_tokenizer)
    assert caught.value.done


SLOW = "root ::= a b\n" + "".join(f"{name} ::= " + " ".join(['("a" | "b")?'] * 40) + "\n" for name in "ab")


def test_a_grammar_that_takes_too_long_ends_its_answer_and_nothing_else(
    starter_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """llama.cpp cannot be interrupted while it follows parts that begin alike: its process is killed."""
    logits = np.zeros(starter_tokenizer.n_vocab, np.float32)
    logits[starter_tokenizer.encode("z", add_special=False)] = 1.0  # not allowed: all others are looked at
    monkeypatch.setattr(grammar, "MAX_STEP_SECONDS", 1.0)
    sampler = Sampler(SamplingParams(temperature=0.0, grammar=SLOW), starter_tokenizer)
    with pytest.raises(GrammarError, match="too long") as caught:
        for _ in range(20):
            sampler.sample(logits)
    assert "begin alike" in caught.value.remedy
    monkeypatch.undo()
    del sampler
    after = Sampler(SamplingParams(temperature=0.0, grammar='root ::= "yes"'), starter_tokenizer)
    assert starter_tokenizer.decode([after.sample(logits)]) in "yes"


def test_a_process_that_others_end_is_no_fault_of_the_grammar(starter_tokenizer: Tokenizer) -> None:
    sampler = Sampler(SamplingParams(temperature=0.0, grammar="root ::= [a-z]{20}"), starter_tokenizer)
    logits = np.zeros(starter_tokenizer.n_vocab, np.float32)
    sampler.sample(logits)
    assert sampler._grammar is not None
    process = sampler._grammar._worker.start()
    process.kill()
    process.wait()
    for _ in range(2):  # nor does a new one follow it from the middle
        with pytest.raises(GrammarError, match="process that follows the grammar has ended") as caught:
            sampler.sample(logits)
        assert "too long" not in str(caught.value) and caught.value.done and caught.value.remedy
    del sampler
    assert answer(starter_tokenizer, SamplingParams(temperature=0.0, grammar='root ::= "yes"'), 0) == "yes"


def test_without_the_models_file_a_grammar_is_not_blamed(tmp_path: Path) -> None:
    grammar.end_idle()
    path = bpe_vocabulary().write(tmp_path / "gone.gguf")
    tokenizer = Tokenizer.load(path, check=False)
    path.unlink()
    with pytest.raises(GrammarError, match="process that follows the grammar has ended") as caught:
        grammar.Grammar('root ::= "a"', tokenizer)
    assert "file is still there" in caught.value.remedy


def test_the_process_is_kept_for_the_next_answer_and_ended_with_the_model(starter_tokenizer: Tokenizer) -> None:
    gc.collect()  # what earlier tests left behind gives its processes back now, not in between
    grammar.end_idle()
    first = grammar.Grammar('root ::= "a"', starter_tokenizer)
    process = first._worker.start()
    del first
    second = grammar.Grammar('root ::= "b"', starter_tokenizer)
    assert second._worker.start() is process
    other = grammar.Grammar('root ::= "c"', starter_tokenizer)  # two answers at once
    assert other._worker.start() is not process
    (b,), (c,) = (starter_tokenizer.encode(letter, add_special=False) for letter in "bc")
    assert (second.take(b), second.allows(c), other.allows(c)) == (True, False, True)
    del second, other
    grammar.end_idle()
    assert process.poll() is not None


def test_an_empty_schema_ends(starter_tokenizer: Tokenizer) -> None:
    """After a whole value there is nothing but a little space and the end, whatever the model would like."""
    sampler = Sampler(SamplingParams(temperature=0.0, grammar=grammar_of("{}")), starter_tokenizer)
    logits = np.zeros(starter_tokenizer.n_vocab, np.float32)
    for token in starter_tokenizer.encode('{"a": 1}', add_special=False):
        assert sampler._grammar is not None and sampler._grammar.take(token)
    newline = starter_tokenizer.encode("\n", add_special=False)[0]
    logits[newline] = 10.0
    assert any(starter_tokenizer.is_stop(sampler.sample(logits)) for _ in range(40))


def test_a_grammar_without_way_out(load: Callable[[GGUFBuilder], Tokenizer]) -> None:
    """A vocabulary that cannot spell what is asked for, and has no token to end with: an error, no free text."""
    builder = GGUFBuilder("llama").add("tokenizer.ggml.model", "gpt2").add("tokenizer.ggml.pre", "gpt-2")
    builder.add("tokenizer.ggml.tokens", [byte_characters()[ord(c)] for c in "abcd"])
    builder.add("tokenizer.ggml.merges", ["a b"])
    tokenizer = load(builder)
    assert not any(map(tokenizer.is_stop, range(tokenizer.n_vocab)))
    sampler = Sampler(SamplingParams(temperature=0.0, grammar='root ::= "ax"'), tokenizer)
    logits = np.zeros(4, np.float32)
    assert tokenizer.decode([sampler.sample(logits)]) == "a"
    with pytest.raises(GrammarError, match="no further token"):
        sampler.sample(logits)
