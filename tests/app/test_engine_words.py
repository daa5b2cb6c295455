"""What the engine says is said in the owner's language; no text of its source is missed."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from PySide6.QtWidgets import QApplication

from app.assets import TRANSLATIONS
from app.engine_words import EngineWords
from app.help.doctor_page import name_words
from app.problems import Problem
from app.translation import engine_text, engine_translation_file, install_language, read_translations, sentences
from engine.errors import ContextOverflowError, EngineError
from engine.telemetry.doctor import _PACKAGES, run_checks
from tests.support.engine_texts import engine_texts

LANGUAGES = sorted(path.stem.removeprefix("engine_") for path in TRANSLATIONS.glob("engine_*.ts"))
HAN = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(scope="module")
def chinese() -> EngineWords:
    return EngineWords(read_translations(engine_translation_file("zh_CN")))


def filled(template: str) -> str:
    """With values as the engine puts them in."""
    for value in ("qwen3.gguf", "12.5", "7", "4,096", "blk.0", "F32", "8", "9"):
        template = template.replace("{}", value, 1)
    return template


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def test_the_languages_are_those_of_the_window():
    assert sorted(path.stem.removeprefix("tessera_") for path in TRANSLATIONS.glob("tessera_*.ts")) == LANGUAGES


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_of_the_engine_has_a_translation_with_its_values(language):
    words = read_translations(engine_translation_file(language))
    assert sorted(set(engine_texts()) - set(words)) == []
    assert sorted(set(words) - set(engine_texts())) == []
    for source, translation in words.items():
        if "{}" in translation:  # in the order of the source
            assert translation.count("{}") == source.count("{}"), source
            continue
        expected = {str(number) for number in range(source.count("{}"))}
        assert set(re.findall(r"\{(\d)\}", translation)) == expected, source


def test_a_collector_that_finds_nothing_would_be_noticed():
    texts = engine_texts()
    assert len(texts) > 400
    known = {"The prompt is empty.", "{} is cut short: {} ends at byte {}, the file has {}.", "rope factors"}
    assert known <= set(texts)


def test_every_text_is_recognised_with_values_in_it(chinese):
    for template in engine_texts():
        told = chinese.translated(filled(template))
        assert told is not None, template
        assert letters(told) == letters(filled(template)) or HAN.search(told), template  # names and commands stay
        for value in ("qwen3.gguf", "12.5", "blk.0"):
            assert (value in told) == (value in filled(template)), template


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "llama.gguf is cut short: the magic number ends at byte 4, the file has 2.",
            "llama.gguf 不完整：魔数止于字节 4，文件只有 2。",
        ),
        (
            "The chat template failed at line 3: it needs too much memory. ChatML is used instead.",
            "对话模板出错（第 3 行）：需要的内存太多。改用 ChatML。",
        ),
        (
            "The number of threads is 5000; from 1 to 1024 are possible.",
            "线程数为 5000；可为 1 到 1024。",
        ),
        (
            "A context of 9000 tokens needs 3.0 GiB of memory, and 1.0 GiB are free.",
            "9000 个词元的上下文 需要 3.0 GiB 内存，而可用 1.0 GiB。",
        ),
        ("No NVIDIA driver is installed.\nThe prompt is empty.", "没有安装 NVIDIA 驱动程序。\n提示为空。"),
        (
            "on the GPU: used by every token, with its KV cache beside it",
            "在 GPU 上：每个词元都会用到，KV 缓存与之相邻",
        ),
    ],
)
def test_values_may_be_texts_themselves(chinese, text, expected):
    assert chinese.translated(text) == expected


@pytest.mark.parametrize("text", ["", "something else", "x" * 5000, "{}", "a {0} b", "\0"])
def test_what_is_no_text_of_the_engine_stays(chinese, text):
    assert chinese.translated(text) is None


def test_a_problem_is_told_in_the_owners_language(qapp: QApplication):
    translator = install_language(qapp, "zh_CN")
    try:
        problem = Problem.from_exception("x", ContextOverflowError(5210, 4096))
        assert problem.cause == "对话需要 5,210 个词元，而上下文只能容纳 4,096 个。"
        assert HAN.search(problem.done) and HAN.search(problem.remedy)
        assert HAN.search(engine_text(str(EngineError("The prompt is empty.", remedy="Type something first."))))
        unexpected = Problem.from_exception("x", ZeroDivisionError("division by zero"))
        assert unexpected.cause == "发生了意外错误：division by zero"
    finally:
        qapp.removeTranslator(translator)
    assert Problem.from_exception("x", EngineError("The prompt is empty.")).cause == "The prompt is empty."


def test_sentences_follow_each_other_as_their_language_wants():
    assert sentences("It failed.", "", "Try again.") == "It failed. Try again."
    assert sentences("出错了。", "", "请重试。") == "出错了。请重试。"


def test_every_check_of_the_computer_is_named_in_chinese(qapp: QApplication, tmp_path):
    translator = install_language(qapp, "zh_CN")
    try:
        names = {check.name for check in run_checks(tmp_path, has_display=True)} - {name for name, _ in _PACKAGES}
        shown = {name: name_words(name) for name in names if not re.fullmatch(r"Tessera|GPU \d*|GPU", name)}
        assert {"Processor", "Memory", "Disk", "System", "Display"} <= set(shown)
        assert [words for words in shown.values() if not HAN.search(words)] == []
    finally:
        qapp.removeTranslator(translator)


def test_the_files_are_what_the_tool_writes():
    for path in TRANSLATIONS.glob("engine_*.ts"):
        sources = [message.findtext("source") for message in ElementTree.parse(path).getroot().iter("message")]
        assert sources == sorted(sources)
