from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.errors import ContextOverflowError, TurnTooLongError
from engine.messages import ChatMessage, GenerationRequest, Overflow
from engine.text.prompt import build_prompt
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer
from tests.support.gguf_writer import GGUFBuilder
from tests.support.vocabularies import spm_vocabulary


def conversation(turns: int, system: bool = True) -> tuple[ChatMessage, ...]:
    messages = [ChatMessage("system", "Stay on topic.")] if system else []
    for turn in range(turns):
        messages += [ChatMessage("user", f"Question {turn}?"), ChatMessage("assistant", f"Answer {turn}.")]
    return (*messages, ChatMessage("user", "The last question?"))


@pytest.fixture
def template(starter_tokenizer: Tokenizer) -> ChatTemplate:
    return ChatTemplate.from_tokenizer(starter_tokenizer)


def test_a_prompt_that_fits(starter_tokenizer: Tokenizer, template: ChatTemplate) -> None:
    request = GenerationRequest("a", conversation(2), stop=("END",))
    prompt = build_prompt(request, template, starter_tokenizer, 2048)
    assert starter_tokenizer.decode(prompt.tokens, special=True) == template.render(request.messages).text
    assert (prompt.trimmed_messages, prompt.warnings, prompt.stop) == (0, (), ("END",))


def test_overflow_asks(starter_tokenizer: Tokenizer, template: ChatTemplate) -> None:
    request = GenerationRequest("a", conversation(50))
    tokens = len(build_prompt(request, template, starter_tokenizer, 100_000).tokens)
    with pytest.raises(ContextOverflowError) as caught:
        build_prompt(request, template, starter_tokenizer, tokens)
    assert (caught.value.prompt_tokens, caught.value.context_length) == (tokens, tokens)
    assert len(build_prompt(request, template, starter_tokenizer, tokens + 1).tokens) == tokens


@pytest.mark.parametrize("context", [200, 400, 800])
@pytest.mark.parametrize("system", [True, False])
def test_trimming(starter_tokenizer: Tokenizer, template: ChatTemplate, context: int, system: bool) -> None:
    """The oldest turns go, as few as possible; system prompt and last question stay, and there is room to answer."""
    messages = conversation(80, system)
    request = GenerationRequest("a", messages, overflow=Overflow.TRIM_OLDEST)
    prompt = build_prompt(request, template, starter_tokenizer, context)
    text = starter_tokenizer.decode(prompt.tokens, special=True)
    assert len(prompt.tokens) <= context - context // 4
    assert ("Stay on topic." in text) is system
    assert "The last question?" in text
    assert prompt.trimmed_messages > 0 and prompt.trimmed_messages % 2 == 0
    first = prompt.trimmed_messages // 2
    assert f"Question {first}?" in text and f"Question {first - 1}?" not in text
    one_more = messages[:1] * system + messages[2 * (first - 1) + system :]
    longer = starter_tokenizer.encode_prompt(template.render(one_more).text)
    assert len(longer) > context - context // 4


def test_one_turn_too_long_is_an_overflow(starter_tokenizer: Tokenizer, template: ChatTemplate) -> None:
    messages = (*conversation(3), ChatMessage("user", "word " * 1000))
    request = GenerationRequest("a", messages, overflow=Overflow.TRIM_OLDEST)
    with pytest.raises(TurnTooLongError) as caught:
        build_prompt(request, template, starter_tokenizer, 500)
    alone = starter_tokenizer.encode_prompt(template.render((messages[0], messages[-1])).text)
    assert caught.value.prompt_tokens == len(alone)
    assert "without older messages" in caught.value.cause and "rim" not in caught.value.remedy


@pytest.mark.parametrize("spare", [1, 20])
def test_a_long_last_question_is_answered_in_what_room_there_is(
    starter_tokenizer: Tokenizer, template: ChatTemplate, spare: int
) -> None:
    """Less than what trimming leaves free otherwise: no reason to refuse what trimming was asked for."""
    messages = (*conversation(9), ChatMessage("user", "word " * 300))
    request = GenerationRequest("a", messages, overflow=Overflow.TRIM_OLDEST)
    alone = starter_tokenizer.encode_prompt(template.render((messages[0], messages[-1])).text)
    prompt = build_prompt(request, template, starter_tokenizer, len(alone) + spare)
    assert (prompt.tokens, prompt.trimmed_messages) == (alone, len(messages) - 2)
    with pytest.raises(TurnTooLongError):
        build_prompt(request, template, starter_tokenizer, len(alone))


def test_an_answer_goes_on_where_it_ended(starter_tokenizer: Tokenizer, template: ChatTemplate) -> None:
    request = GenerationRequest("a", conversation(1), answer_prefix="The last answer begins")
    prompt = build_prompt(request, template, starter_tokenizer, 2048)
    text = starter_tokenizer.decode(prompt.tokens, special=True)
    assert text == template.render(request.messages).text + "The last answer begins"


def test_raw_prompts_use_no_template(starter_tokenizer: Tokenizer, template: ChatTemplate) -> None:
    request = GenerationRequest("a", (), raw_prompt="Once upon a time")
    prompt = build_prompt(request, template, starter_tokenizer, 100)
    assert prompt.tokens == starter_tokenizer.encode("Once upon a time")
    with pytest.raises(ContextOverflowError):
        build_prompt(request, template, starter_tokenizer, len(prompt.tokens))


@pytest.mark.parametrize("add_bos", [True, False])
@pytest.mark.parametrize("writes_bos", [True, False])
def test_exactly_one_bos(load: Callable[[GGUFBuilder], Tokenizer], add_bos: bool, writes_bos: bool) -> None:
    source = ("{{ bos_token }}" if writes_bos else "") + "{% for m in messages %}{{ m.content }}{% endfor %}"
    builder = spm_vocabulary(add_bos_token=add_bos).add("tokenizer.chat_template", source)
    tokenizer = load(builder)
    request = GenerationRequest("a", (ChatMessage("user", "Hello world"),))
    prompt = build_prompt(request, ChatTemplate.from_tokenizer(tokenizer), tokenizer, 100)
    assert prompt.tokens.count(1) == (add_bos or writes_bos)


def test_a_fallback_brings_its_stop_string(load: Callable[[GGUFBuilder], Tokenizer]) -> None:
    tokenizer = load(spm_vocabulary())
    request = GenerationRequest("a", (ChatMessage("user", "Hello"),), stop=("X",))
    prompt = build_prompt(request, ChatTemplate.from_tokenizer(tokenizer), tokenizer, 200)
    assert prompt.stop == ("X", "<|im_end|>")
    assert "ChatML" in prompt.warnings[0]


OPENS = "{% for m in messages %}{{ m.content }}{% endfor %}{{ '<think>\\n' }}"


@pytest.mark.parametrize(
    ("prefix", "start", "end"),
    [("", "<think>\n", "<think>\n"), ("<think>\nHello", "", "<think>\nHello"), ("world", "", "<think>\nworld")],
)
def test_a_mark_that_the_template_has_opened_is_told_once(
    load: Callable[[GGUFBuilder], Tokenizer], prefix: str, start: str, end: str
) -> None:
    tokenizer = load(spm_vocabulary().add("tokenizer.chat_template", OPENS))
    request = GenerationRequest("a", (ChatMessage("user", "Hello"),), answer_prefix=prefix)
    prompt = build_prompt(request, ChatTemplate.from_tokenizer(tokenizer), tokenizer, 200)
    assert prompt.answer_start == start
    assert tokenizer.decode(prompt.tokens).endswith("Hello" + end)
