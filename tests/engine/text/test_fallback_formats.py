"""Formats for files without a template: chosen by control tokens, rendered as the models' own templates would."""

from __future__ import annotations

import pytest

from engine.messages import ChatMessage
from engine.text.fallback_formats import choose_format

TALK = (
    ChatMessage("system", "Be brief."),
    ChatMessage("user", "Hi"),
    ChatMessage("assistant", "Hello."),
    ChatMessage("user", "Bye"),
)


@pytest.mark.parametrize(
    ("tokens", "name", "text"),
    [
        (
            {"<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>"},
            "harmony",
            "<|start|>system<|message|>Be brief.<|end|><|start|>user<|message|>Hi<|end|>"
            "<|start|>assistant<|channel|>final<|message|>Hello.<|end|><|start|>user<|message|>Bye<|end|><|start|>assistant",
        ),
        (
            {"[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>"},
            "GLM-4",
            "[gMASK]<sop><|system|>\nBe brief.<|user|>\nHi<|assistant|>\nHello.<|user|>\nBye<|assistant|>\n",
        ),
        (
            {"<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"},
            "Granite",
            "<|start_of_role|>system<|end_of_role|>Be brief.<|end_of_text|>\n"
            "<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n"
            "<|start_of_role|>assistant<|end_of_role|>Hello.<|end_of_text|>\n"
            "<|start_of_role|>user<|end_of_role|>Bye<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>",
        ),
        (
            {"<start_of_turn>", "<end_of_turn>"},
            "Gemma",
            "<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n"
            "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
        ),
    ],
)
def test_formats_of_families(tokens: set[str], name: str, text: str) -> None:
    chosen = choose_format(tokens.__contains__)
    assert chosen.name == name
    assert chosen.render(TALK) == text
