"""Templates written in the styles that models carry, against the text that each must give."""

from __future__ import annotations

import pytest

from engine.messages import ChatMessage
from engine.text.template import ChatTemplate, Rendered, SpecialTokens
from engine.text.tokenizer import Tokenizer

SYSTEM, USER = ChatMessage("system", "Be brief."), ChatMessage("user", "Hi")
TURNS = (USER, ChatMessage("assistant", "Hello!"), ChatMessage("user", "Bye"))
TOKENS = SpecialTokens("<s>", "</s>")

CHATML = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] | trim + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

LLAMA2 = """\
{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set turns = messages[1:] %}
{% else %}{% set system = false %}{% set turns = messages %}{% endif %}
{% for m in turns %}
{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{% endif %}
{% set text = '<<SYS>>\\n' ~ system ~ '\\n<</SYS>>\\n\\n' ~ m.content if loop.first and system else m.content %}
{% if m.role == 'user' %}{{ bos_token ~ '[INST] ' ~ text.strip() ~ ' [/INST]' }}
{%- else %}{{ ' ' ~ m.content.strip() ~ ' ' ~ eos_token }}{% endif %}
{% endfor %}"""

LLAMA3 = """\
{{- bos_token }}
{%- if strftime_now is defined %}{% set date = strftime_now('%d %b %Y') %}{% endif %}
{%- for m in messages %}
{{- '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' if add_generation_prompt }}"""

MISTRAL = """\
{{ bos_token }}{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}\
{% elif m['role'] == 'assistant' %}{{ m['content'] + eos_token }}\
{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"""

GEMMA = """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for m in messages %}
{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant') }}
{%- endif %}
{%- set role = 'model' if m['role'] == 'assistant' else m['role'] %}
{{- '<start_of_turn>' + role + '\\n' + m['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""

QWEN3 = """\
{%- set ns = namespace(last=messages|length - 1, tool=false) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if message.role == 'user' and message.content is string %}{% set ns.last = index %}{% break %}{% endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}"""

DEEPSEEK = """\
{% set ns = namespace(system='') %}{% for m in messages %}{% if m['role'] == 'system' %}\
{% set ns.system = m['content'] %}{% endif %}{% endfor %}{{ bos_token }}{{ ns.system }}\
{% for m in messages %}{% if m['role'] == 'user' %}{{ '<|User|>' + m['content'] }}\
{% elif m['role'] == 'assistant' %}{{ '<|Assistant|>' + m['content'] + eos_token }}{% endif %}{% endfor %}\
{% if add_generation_prompt %}{{ '<|Assistant|><think>\\n' }}{% endif %}"""

PHI3 = """\
{% for message in messages %}{{'<|' + message['role'] + '|>' + '\\n' + message['content'] + '<|end|>\\n' }}\
{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""

SMALL_TALK = {  # style -> template, and the text for SYSTEM + TURNS
    "chatml": (
        CHATML,
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!"
        "<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
    ),
    "llama2": (
        LLAMA2,
        "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello! </s><s>[INST] Bye [/INST]",
    ),
    "llama3": (
        LLAMA3,
        "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>"
        "\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|><|start_header_id|>user"
        "<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "mistral": (MISTRAL, "<s>[INST] Be brief.\n\nHi [/INST]Hello!</s>[INST] Bye [/INST]"),
    "gemma": (
        GEMMA,
        "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n"
        "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
    ),
    "qwen3": (
        QWEN3,
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!"
        "<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
    ),
    "deepseek": (DEEPSEEK, "<s>Be brief.<|User|>Hi<|Assistant|>Hello!</s><|User|>Bye<|Assistant|><think>\n"),
    "phi3": (
        PHI3,
        "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello!<|end|>\n<|user|>\nBye<|end|>\n"
        "<|assistant|>\n",
    ),
}


def template(source: str | None, *tokens: str) -> ChatTemplate:
    return ChatTemplate(source, TOKENS, set(tokens).__contains__)


@pytest.mark.parametrize("style", SMALL_TALK)
def test_corpus(style: str) -> None:
    source, expected = SMALL_TALK[style]
    rendered = template(source).render((SYSTEM, *TURNS))
    assert rendered.text == expected
    assert rendered.adds_bos is expected.startswith("<s>")
    assert rendered.opens_reasoning == ("<think>\n" if style == "deepseek" else "")
    assert bool(rendered.warnings) is (style in ("mistral", "gemma"))


def test_starter_model(starter_tokenizer: Tokenizer) -> None:
    rendered = ChatTemplate.from_tokenizer(starter_tokenizer).render((USER,))
    assert rendered.text.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert rendered.text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert not rendered.warnings


def test_an_override_wins(starter_tokenizer: Tokenizer) -> None:
    rendered = ChatTemplate.from_tokenizer(starter_tokenizer, "{{ messages[0].content }}{{ eos_token }}")
    assert rendered.render((USER,)).text == "Hi<|im_end|>"


def test_past_reasoning_is_left_out_as_the_template_says() -> None:
    past = ChatMessage("assistant", "<think>\nhm\n</think>\n\nHello!")
    assert "hm" not in template(QWEN3).render((USER, past, USER)).text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ messages is sequence }} {{ messages[0] is mapping }} {{ messages is string }}", "True True False"),
        ("{{ {'b': 'é<', 'a': [1]} | tojson }}", '{"b": "é<", "a": [1]}'),
        ("{{ {'a': 1} | tojson(indent=2) }}", '{\n  "a": 1\n}'),
        ("{{ ' x '.strip() }}{{ 'a,b'.split(',')[1] }}{{ 'xy'.rstrip('y') }}", "xbx"),
        (
            "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% elif i == 4 %}{% break %}{% endif %}"
            "{{ i }}{% endfor %}",
            "013",
        ),
        ("{% set ns = namespace(n=1) %}{% for i in range(3) %}{% set ns.n = ns.n * 2 %}{% endfor %}{{ ns.n }}", "8"),
        ("{% generation %}kept{% endgeneration %}", "kept"),
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("{% if tools is not none %}tools{% else %}none{% endif %}", "none"),
        ("{%- macro twice(x) -%}{{ x }}{{ x }}{%- endmacro -%}{{ twice('ab') }}", "abab"),
        ("{{ messages | map(attribute='role') | join(',') }}", "user"),
        ("{{ (messages | selectattr('role', 'equalto', 'user') | list | length) }}", "1"),
        ("{{ 'Title case' | title }} {{ 'x' | upper }} {{ [3,1] | sort | first }}", "Title Case X 1"),
        ("{{ undefined_name }}{{ undefined_name is defined }}", "False"),
        ("{{ {'k': 'v'}.items() | list }}", "[('k', 'v')]"),
    ],
)  # fmt: skip
def test_constructs_that_templates_use(source: str, expected: str) -> None:
    rendered = template(source + "{{ messages[0].content }}").render((USER,))
    assert rendered == Rendered(expected + "Hi")


def test_reasoning_is_switched_where_the_template_has_a_switch() -> None:
    switched = template(QWEN3)
    assert switched.has_reasoning_switch
    assert not switched.render((USER,), reasoning=True).text.endswith("</think>\n\n")
    assert switched.render((USER,), reasoning=False).text.endswith("<think>\n\n</think>\n\n")
    assert switched.render((USER,)).text == switched.render((USER,), reasoning=True).text
    plain = template(CHATML)
    assert not plain.has_reasoning_switch
    assert plain.render((USER,), reasoning=False).text == plain.render((USER,)).text
    other = template("{% if thinking %}<think>{% endif %}{{ messages[-1].content }}")
    assert other.has_reasoning_switch
    assert other.render((USER,), reasoning=True).text == "<think>" + USER.content


def test_system_is_folded_in_and_told_once() -> None:
    gemma = template(GEMMA)
    first, second = gemma.render((SYSTEM, USER)), gemma.render((SYSTEM, USER))
    assert first.text == second.text == "<s><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\n"
    assert len(first.warnings) == 1 and "system" in first.warnings[0]
    assert second.warnings == ()


def test_a_template_that_silently_drops_the_system_prompt() -> None:
    source = "{% for m in messages if m.role != 'system' %}[{{ m.content }}]{% endfor %}"
    rendered = template(source).render((SYSTEM, USER))
    assert rendered.text == "[Be brief.\n\nHi]"
    assert "system" in rendered.warnings[0]


def test_two_user_turns_in_a_row_are_joined() -> None:
    rendered = template(GEMMA).render((USER, ChatMessage("user", "there")))
    assert rendered.text == "<s><start_of_turn>user\nHi\n\nthere<end_of_turn>\n<start_of_turn>model\n"
    assert "alternate" in rendered.warnings[0]


@pytest.mark.parametrize(
    "messages",
    [
        (USER, SYSTEM, USER),  # system in the middle
        (USER, ChatMessage("assistant", "calling"), ChatMessage("tool", "42")),
        (SYSTEM, ChatMessage("assistant", "I begin"), USER),
        (SYSTEM,),
        (SYSTEM, SYSTEM, USER, USER, ChatMessage("tool", "1")),
    ],
)
def test_unusual_conversations_come_through(messages: tuple[ChatMessage, ...]) -> None:
    for source in (GEMMA, MISTRAL, LLAMA2, None):
        text = template(source).render(messages).text
        assert all(message.content in text for message in messages)


@pytest.mark.parametrize(
    ("tokens", "name", "expected"),
    [
        (("<|im_start|>", "<|im_end|>"), "ChatML", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"),
        (
            ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
            "Llama 3",
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (("<start_of_turn>", "<end_of_turn>"), "Gemma", "<start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n"),
        (("[INST]", "[/INST]"), "Mistral", "[INST] Hi [/INST]"),
        (("<|user|>", "<|assistant|>", "<|end|>"), "Phi 3", "<|user|>\nHi<|end|>\n<|assistant|>\n"),
        ((), "ChatML", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"),
    ],
)
def test_no_template_is_a_named_fallback(tokens: tuple[str, ...], name: str, expected: str) -> None:
    bare = template(None, *tokens)
    rendered = bare.render((USER,))
    assert rendered.text == expected
    assert rendered.warnings == (f"This model carries no chat template; {name} is used instead.",)
    assert bare.render((USER,)).warnings == ()


def test_fallback_folds_the_system_prompt_where_there_is_no_role_for_it() -> None:
    bare = template(None, "<start_of_turn>", "<end_of_turn>")
    assert bare.render((SYSTEM, USER)).text.startswith("<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>")


def test_braces_in_messages_are_only_text() -> None:
    message = ChatMessage("user", "{{ 1+1 }} {content} {% if %}")
    for source in (CHATML, None):
        assert "{{ 1+1 }} {content} {% if %}" in template(source).render((message,)).text


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("a\nb\n{% if %}", "line 3"),
        ('{{ a["foo"(', "line 1"),
        ("x\n\n{{ nothing.at.all }}", "line 3: 'nothing' is undefined"),
        ("{% include '/etc/passwd' %}", "line 1"),
        ("\n{{ raise_exception('never') }}", "line 2: never"),
        ("{% for m in messages %}{{ m.missing.x }}{% endfor %}", "line 1"),
        ("{#", "leaves messages out"),
        ("no message here", "leaves messages out"),
        ("{{ messages[0]['content'] | no_such_filter }}", "no_such_filter"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
    ],
)
def test_a_failing_template_is_a_fallback_with_its_line(source: str, reason: str) -> None:
    failing = template(source, "<|im_start|>", "<|im_end|>")
    rendered = failing.render((SYSTEM, USER))
    assert rendered.text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert len(rendered.warnings) == 1
    assert reason in rendered.warnings[0] and "ChatML is used instead" in rendered.warnings[0]
