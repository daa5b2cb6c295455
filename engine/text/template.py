"""Chat messages to prompt text, by the template that a model carries.

A template that refuses a conversation (no system role, turns that must alternate) is tried again with the
conversation rearranged; one that fails or is missing is replaced by a named fallback. Both with a warning.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from engine.errors import TemplateError
from engine.messages import ChatMessage, Role
from engine.text.fallback_formats import FallbackFormat, choose_format
from engine.text.reasoning import opened_reasoning
from engine.text.template_renderer import RaisedInTemplateError, TemplateRenderer, shared_renderer
from engine.text.tokenizer import Tokenizer

Messages = tuple[ChatMessage, ...]
_THINKING = re.compile(r"{%-?\s*(?:el)?if\b[^%]*\bthinking\b")  # a variable of that name decides something


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt. `warnings` are new ones only: each is given once per template."""

    text: str
    warnings: tuple[str, ...] = ()
    adds_bos: bool = False  # the text begins with the BOS token, so tokenizing must not add another
    opens_reasoning: str = ""  # the mark that the text ends with, so that the answer begins inside a reasoning block


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """Spellings that a template may use; empty where the vocabulary defines none."""

    bos: str = ""
    eos: str = ""


class ChatTemplate:
    """`source` is Jinja text, or None when the file has none. `has_token` asks the vocabulary for a spelling."""

    def __init__(
        self,
        source: str | None,
        tokens: SpecialTokens,
        has_token: Callable[[str], bool],
        *,
        renderer: TemplateRenderer | None = None,
    ) -> None:
        self.source = source
        self.tokens = tokens
        self._has_token = has_token
        self._renderer = renderer or shared_renderer()
        self._told: set[str] = set()

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer, override: str | None = None) -> ChatTemplate:
        """The template in the tokenizer's file, or `override`."""

        def spelling(token: int | None) -> str:
            return "" if token is None else tokenizer.text(token)

        source = override if override is not None else tokenizer.metadata("tokenizer.chat_template")
        tokens = SpecialTokens(spelling(tokenizer.bos_id), spelling(tokenizer.eos_id))
        return cls(source or None, tokens, lambda text: tokenizer.id_of(text) is not None)

    @cached_property
    def fallback(self) -> FallbackFormat:
        """Chosen when it is needed: to look for its marks takes milliseconds while the vocabulary is still read."""
        return choose_format(self._has_token)

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop strings that the fallback needs where its end-of-turn mark is no token of this vocabulary."""
        return self.fallback.stop if self.source is None else ()

    @property
    def has_reasoning_switch(self) -> bool:
        return bool(reasoning_switch(self.source))

    def render(self, messages: Sequence[ChatMessage], *, reasoning: bool | None = None) -> Rendered:
        """The prompt for an answer to `messages`; never fails for what the template does.

        `reasoning` sets the template's switch, where it has one.
        """
        warnings: list[str] = []
        text = self._by_template(tuple(messages), warnings, reasoning) if self.source is not None else None
        if text is None:
            if self.source is None:
                warnings.append(f"This model carries no chat template; {self.fallback.name} is used instead.")
            text = self.fallback.render(messages)
        new = tuple(warning for warning in warnings if warning not in self._told)
        self._told.update(new)
        adds_bos = bool(self.tokens.bos) and text.startswith(self.tokens.bos)
        return Rendered(text, new, adds_bos, opened_reasoning(text))

    def _by_template(self, messages: Messages, warnings: list[str], reasoning: bool | None) -> str | None:
        """The template's text, or None with a warning that says why the fallback is used."""
        first: TemplateError | None = None
        for attempt, change in _rearrangements(messages):
            try:
                text = self._render_once(attempt, reasoning)
            except TemplateError as error:
                first = first or error
                if not isinstance(error, RaisedInTemplateError):
                    break
                continue
            if _drops(attempt, text, "system"):
                continue
            if _drops(attempt[-1:], text, "user"):
                break
            if change:
                warnings.append(change)
            return text
        reason = first.cause if first else "The chat template leaves messages out."
        warnings.append(" ".join([reason, f"{self.fallback.name} is used instead."]))
        return None

    def _render_once(self, messages: Messages, reasoning: bool | None) -> str:
        variables: dict[str, Any] = {
            "messages": [{"role": message.role, "content": message.content} for message in messages],
            "bos_token": self.tokens.bos,
            "eos_token": self.tokens.eos,
            "add_generation_prompt": True,
            "tools": None,
            "documents": None,
        }
        if reasoning is not None and (switch := reasoning_switch(self.source)):
            variables[switch] = reasoning
        assert self.source is not None
        return self._renderer.render(self.source, variables)


def reasoning_switch(source: str | None) -> str:
    """The variable by which a template lets reasoning be switched on and off, or an empty string."""
    if source and "enable_thinking" in source:
        return "enable_thinking"
    return "thinking" if source and _THINKING.search(source) else ""


def _rearrangements(messages: Messages) -> Iterator[tuple[Messages, str]]:
    """`messages` as they are, then ever more adapted to narrow templates, each with what the owner is told."""
    yield messages, ""
    merged = _merge_turns(messages)
    if merged != messages:
        yield merged, "This model's template wants turns to alternate; neighbouring turns were joined."
    folded = _merge_turns(_fold_system(messages))
    if any(message.role == "system" for message in messages):
        yield folded, "This model has no system role; the system prompt was put before the first message."
    if any(message.role == "tool" for message in messages):
        as_user = tuple(replace(m, role="user") if m.role == "tool" else m for m in messages)
        told = "This model has no tool role; tool results were passed as the user's messages."
        yield _merge_turns(as_user), told
        yield _merge_turns(_fold_system(as_user)), told


def _fold_system(messages: Messages) -> Messages:
    """System texts moved to the front of the first user turn (or into one of their own)."""
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    rest = [message for message in messages if message.role != "system"]
    for index, message in enumerate(rest):
        if message.role == "user":
            rest[index] = replace(message, content=f"{system}\n\n{message.content}")
            return tuple(rest)
    return (ChatMessage("user", system), *rest)


def _merge_turns(messages: Messages) -> Messages:
    """Neighbouring turns of one role joined by an empty line."""
    return tuple(
        ChatMessage(role, "\n\n".join(message.content for message in turns))
        for role, turns in itertools.groupby(messages, key=lambda message: message.role)
    )


def _drops(messages: Messages, text: str, role: Role) -> bool:
    """Whether a message of `role` is missing from the rendered text.

    Its longest line stands for it, because templates may trim a message or cut it into parts.
    """
    lines = (max(message.content.split("\n"), key=len).strip() for message in messages if message.role == role)
    return any(line not in text for line in lines)
