"""A generation request to prompt tokens that fit the context."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import ContextOverflowError, TurnTooLongError
from engine.messages import ChatMessage, GenerationRequest, Overflow
from engine.text.template import ChatTemplate
from engine.text.tokenizer import Tokenizer

_ROOM_FOR_ANSWER = 512  # tokens that trimming leaves free, where the context is large enough


@dataclass(frozen=True, slots=True)
class Prompt:
    tokens: list[int]
    trimmed_messages: int = 0  # dropped by Overflow.TRIM_OLDEST
    warnings: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()  # the request's stop strings, and those the fallback template needs
    answer_start: str = ""  # what the prompt ends with, but belongs to the answer: the mark that opens its reasoning


def build_prompt(
    request: GenerationRequest, template: ChatTemplate, tokenizer: Tokenizer, context_length: int
) -> Prompt:
    """Raises ContextOverflowError when the prompt leaves no room for a single token and may not be trimmed,
    TurnTooLongError when trimming is not enough."""
    if request.raw_prompt is not None:
        tokens = tokenizer.encode(request.raw_prompt)
        if len(tokens) >= context_length:
            raise ContextOverflowError(len(tokens), context_length)
        return Prompt(tokens, stop=request.stop)
    fitter = _Fitter(request, template, tokenizer)
    prompt = fitter.prompt(dropped=0)
    if len(prompt.tokens) < context_length:
        return prompt
    if request.overflow is Overflow.TRIM_OLDEST:
        room = min(request.max_tokens or _ROOM_FOR_ANSWER, context_length // 4, _ROOM_FOR_ANSWER)
        trimmed = fitter.shortest_trim(context_length - max(room, 1)) or fitter.last_turn()
        if len(trimmed.tokens) < context_length:  # a long last question leaves less room, but some
            return trimmed
        raise TurnTooLongError(len(trimmed.tokens), context_length)
    raise ContextOverflowError(len(prompt.tokens), context_length)


class _Fitter:
    """Renders a request with its oldest turns dropped. A turn is a user message and what follows it."""

    def __init__(self, request: GenerationRequest, template: ChatTemplate, tokenizer: Tokenizer) -> None:
        self._request, self._template, self._tokenizer = request, template, tokenizer
        self._users = [i for i, message in enumerate(request.messages) if message.role == "user"]
        self._warnings: tuple[str, ...] = ()

    def prompt(self, dropped: int) -> Prompt:
        messages = self._without_oldest(dropped)
        rendered = self._template.render(messages, reasoning=self._request.reasoning)
        self._warnings += rendered.warnings  # the template gives each only once
        opened, prefix = rendered.opens_reasoning, self._request.answer_prefix
        return Prompt(
            self._tokenizer.encode_prompt(rendered.text + prefix.removeprefix(opened)),
            len(self._request.messages) - len(messages),
            self._warnings,
            self._request.stop + self._template.stop,
            "" if prefix else opened,
        )

    def shortest_trim(self, max_tokens: int) -> Prompt | None:
        """The prompt of at most `max_tokens` with the fewest turns dropped; None when even one turn is too long."""
        low, high, best = 1, len(self._users) - 1, None
        while low <= high:
            middle = (low + high) // 2
            prompt = self.prompt(middle)
            if len(prompt.tokens) <= max_tokens:
                best, high = prompt, middle - 1
            else:
                low = middle + 1
        return best

    def last_turn(self) -> Prompt:
        """The prompt without any older one."""
        return self.prompt(max(0, len(self._users) - 1))

    def _without_oldest(self, turns: int) -> tuple[ChatMessage, ...]:
        messages = self._request.messages
        if turns == 0:
            return messages
        first = self._users[turns]
        return tuple(m for m in messages[:first] if m.role == "system") + messages[first:]
