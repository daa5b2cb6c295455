"""A message as plain, readable text: what “Copy” puts on the clipboard."""

from __future__ import annotations

from app.chat.markdown.parser import parse
from app.store.records import Message
from engine.text.reasoning import split_reasoning

OPENED = ("http://", "https://", "mailto:")


def readable_text(message: Message) -> str:
    """The owner's words as typed; of an answer what the reader sees, without marks, code exactly as it is."""
    if message.role != "assistant":
        return message.content
    source = split_reasoning(message.content).said
    return _Plain().text(source)


def links(message: Message) -> list[str]:
    """Addresses that an answer's links and pictures name, each once, in order; only those that can be opened."""
    found: dict[str, None] = {}
    for token in parse(split_reasoning(message.content).said):
        for child in token.children or ():
            address = str(child.attrGet("href") or child.attrGet("src") or "")
            if address.lower().startswith(OPENED):
                found[address] = None
    return list(found)


class _Plain:
    """Walks Markdown tokens and keeps their words."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._lists: list[int | None] = []  # next number, None: bullets

    def text(self, source: str) -> str:
        for token in parse(source):
            match token.type:
                case "fence" | "code_block":
                    self._parts.append(token.content.removesuffix("\n") + "\n\n")
                case "inline":
                    self._parts.append("".join(_word(child) for child in token.children or ()))
                case "bullet_list_open":
                    self._lists.append(None)
                case "ordered_list_open":
                    self._lists.append(int(token.attrGet("start") or 1))
                case "bullet_list_close" | "ordered_list_close":
                    self._lists.pop()
                    if not self._lists:
                        self._parts.append("\n")
                case "list_item_open":
                    self._parts.append(self._bullet())
                case "paragraph_close" | "heading_close":
                    self._parts.append("\n" if self._lists else "\n\n")
                case "th_close" | "td_close":
                    self._parts.append("\t")
                case "tr_close":
                    self._end_row()
                case "table_close":
                    self._parts.append("\n")
                case "math_block":
                    self._parts.append(f"$${token.content}$$\n\n")
                case "hr":
                    self._parts.append("———\n\n")
        return "".join(self._parts).strip("\n")

    def _bullet(self) -> str:
        indent = "  " * (len(self._lists) - 1)
        number = self._lists[-1]
        if number is None:
            return f"{indent}• "
        self._lists[-1] = number + 1
        return f"{indent}{number}. "

    def _end_row(self) -> None:
        if self._parts and self._parts[-1] == "\t":
            self._parts[-1] = "\n"


def _word(token: object) -> str:
    kind, content = token.type, token.content  # type: ignore[attr-defined]
    if kind in ("softbreak", "hardbreak"):
        return "\n"
    return f"${content}$" if kind.startswith("math") else str(content)
