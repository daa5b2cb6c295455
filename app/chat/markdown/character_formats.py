"""How characters look: body, headings, code, links, and what stands in them."""

from __future__ import annotations

from PySide6.QtGui import QColor, QFont, QTextCharFormat

from app.chat.transcript.style import TranscriptStyle

INLINE_CODE = QTextCharFormat.Property.UserProperty + 5  # characters of code within a sentence


class CharacterFormats:
    def __init__(self, style: TranscriptStyle) -> None:
        self._style = style

    def body(self, *, is_quoted: bool = False) -> QTextCharFormat:
        form = QTextCharFormat()
        form.setFont(self._style.body)
        form.setForeground(QColor(self._style.muted if is_quoted else self._style.text))
        return form

    def heading(self, level: int) -> QTextCharFormat:
        font = QFont(self._style.body)
        font.setPixelSize(self._style.heading_sizes[level - 1])
        font.setWeight(QFont.Weight.DemiBold)
        form = QTextCharFormat()
        form.setFont(font)
        form.setForeground(QColor(self._style.text))
        return form

    def code(self, *, has_background: bool) -> QTextCharFormat:
        form = QTextCharFormat()
        form.setFont(self._style.code)
        form.setForeground(QColor(self._style.text))
        if has_background:
            form.setProperty(INLINE_CODE, True)
        return form

    def inline_code(self, base: QTextCharFormat) -> QTextCharFormat:
        form = self.code(has_background=True)
        if base.isAnchor():
            form.setAnchor(True)
            form.setAnchorHref(base.anchorHref())
            form.setForeground(base.foreground())
        return form

    def link(self, base: QTextCharFormat, href: str) -> QTextCharFormat:
        form = QTextCharFormat(base)
        form.setAnchor(True)
        form.setAnchorHref(href)
        form.setForeground(QColor(self._style.link))
        form.setFontUnderline(True)
        return form

    @staticmethod
    def bold(base: QTextCharFormat) -> QTextCharFormat:
        form = QTextCharFormat(base)
        form.setFontWeight(QFont.Weight.DemiBold)
        return form

    @staticmethod
    def italic(base: QTextCharFormat) -> QTextCharFormat:
        form = QTextCharFormat(base)
        form.setFontItalic(True)
        return form

    @staticmethod
    def struck_out(base: QTextCharFormat) -> QTextCharFormat:
        form = QTextCharFormat(base)
        form.setFontStrikeOut(True)
        return form
