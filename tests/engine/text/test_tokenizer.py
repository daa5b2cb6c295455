from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EngineError, FileError, FormatError, UnsupportedError
from engine.text.tokenizer import Tokenizer
from tests.support.gguf_writer import GGUFBuilder
from tests.support.vocabularies import (
    CONTROL,
    FIRST_BYTE,
    FIRST_WORD,
    NORMAL,
    SPM_WORDS,
    USER_DEFINED,
    bpe_vocabulary,
    spm_vocabulary,
)

Load = Callable[[GGUFBuilder], Tokenizer]

BOS = 1
HELLO = FIRST_WORD + SPM_WORDS.index("▁Hello")
WORLD = FIRST_WORD + SPM_WORDS.index("▁world")
BANG = FIRST_WORD + SPM_WORDS.index("!")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello world", [19556, 905]),
        ("Hello  world", [19556, 216, 905]),
        ("In 2024 there were 1,234 items.", [788, 216, 34, 32, 34, 36, 665, 592, 216, 33, 28, 34, 35, 36, 3723, 30]),
        ("a    b\t\tc\n\n\nd", [81, 333, 278, 197, 197, 83, 1116, 198, 84]),
        ("漢字🙂", [177, 137, 112, 36518, 10813, 38887]),
        ("<|im_start|>user\n", [1, 4093, 198]),
        ("", []),
    ],
)
def test_golden_ids(starter_tokenizer: Tokenizer, text: str, ids: list[int]) -> None:
    """Digits are split one by one, runs of spaces kept, special tokens parsed."""
    assert starter_tokenizer.encode(text) == ids
    assert starter_tokenizer.decode(ids, special=True) == text


def test_special_text_may_be_plain_text(starter_tokenizer: Tokenizer) -> None:
    ids = starter_tokenizer.encode("<|im_start|>", parse_special=False)
    assert 1 not in ids
    assert starter_tokenizer.decode(ids) == "<|im_start|>"


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_round_trip(byte_tokenizer: Tokenizer, text: str) -> None:
    ids = byte_tokenizer.encode(text, parse_special=False)
    assert byte_tokenizer.decode(ids) == text


@pytest.mark.parametrize(
    ("build", "keys", "expected"),
    [
        (spm_vocabulary, {}, [BOS, HELLO, WORLD]),  # SentencePiece: BOS unless the file says no
        (spm_vocabulary, {"add_bos_token": True}, [BOS, HELLO, WORLD]),
        (spm_vocabulary, {"add_bos_token": False}, [HELLO, WORLD]),
        (spm_vocabulary, {"add_bos_token": True, "add_eos_token": True}, [BOS, HELLO, WORLD, 2]),
    ],
)
def test_bos_and_eos_as_the_file_says(load: Load, build: Any, keys: dict[str, bool], expected: list[int]) -> None:
    tokenizer = load(build(**keys))
    assert tokenizer.encode("Hello world") == expected
    assert tokenizer.encode("Hello world", add_special=False) == [HELLO, WORLD]
    assert tokenizer.add_bos is (expected[0] == BOS)


@pytest.mark.parametrize(("flag", "adds"), [(None, False), (True, True), (False, False)])
def test_bos_of_bpe(load: Load, flag: bool | None, adds: bool) -> None:
    keys = {} if flag is None else {"add_bos_token": flag}
    tokenizer = load(bpe_vocabulary(bos_token_id=259, eos_token_id=259, **keys))
    assert tokenizer.add_bos is adds
    assert tokenizer.encode("hell") == ([259, 258] if adds else [258])


@pytest.mark.parametrize("add_bos", [True, False])
def test_bos_is_never_doubled(load: Load, add_bos: bool) -> None:
    """A template that writes BOS itself: exactly one, and the template's own where the file asks for none."""
    tokenizer = load(spm_vocabulary(add_bos_token=add_bos, add_eos_token=True))
    assert tokenizer.encode_prompt("<s>Hello world").count(BOS) == 1
    assert tokenizer.encode("<s>Hello world").count(BOS) == 1
    prompt = tokenizer.encode_prompt("Hello world")
    assert prompt == ([BOS] if add_bos else []) + [HELLO, WORLD]  # and no EOS that would end the turn


def test_missing_bos_is_not_added(load: Load) -> None:
    """llama.cpp would abort the process here."""
    extra = [("<|a|>", CONTROL)]
    builder = bpe_vocabulary(extra, pre="gpt-2", add_bos_token=True, add_eos_token=True)
    builder.pairs = [pair for pair in builder.pairs if pair.key != b"tokenizer.ggml.merges"]
    builder.pairs = [pair for pair in builder.pairs if b"ggml.tokens" not in pair.key and b"token_type" not in pair.key]
    builder.add("tokenizer.ggml.tokens", ["h", "e", "he"]).add("tokenizer.ggml.merges", ["h e"])
    tokenizer = load(builder)
    assert tokenizer.bos_id is None
    assert not tokenizer.add_bos
    assert tokenizer.encode("he") == [2]


def stop_ids(tokenizer: Tokenizer) -> set[int]:
    return set(filter(tokenizer.is_stop, range(tokenizer.n_vocab)))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"eos_token_id": 0}, {0}),
        ({"eos_token_id": 259}, {259}),
        ({"eos_token_id": 259, "eot_token_id": 260}, {259, 260}),
        ({"eos_token_id": 0, "eot_token_id": 260, "eom_token_id": 261}, {0, 260, 261}),
    ],
)
def test_stop_set(load: Load, keys: dict[str, int], expected: set[int]) -> None:
    extra = [("<a>", CONTROL), ("<b>", CONTROL), ("<c>", CONTROL)]
    assert stop_ids(load(bpe_vocabulary(extra, **keys))) == expected


def test_stop_set_includes_end_of_turn_by_its_spelling(load: Load, starter_tokenizer: Tokenizer) -> None:
    extra = [("<end_of_turn>", CONTROL), ("<|eot_id|>", NORMAL)]
    assert stop_ids(load(spm_vocabulary(extra))) == {2, FIRST_WORD + len(SPM_WORDS), FIRST_WORD + len(SPM_WORDS) + 1}
    assert starter_tokenizer.is_stop(0)
    assert starter_tokenizer.is_stop(2)


@pytest.mark.parametrize(
    ("pre", "warns"), [(None, True), ("default", True), ("llama-bpe", False), ("deepseek-r1-qwen", False)]
)
def test_known_pre_tokenizers(load: Load, pre: str | None, warns: bool) -> None:
    tokenizer = load(bpe_vocabulary(pre=pre))
    assert bool(tokenizer.warnings) is warns
    assert all("tokenizer.ggml.pre" in warning for warning in tokenizer.warnings)


def test_unknown_pre_tokenizer_is_named(load: Load) -> None:
    with pytest.raises(UnsupportedError, match=r'vocabulary\.gguf: tokenizer\.ggml\.pre is "from-the-future"'):
        load(bpe_vocabulary(pre="from-the-future"))


def test_pieces(load: Load) -> None:
    extra = [("<|END_RESPONSE|>", CONTROL), ("<think>", USER_DEFINED)]
    tokenizer = load(spm_vocabulary(extra))
    control, think = FIRST_WORD + len(SPM_WORDS), FIRST_WORD + len(SPM_WORDS) + 1
    assert tokenizer.piece(control) == b""
    assert tokenizer.piece(control, special=True) == b"<|END_RESPONSE|>"
    assert tokenizer.piece(think) == b"<think>"
    assert tokenizer.piece(HELLO) == b" Hello"
    assert tokenizer.piece(FIRST_BYTE + 0xF0) == b"\xf0"
    assert tokenizer.id_of("<think>") == think
    assert tokenizer.id_of("<|im_end|>") is None


def test_marks_between_the_parts_of_an_answer_are_text(load: Load) -> None:
    marks = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>", "<|untold|>"]
    tokenizer = load(bpe_vocabulary([(mark, CONTROL) for mark in marks]))
    ids = {mark: tokenizer.id_of(mark) for mark in marks}
    assert all(tokenizer.piece(ids[mark]) == mark.encode() for mark in marks[:4])
    assert all(tokenizer.piece(ids[mark]) == b"" for mark in marks[4:])
    assert not tokenizer.is_stop(ids["<|end|>"])  # an answer goes on in its next channel
    assert tokenizer.is_stop(ids["<|return|>"]) and tokenizer.is_stop(ids["<|call|>"])


# By family: tokens that end an answer, by their text or by a key of the file's, and tokens of its turns that do not.
STOPS: dict[str, tuple[dict[str, str], list[str]]] = {
    "deepseek2": ({"eos": "<｜end▁of▁sentence｜>"}, ["<｜User｜>", "<｜Assistant｜>"]),
    "deepseek2, Kimi": ({"eos": "[EOS]", "eot": "<|im_end|>"}, ["<|im_user|>", "<|im_middle|>"]),
    "gpt-oss": ({"eos": "<|return|>", "eom": "<|call|>"}, ["<|start|>", "<|message|>", "<|end|>"]),
    "gemma3": ({"eos": "<eos>", "eot": "<end_of_turn>"}, ["<start_of_turn>"]),
    "glm4moe": ({"eos": "<|endoftext|>", "eot": "<|user|>", "eom": "<|observation|>"}, ["<|assistant|>"]),
    "qwen3next": ({"eos": "<|im_end|>"}, ["<|im_start|>"]),
    "llama4": ({"eos": "<|eot|>", "eom": "<|eom|>"}, ["<|header_start|>", "<|header_end|>"]),
    "phi3": ({"eos": "<|endoftext|>", "eot": "<|end|>"}, ["<|user|>", "<|assistant|>"]),
    "granite": ({"eos": "<|end_of_text|>"}, ["<|start_of_role|>", "<|end_of_role|>"]),
    "minimax-m2": ({"eos": "[e~["}, ["]~b]", "]!p~["]),
    "mistral3": ({"eos": "</s>"}, ["[INST]", "[/INST]"]),
}


@pytest.mark.parametrize("family", STOPS)
def test_stops_of_families(load: Load, family: str) -> None:
    stops, others = STOPS[family]
    ids = {f"{key}_token_id": 259 + index for index, key in enumerate(stops)}  # behind bytes and words
    names = [*stops.values(), *others]
    tokenizer = load(bpe_vocabulary([(name, CONTROL) for name in names], **ids))
    assert [name for name in names if tokenizer.is_stop(tokenizer.id_of(name))] == list(stops.values())


@pytest.mark.parametrize("token", [-1, 2**31 - 1])
def test_ids_outside_the_vocabulary(small_tokenizer: Tokenizer, token: int) -> None:
    with pytest.raises(IndexError):
        small_tokenizer.piece(token)
    with pytest.raises(IndexError):
        small_tokenizer.text(token)


def test_lone_surrogates_are_replaced(byte_tokenizer: Tokenizer) -> None:
    assert byte_tokenizer.decode(byte_tokenizer.encode("a\ud800b")) == "a?b"


@pytest.mark.parametrize("folder", ["山田　太郎", "é 🙂", b"\xff\xfe".decode("utf-8", "surrogateescape"), "x" * 200])
def test_any_path(tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "m.gguf"
    path.parent.mkdir()
    assert Tokenizer.load(spm_vocabulary().write(path), check=False).encode("Hello") == [BOS, HELLO]


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        Tokenizer.load(tmp_path / "none.gguf")
    (tmp_path / "text.gguf").write_text("not a model " * 100)
    with pytest.raises(FormatError, match=r"text\.gguf"):
        Tokenizer.load(tmp_path / "text.gguf")


def test_file_without_vocabulary(load: Load) -> None:
    with pytest.raises(EngineError, match=r"vocabulary\.gguf"):
        load(GGUFBuilder("llama").add("tokenizer.ggml.model", "no_vocab"))


def test_metadata(load: Load) -> None:
    tokenizer = load(spm_vocabulary().add("tokenizer.chat_template", "x" * 5000))
    assert tokenizer.metadata("tokenizer.chat_template") == "x" * 5000
    assert tokenizer.metadata("no.such.key") is None


def test_nothing_is_printed(load: Load, capfd: pytest.CaptureFixture[str]) -> None:
    load(bpe_vocabulary(pre=None))
    assert capfd.readouterr() == ("", "")
