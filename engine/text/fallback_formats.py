"""Chat formats to fall back on when a file has no chat template, or one that fails; chosen by its control tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.messages import ChatMessage


@dataclass(frozen=True, slots=True)
class FallbackFormat:
    """Each turn is a format string over {content}. Without `system`, the system text joins the first user turn."""

    name: str
    markers: tuple[str, ...]  # control tokens that a vocabulary must hold
    user: str
    assistant: str
    generation: str  # opens the answer
    system: str | None = None
    start: str = ""  # before the first turn
    stop: tuple[str, ...] = ()

    def render(self, messages: Sequence[ChatMessage]) -> str:
        turns = {"user": self.user, "assistant": self.assistant, "system": self.system, "tool": self.user}
        parts, pending = [], ""
        for message in messages:
            turn = turns[message.role]
            if turn is None:
                pending += message.content + "\n\n"
                continue
            content = message.content
            if message.role == "user":
                content, pending = pending + content, ""
            parts.append(turn.replace("{content}", content))
        if pending:
            parts.append(self.user.replace("{content}", pending.rstrip()))
        return self.start + "".join(parts) + self.generation


CHATML = FallbackFormat(
    "ChatML",
    ("<|im_start|>", "<|im_end|>"),
    system="<|im_start|>system\n{content}<|im_end|>\n",
    user="<|im_start|>user\n{content}<|im_end|>\n",
    assistant="<|im_start|>assistant\n{content}<|im_end|>\n",
    generation="<|im_start|>assistant\n",
    stop=("<|im_end|>",),
)

FORMATS = (
    CHATML,
    FallbackFormat(
        "Llama 3",
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        system="<|start_header_id|>system<|end_header_id|>\n\n{content}<|eot_id|>",
        user="<|start_header_id|>user<|end_header_id|>\n\n{content}<|eot_id|>",
        assistant="<|start_header_id|>assistant<|end_header_id|>\n\n{content}<|eot_id|>",
        generation="<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    FallbackFormat(
        "Llama 4",
        ("<|header_start|>", "<|header_end|>", "<|eot|>"),
        system="<|header_start|>system<|header_end|>\n\n{content}<|eot|>",
        user="<|header_start|>user<|header_end|>\n\n{content}<|eot|>",
        assistant="<|header_start|>assistant<|header_end|>\n\n{content}<|eot|>",
        generation="<|header_start|>assistant<|header_end|>\n\n",
        stop=("<|eot|>",),
    ),
    FallbackFormat(
        "Gemma",
        ("<start_of_turn>", "<end_of_turn>"),
        user="<start_of_turn>user\n{content}<end_of_turn>\n",
        assistant="<start_of_turn>model\n{content}<end_of_turn>\n",
        generation="<start_of_turn>model\n",
    ),
    FallbackFormat(
        "DeepSeek",
        ("<｜User｜>", "<｜Assistant｜>"),
        system="{content}",
        user="<｜User｜>{content}",
        assistant="<｜Assistant｜>{content}<｜end▁of▁sentence｜>",
        generation="<｜Assistant｜>",
    ),
    FallbackFormat(
        "harmony",  # gpt-oss
        ("<|start|>", "<|message|>", "<|channel|>", "<|end|>"),
        system="<|start|>system<|message|>{content}<|end|>",
        user="<|start|>user<|message|>{content}<|end|>",
        assistant="<|start|>assistant<|channel|>final<|message|>{content}<|end|>",
        generation="<|start|>assistant",
    ),
    FallbackFormat(
        "GLM-4",
        ("[gMASK]", "<sop>", "<|user|>", "<|assistant|>"),
        start="[gMASK]<sop>",
        system="<|system|>\n{content}",
        user="<|user|>\n{content}",
        assistant="<|assistant|>\n{content}",
        generation="<|assistant|>\n",
        stop=("<|user|>",),
    ),
    FallbackFormat(
        "Granite",
        ("<|start_of_role|>", "<|end_of_role|>"),
        system="<|start_of_role|>system<|end_of_role|>{content}<|end_of_text|>\n",
        user="<|start_of_role|>user<|end_of_role|>{content}<|end_of_text|>\n",
        assistant="<|start_of_role|>assistant<|end_of_role|>{content}<|end_of_text|>\n",
        generation="<|start_of_role|>assistant<|end_of_role|>",
    ),
    FallbackFormat(
        "Phi 3",
        ("<|user|>", "<|assistant|>", "<|end|>"),
        system="<|system|>\n{content}<|end|>\n",
        user="<|user|>\n{content}<|end|>\n",
        assistant="<|assistant|>\n{content}<|end|>\n",
        generation="<|assistant|>\n",
    ),
    FallbackFormat(
        "Mistral",
        ("[INST]", "[/INST]"),
        user="[INST] {content} [/INST]",
        assistant=" {content}</s>",
        generation="",
    ),
)


def choose_format(has_token: Callable[[str], bool]) -> FallbackFormat:
    """The first format whose control tokens the vocabulary holds; ChatML when there is none."""
    return next((form for form in FORMATS if all(map(has_token, form.markers))), CHATML)
