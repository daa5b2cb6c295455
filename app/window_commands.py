"""What can be done with the keyboard: declared once, for the shortcuts, the palette and the list on F1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtGui import QKeySequence

from app.translation import tr


@dataclass(frozen=True, slots=True)
class WindowCommand:
    """`keys` in Qt's portable spelling; empty where only the palette has it."""

    title: str
    keys: str
    run: Callable[[], None]

    def keys_text(self) -> str:
        return native(self.keys)


def writing_keys() -> list[tuple[str, str]]:
    """Keys of the composer and the conversation, which are no commands: (keys, what they do)."""
    rows = (
        ("Return", tr("Send the message")),
        ("Shift+Return", tr("Begin a new line")),
        ("Up", tr("Edit your last message (empty box)")),
        ("F2", tr("Rename a conversation (in the list)")),
        ("Del", tr("Delete a conversation (in the list)")),
    )
    return [(native(keys), words) for keys, words in rows]


def native(keys: str) -> str:
    """Keys as this system writes them."""
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText) if keys else ""
