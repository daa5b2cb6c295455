"""What a load spares llama.cpp changes nothing of the vocabulary that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.errors import FormatError
from engine.gguf import GGUFFile
from engine.text import vocabulary
from engine.text.llama_library import llama
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import load_vocabulary, vocabulary_loader
from tests.support.gguf_writer import GGUFBuilder
from tests.support.vocabularies import CONTROL, NORMAL, USER_DEFINED, bpe_vocabulary, spm_vocabulary

MARKS = [mark for marks in vocabulary.SOUGHT.values() for mark in marks]
ENDING = 259  # the id of the first extra token
TEXT = "hello <|im_end|><PRE> ▁<SUF><EOT> wörld\n[PAD]<|fim_repo|> </s>"


def assert_same(path: Path) -> None:
    """Every token is the same as where llama.cpp reads the file and searches it by itself."""
    with GGUFFile.open(path) as gguf:
        ours, own = Tokenizer(vocabulary_loader(gguf.metadata)(), path), Tokenizer(load_vocabulary(path), path)
    assert facts(ours) == facts(own)
    assert [ours.piece(token) for token in range(ours.n_vocab)] == [own.piece(token) for token in range(own.n_vocab)]
    for special in (True, False):
        assert ours.encode(TEXT, parse_special=special) == own.encode(TEXT, parse_special=special)


def facts(tokenizer: Tokenizer) -> Sequence[Any]:
    lib, vocab = llama(), tokenizer.vocab
    of_tokens = (
        (tokenizer.text(token), lib.llama_vocab_get_attr(vocab, token), tokenizer.is_stop(token))
        for token in range(tokenizer.n_vocab)
    )
    return [*of_tokens, tokenizer.bos_id, tokenizer.eos_id, tokenizer.add_bos, lib.llama_vocab_nl(vocab)]


def with_marks(marks: Sequence[str], kind: int, **keys: Any) -> GGUFBuilder:
    extra = [("<|the end|>", CONTROL), *((mark, kind) for mark in marks)]
    return bpe_vocabulary(extra, eos_token_id=ENDING, **keys)


@pytest.mark.parametrize("kind", [CONTROL, USER_DEFINED, NORMAL])
@pytest.mark.parametrize("mark", MARKS)
def test_a_vocabulary_with_one_mark(tmp_path: Path, mark: str, kind: int) -> None:
    assert_same(with_marks([mark], kind).write(tmp_path / "marks.gguf"))


@pytest.mark.parametrize("kind", [CONTROL, USER_DEFINED, NORMAL])
def test_a_vocabulary_with_all_marks_and_one_without(tmp_path: Path, kind: int) -> None:
    """Of several texts for the same, llama.cpp takes the first that it meets; all of them are left to it."""
    assert_same(with_marks(MARKS, kind).write(tmp_path / "all.gguf"))
    assert_same(with_marks([], kind).write(tmp_path / "none.gguf"))


@pytest.mark.parametrize(
    "builder",
    [
        spm_vocabulary(),
        spm_vocabulary([("<|im_end|>", CONTROL), ("▁<PRE>", NORMAL)], eos_token_id=2),
        with_marks(["<|eot_id|>", "<|fim_pad|>"], CONTROL, eot_token_id=3, fim_pad_token_id=5),
        with_marks(["<|end|>", "<|return|>", "<|call|>"], CONTROL),
        bpe_vocabulary([("<|end|>", CONTROL)], eos_token_id=10_000),  # outside, so llama.cpp takes another
        bpe_vocabulary([("", NORMAL), ("<|im_end|>", CONTROL)]),
    ],
)
def test_unusual_vocabularies(tmp_path: Path, builder: GGUFBuilder) -> None:
    assert_same(builder.write(tmp_path / "unusual.gguf"))


def test_the_starter_model(starter_model: Path) -> None:
    assert_same(starter_model)


def test_another_version_searches_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "library_version", lambda: "0.0.0")
    monkeypatch.setattr(vocabulary, "_found_already", lambda metadata: pytest.fail("the table is of another version"))
    assert_same(with_marks(["<EOT>"], CONTROL).write(tmp_path / "marks.gguf"))


def test_a_library_that_cannot_read_from_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "gguf_functions", lambda: None)
    assert_same(with_marks(["<EOT>"], CONTROL).write(tmp_path / "marks.gguf"))


def test_a_broken_vocabulary_is_told_by_its_reason(tmp_path: Path) -> None:
    path = GGUFBuilder("llama").add("tokenizer.ggml.model", "gpt2").write(tmp_path / "broken.gguf")
    with GGUFFile.open(path) as gguf, pytest.raises(FormatError, match="merges"):
        vocabulary_loader(gguf.metadata)()
