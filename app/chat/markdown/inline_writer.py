"""Writes what stands within a block: words, code, links, and formulas as pictures on the text's baseline."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from PySide6.QtCore import QUrl
from PySide6.QtGui import QFontMetricsF, QTextCharFormat, QTextCursor, QTextDocument, QTextImageFormat

from app.chat.markdown.character_formats import CharacterFormats
from app.chat.markdown.formulas import Formula
from app.chat.transcript.style import TranscriptStyle

if TYPE_CHECKING:
    from markdown_it.token import Token


class InlineWriter:
    def __init__(self, style: TranscriptStyle, formats: CharacterFormats) -> None:
        self._style = style
        self._formats = formats
        self.formulas: list[str] = []  # LaTeX of the pictures, in order
        self.has_pending_formulas = False

    def write(self, cursor: QTextCursor, token: Token, base: QTextCharFormat) -> None:
        formats, stack = self._formats, [base]
        for child in token.children or ():
            form = stack[-1]
            match child.type:
                case "text":
                    cursor.insertText(child.content, form)
                case "softbreak" | "hardbreak":
                    cursor.insertText("\u2028", form)
                case "math_inline":
                    self.formula(cursor, child.content, form, is_display=False)
                case "math_display":
                    self.formula(cursor, child.content, form, is_display=True)
                case "code_inline":
                    cursor.insertText(child.content, formats.inline_code(form))
                case "strong_open":
                    stack.append(formats.bold(form))
                case "em_open":
                    stack.append(formats.italic(form))
                case "s_open":
                    stack.append(formats.struck_out(form))
                case "link_open":
                    stack.append(formats.link(form, str(child.attrGet("href") or "")))
                case "image":
                    address = str(child.attrGet("src") or "")
                    cursor.insertText(child.content or address, formats.link(form, address))
                case "strong_close" | "em_close" | "s_close" | "link_close":
                    if len(stack) > 1:
                        stack.pop()
                case _:
                    cursor.insertText(child.content, form)

    def formula(self, cursor: QTextCursor, latex: str, base: QTextCharFormat, *, is_display: bool) -> None:
        """A picture on the text's baseline; its LaTeX while it is not typeset, or where it cannot be."""
        formula = self._style.formulas.get(latex, is_display, base.font().pixelSize())
        if not isinstance(formula, Formula):
            self.has_pending_formulas = self.has_pending_formulas or formula is None
            cursor.insertText(latex, self._formats.code(has_background=True))
            return
        # Qt knows two ways to place a picture: on the font's descent, or with its middle on the baseline.
        descent = QFontMetricsF(base.font()).descent()
        image_format = QTextImageFormat()
        if formula.descent <= descent + 1:
            above, below = formula.ascent, descent
            image_format.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignBaseline)
        else:
            above = below = max(formula.ascent, formula.descent)
            image_format.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
        document = cursor.document()
        image = formula.image(base.foreground().color().name(), above, below)
        name = f"formula:{len(self.formulas)}"
        document.addResource(QTextDocument.ResourceType.ImageResource, QUrl(name), image)
        width = min(image.width() / image.devicePixelRatio(), max(60.0, document.textWidth()))
        image_format.setName(name)
        image_format.setWidth(width)
        image_format.setHeight(image.height() / image.devicePixelRatio() * width / math.ceil(formula.width))
        image_format.setProperty(QTextImageFormat.Property.ImageAltText, latex)
        self.formulas.append(latex)
        cursor.insertImage(image_format)
