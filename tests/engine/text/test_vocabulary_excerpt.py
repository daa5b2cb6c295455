"""A tokenizer that has read but a part of its vocabulary answers as one that has read all of it."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.errors import FormatError
from engine.gguf import GGUFFile
from engine.text import vocabulary_excerpt
from engine.text.early_tokenizer import EarlyTokenizer
from engine.text.llama_library import llama
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import SOUGHT, load_vocabulary
from engine.text.vocabulary_excerpt import PRE_TOKENIZERS, VocabularyExcerpts
from tests.support.gguf_writer import GGUFBuilder, ValueType
from tests.support.vocabularies import CONTROL, NORMAL, UNUSED, USER_DEFINED, byte_characters

TEXTS = (
    "",
    "Hello",
    " Hello,  wörld!\n\n\t\tif (x >= 12345) { y = '漢字 🙂'; }  # don't, WON'T \r\n ",
    "<|im_start|>user\nWhat is <|endoftext|> ?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|><|im_start|> <|im_end|>x<think> </think><unk> [PAD] <s></s>",
    "\0 \x7f\x80\ufffd\ud800 e\u0301 \u202e \u00a0\u3000 \U0010ffff",
    "0123456789" * 20,
    "    " * 40 + "\n" * 30 + "=" * 100,
)
FLAGS = [(add, parse) for add in (True, False) for parse in (True, False)]


@dataclass
class Both:
    """One file, read as a whole, and to be read in parts."""

    path: Path
    whole: Tokenizer
    excerpts: VocabularyExcerpts

    def early(self, whole: Future[Any] | None = None) -> EarlyTokenizer:
        first = self.excerpts.excerpt("")
        assert first is not None
        return EarlyTokenizer(self.excerpts, first, whole or Future(), self.path)

    def assert_same_ids(self, text: str) -> None:
        excerpt = self.excerpts.excerpt(text)
        assert excerpt is not None
        for add, parse in FLAGS:
            ids = self.whole.encode(text, add_special=add, parse_special=parse)
            assert excerpt.encode(text, add_special=add, parse_special=parse) == ids, (text, add, parse)


def both(path: Path) -> Both:
    with GGUFFile.open(path) as gguf:
        excerpts = VocabularyExcerpts.of(gguf.metadata)
        assert excerpts is not None
        return Both(path, Tokenizer(load_vocabulary(path), path), excerpts)


@pytest.fixture(scope="module")
def starter(starter_model: Path) -> Both:
    return both(starter_model)


# --- a vocabulary learnt from the starter's, with other tokens that are not ordinary, and other keys ------------


def learnt_vocabulary(starter_model: Path, pre: str, extra: list[tuple[str, int]], **keys: Any) -> GGUFBuilder:
    """The starter's first 12,000 tokens and merges among them, and `extra` as (text, type)."""
    with GGUFFile.open(starter_model) as gguf:
        metadata = gguf.metadata
        tokens = metadata.string_array("tokenizer.ggml.tokens")[:12_000]
        types = metadata.i32_array("tokenizer.ggml.token_type")[:12_000].tolist()
        known = set(tokens)
        merges = [pair for pair in metadata.string_array("tokenizer.ggml.merges") if pair.replace(" ", "") in known]
    builder = GGUFBuilder("llama")
    builder.add("tokenizer.ggml.model", "gpt2")
    builder.add("tokenizer.ggml.pre", pre)
    kinds = {**dict(zip(tokens, types, strict=True)), **dict(extra)}
    builder.add("tokenizer.ggml.tokens", list(kinds))
    builder.add("tokenizer.ggml.token_type", list(kinds.values()), ValueType.ARRAY, item_type=ValueType.I32)
    builder.add("tokenizer.ggml.merges", merges)
    for key, value in keys.items():
        builder.add(f"tokenizer.ggml.{key}", value)
    return builder


EXTRA = [
    ("<|eot_id|>", CONTROL),
    ("<|tool|>", USER_DEFINED),
    ("aa", USER_DEFINED),
    ("<think>", NORMAL),
    ("漢字", USER_DEFINED),
    ("unused", UNUSED),
    ("  ", USER_DEFINED),
    ("ab", CONTROL),
]
KEYS: list[dict[str, Any]] = [
    {},  # BOS and EOS are the token 11 then
    {"bos_token_id": 12_000, "eos_token_id": 12_001, "add_bos_token": True},
    {"bos_token_id": 1, "eos_token_id": 2, "add_bos_token": True, "add_eos_token": True, "unknown_token_id": 0},
    {"bos_token_id": 999_999, "eos_token_id": 500, "padding_token_id": 700_000, "eot_token_id": 5_000},
]


@pytest.mark.parametrize("pre", sorted(PRE_TOKENIZERS))
def test_every_pre_tokenizer(starter_model: Path, tmp_path: Path, pre: str) -> None:
    keys = KEYS[sorted(PRE_TOKENIZERS).index(pre) % len(KEYS)]
    pair = both(learnt_vocabulary(starter_model, pre, EXTRA, **keys).write(tmp_path / "learnt.gguf"))
    for text in (*TEXTS, *(text for text, _ in EXTRA), "aab aaa ab", *texts(pair.whole, random.Random(pre), 12)):
        pair.assert_same_ids(text)


@pytest.mark.parametrize("keys", KEYS)
def test_every_token_and_key(starter_model: Path, tmp_path: Path, keys: dict[str, Any]) -> None:
    assert_same_facts(both(learnt_vocabulary(starter_model, "qwen2", EXTRA, **keys).write(tmp_path / "learnt.gguf")))


def test_every_token_of_the_starter_model(starter: Both) -> None:
    assert_same_facts(starter)


def assert_same_facts(pair: Both) -> None:
    whole, early, lib = pair.whole, pair.early(), llama()
    assert [early.text(token) for token in range(whole.n_vocab)] == [whole.text(t) for t in range(whole.n_vocab)]
    plain = [token for token in range(whole.n_vocab) if pair.excerpts.is_plain(token)]
    others = set(range(whole.n_vocab)) - set(plain)
    assert len(others) < 40 and not any(whole.text(token) in byte_characters() for token in others - {11})
    assert [early.piece(token) for token in plain] == [whole.piece(token) for token in plain]
    assert not any(map(early.is_stop, plain)) and not any(map(whole.is_stop, plain))
    for name in ("n_vocab", "bos_id", "eos_id", "add_bos", "suppressed_ids", "warnings"):
        assert getattr(early, name) == getattr(whole, name), name
    for key in ("tokenizer.chat_template", "tokenizer.ggml.pre", "general.architecture", "no.such.key"):
        assert early.metadata(key) == whole.metadata(key)
    assert early.id_of("<|tool|>") == whole.id_of("<|tool|>")
    assert lib.llama_vocab_get_add_eos(early._first.tokenizer.vocab) == lib.llama_vocab_get_add_eos(whole.vocab)


def texts(tokenizer: Tokenizer, chance: random.Random, count: int) -> Iterator[str]:
    """Tokens of the vocabulary, whole or cut, among characters of every kind."""
    marks = [mark for sought in SOUGHT.values() for mark in sought]

    def part() -> str:
        kind = chance.random()
        if kind < 0.6:
            word = tokenizer.decode([chance.randrange(tokenizer.n_vocab)], special=True)
            return word[chance.randrange(2) :]
        if kind < 0.65:
            return chance.choice(marks)
        if kind < 0.75:
            return chance.choice("\t\n \r\u00a0'=-") * chance.randrange(1, 12)
        if kind < 0.85:
            return str(chance.randrange(10**9))
        ranges = ((32, 127), (0xA0, 0x3000), (0x4E00, 0x9FFF), (0x1F300, 0x1F700), (0, sys.maxunicode))
        return chr(chance.randrange(*chance.choice(ranges)))

    for _ in range(count):
        yield "".join(part() for _ in range(chance.randrange(1, 30)))


@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_every_kind(starter: Both, text: str) -> None:
    starter.assert_same_ids(text)
    early = starter.early()
    assert early.encode(text) == starter.whole.encode(text)
    assert early.encode_prompt(text) == starter.whole.encode_prompt(text)


def test_random_texts(starter: Both) -> None:
    for text in texts(starter.whole, random.Random(3), 150):
        starter.assert_same_ids(text)


def test_every_token_as_a_text(starter: Both) -> None:
    """Twenty at a time."""
    for begin in range(0, starter.whole.n_vocab, 500):
        starter.assert_same_ids(starter.whole.decode(list(range(begin, begin + 20)), special=True))


# --- until the whole is there, and from then on ---------------------------------------------------------------


def test_what_only_the_whole_knows_is_waited_for(starter: Both) -> None:
    done: Future[Any] = Future()
    done.set_result(load_vocabulary(starter.path))

    @contextmanager
    def waiting(early: EarlyTokenizer) -> Iterator[None]:
        assert early._excerpts is not None
        yield
        assert early._excerpts is None  # it has waited

    class Late(Future[Any]):
        """Not there until it is waited for."""

        def result(self, timeout: float | None = None) -> Any:
            if not self.done():
                self.set_result(load_vocabulary(starter.path))
            return super().result(timeout)

    end = starter.whole.eos_id
    assert end is not None
    long = "word " * 1000
    asked: list[Callable[[Tokenizer], Any]] = [
        lambda tokenizer: tokenizer.is_stop(end),
        lambda tokenizer: tokenizer.piece(end),
        lambda tokenizer: tokenizer.metadata("tokenizer.ggml.eos_token_id"),
        lambda tokenizer: tokenizer.encode(long),
    ]
    for ask in asked:
        early = starter.early(Late())
        with waiting(early):
            assert ask(early) == ask(starter.whole)
    early = starter.early(done)
    with waiting(early):
        assert early.encode("Hello") == starter.whole.encode("Hello")
    assert early.bos_id == starter.whole.bos_id and early.text(300) == starter.whole.text(300)


def test_what_cannot_be_read_is_told_when_it_is_needed(starter: Both) -> None:
    failed: Future[Any] = Future()
    early = starter.early(failed)
    assert early.encode("Hello") == starter.whole.encode("Hello")
    failed.set_exception(FormatError("The vocabulary cannot be read."))
    for _ in range(2):
        with pytest.raises(FormatError, match="cannot be read"):
            early.encode("Hello")
        with pytest.raises(FormatError, match="cannot be read"):
            early.is_stop(300)


@pytest.mark.parametrize("is_used", [True, False])
def test_the_vocabulary_is_freed_once(starter: Both, monkeypatch: pytest.MonkeyPatch, is_used: bool) -> None:
    library, freed = llama(), list[Any]()
    original = library.llama_model_free
    whole: Future[Any] = Future()
    early = starter.early(whole)
    model = load_vocabulary(starter.path)

    def free(pointer: Any) -> None:
        freed.append(pointer)
        original(pointer)

    monkeypatch.setattr(library, "llama_model_free", free)
    if is_used:
        whole.set_result(model)
        early.encode("Hello")
        del early
    else:
        del early
        assert model not in freed
        whole.set_result(model)
    assert freed.count(model) == 1


def test_ids_outside(starter: Both) -> None:
    early = starter.early()
    for ask in (early.is_stop, early.piece, early.text):
        for token in (-1, early.n_vocab):
            with pytest.raises(IndexError):
                ask(token)


# --- where an excerpt would not do ------------------------------------------------------------------------------


def test_an_excerpt_that_cannot_be_read(starter: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    whole: Future[Any] = Future()
    early = starter.early(whole)
    monkeypatch.setattr(vocabulary_excerpt, "load_header", lambda header: None)
    monkeypatch.setattr(whole, "done", lambda: False)
    whole.set_result(load_vocabulary(starter.path))
    assert early.encode("Hello") == starter.whole.encode("Hello")


MANY = [(f"<|{number}|>", CONTROL) for number in range(2000)]


@pytest.mark.parametrize(
    ("pre", "extra", "keys"),
    [
        ("no-such", [], {}),
        ("gpt-2", MANY, {}),
        ("gpt-2", [("", NORMAL)], {}),
        ("gpt-2", [("<|im_end|>", NORMAL)], {}),
        ("gpt-2", [], {"suppress_tokens": [5]}),
        ("gpt-2", [], {"eot_token_id": "5"}),
        ("gpt-2", [], {"eot_token_id": -1}),
    ],
)
def test_vocabularies_that_are_read_as_a_whole(
    starter_model: Path, tmp_path: Path, pre: str, extra: list[tuple[str, int]], keys: dict[str, Any]
) -> None:
    path = learnt_vocabulary(starter_model, pre, extra, **keys).write(tmp_path / "learnt.gguf")
    with GGUFFile.open(path) as gguf:
        assert VocabularyExcerpts.of(gguf.metadata) is None


def test_other_versions_are_read_as_a_whole(starter_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with GGUFFile.open(starter_model) as gguf:
        for name, answer in (("is_table_version", False), ("gguf_functions", None)):
            with monkeypatch.context() as patch:
                patch.setattr(vocabulary_excerpt, name, lambda answer=answer: answer)
                assert VocabularyExcerpts.of(gguf.metadata) is None


def test_the_table_of_bytes() -> None:
    assert byte_characters() == vocabulary_excerpt._SPELT
