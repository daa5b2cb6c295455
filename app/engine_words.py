"""What the engine says, in another language: its sentences are recognised by their fixed parts, and values stay.

The engine knows nothing of languages. Its texts are templates with values in them, such as "{} cannot be read: {}.",
and a value may again be one of its texts. Free of Qt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_LONGEST = 4000  # characters; longer texts are no sentences of ours
_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=\S)")
NO_SPACE = re.compile(r"(?<=[。！？：]) ")  # Chinese sentences follow each other without one


class _Template(NamedTuple):
    parts: tuple[str, ...]  # the fixed parts, in order
    pattern: re.Pattern[str]
    translation: str


class EngineWords:
    """`words`: translations by template; in them {0}, {1} … stand for the values in order."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self._exact = {text: translation for text, translation in words.items() if "{}" not in text}
        templates = [_template(text, translation) for text, translation in words.items() if "{}" in text]
        # The most specific first: "{} cannot be read: {}." before "{}: {}".
        self._templates = sorted(templates, key=lambda template: -sum(map(len, template.parts)))
        self._known: dict[str, str | None] = {}

    def translated(self, text: str) -> str | None:
        """None for what is no text of the engine. Lines and sentences are also looked at one by one."""
        if text not in self._known:
            self._known[text] = self._translate(text)
        return self._known[text]

    def _translate(self, text: str) -> str | None:
        if len(text) > _LONGEST:
            return None
        return (
            self._exact.get(text)
            or self._piecewise(text.split("\n"), "\n")
            or self._by_template(text, with_sentences=False)
            or self._piecewise(_SENTENCE_END.split(text), " ")
            or self._by_template(text, with_sentences=True)
        )

    def _piecewise(self, pieces: list[str], joint: str) -> str | None:
        """Each line or sentence for itself, where there are several and one is known."""
        each = [self.translated(piece) for piece in pieces] if len(pieces) > 1 else []
        if not any(each):
            return None
        words = joint.join(new or piece for new, piece in zip(each, pieces, strict=True))
        return NO_SPACE.sub("", words)

    def _by_template(self, text: str, *, with_sentences: bool) -> str | None:
        """`with_sentences`: even where a value would hold the end of a sentence."""
        for parts, pattern, translation in self._templates:
            if not _in_order(text, parts) or (match := pattern.fullmatch(text)) is None:
                continue
            values = match.groups()
            if with_sentences or not any(_SENTENCE_END.search(value) for value in values):
                return translation.format(*(self.translated(value) or value for value in values))
        return None


def _template(text: str, translation: str) -> _Template:
    parts = text.split("{}")
    pattern = re.compile("(.*?)".join(map(re.escape, parts)), re.DOTALL)
    return _Template(tuple(parts), pattern, translation)


def _in_order(text: str, parts: tuple[str, ...]) -> bool:
    """Whether the fixed parts stand in the text one after another: cheap, and says no nearly always."""
    position = 0
    for part in parts:
        position = text.find(part, position)
        if position < 0:
            return False
        position += len(part)
    return True
