"""Fonts, colours and distances of the transcript, taken from the theme once per change."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtGui import QFont

from app.chat.markdown.formulas import Formulas
from app.theme.theme import Theme

COLUMN_WIDTH = 760  # of the conversation; longer lines are hard to read
SIDE_MARGIN = 28
BUBBLE_PADDING_X = 16
BUBBLE_PADDING_Y = 11
CODE_PADDING = 14
CODE_HEADER = 34


@dataclass(frozen=True, slots=True)
class TranscriptStyle:
    body: QFont
    code: QFont
    small: QFont
    reasoning: QFont
    heading_sizes: tuple[int, ...]
    paragraph_gap: float
    item_gap: float
    window: str
    text: str
    muted: str
    link: str
    bubble: str
    border: str
    outline: str
    code_background: str
    code_border: str
    inline_code_background: str
    selection: str
    danger: str
    danger_background: str
    note: str
    note_background: str
    syntax: tuple[tuple[str, str], ...]
    formulas: Formulas

    @classmethod
    def of(cls, theme: Theme, formulas: Formulas | None = None) -> TranscriptStyle:
        """Without `formulas` they are typeset at once, on this thread."""
        colors, sizes = theme.colors, theme.type
        kinds = ("keyword", "string", "number", "comment", "name", "type")
        return cls(
            body=theme.font(sizes.body),
            code=theme.mono(sizes.code),
            small=theme.font(sizes.small),
            reasoning=theme.font(sizes.body - 1),
            heading_sizes=tuple(sizes.heading(level) for level in range(1, 7)),
            paragraph_gap=sizes.body * 0.8,
            item_gap=sizes.body * 0.3,
            window=colors.window,
            text=colors.text,
            muted=colors.muted,
            link=colors.link,
            bubble=colors.bubble,
            border=colors.border,
            outline=colors.outline,
            code_background=colors.code,
            code_border=colors.code_border,
            inline_code_background=colors.hover,
            selection=colors.selection,
            danger=colors.danger,
            danger_background=colors.danger_soft,
            note=colors.warning,
            note_background=colors.warning_soft,
            syntax=tuple((kind, getattr(colors, f"syntax_{kind}")) for kind in kinds),
            formulas=formulas or Formulas(),
        )
