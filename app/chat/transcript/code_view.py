"""A block of code: language, colours, and a button to copy it (placed by the overlay)."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QTextCharFormat, QTextCursor, QTextDocument

from app.chat.markdown.highlight import highlight
from app.chat.transcript.block_view import BlockView, Span, leading, plain_document
from app.chat.transcript.style import CODE_HEADER, CODE_PADDING, TranscriptStyle


class CodeView(BlockView):
    """A block of code, or one piece of a long one: the first has the header, the last the lower edge."""

    def __init__(self, style: TranscriptStyle, source: str, language: str, part: int, *, joined: bool = False) -> None:
        super().__init__(style, source)
        self.break_before = "\n\n" if part == 0 else "" if joined else "\n"
        self.language = language
        self.part = part
        self.is_last = True
        self.gap = style.paragraph_gap if part == 0 else 0.0

    @property
    def header(self) -> float:
        return CODE_HEADER if self.part == 0 else 0.0

    @property
    def footer(self) -> float:
        return CODE_PADDING if self.is_last else 0.0

    def estimate(self, width: float) -> None:
        lines = self.source.count("\n") + 1
        self.height = lines * self.style.code.pixelSize() * 1.5 + self.header + self.footer
        self._document = None

    def _make(self, width: float) -> QTextDocument:
        document = plain_document("", self.style.code, self.style.text, width - 2 * CODE_PADDING)
        option = document.defaultTextOption()
        option.setTabStopDistance(self.style.code.pixelSize() * 0.6 * 4)
        document.setDefaultTextOption(option)
        self._write(QTextCursor(document))
        self.origin = QPointF(CODE_PADDING, self.header)
        self.height = document.size().height() + self.header + self.footer
        if self.is_last:
            self.height -= leading(self.style.code)
        return document

    def _write(self, cursor: QTextCursor) -> None:
        """The code in its colours; each kind of token has one."""
        form = QTextCharFormat()
        form.setFont(self.style.code)
        form.setForeground(QColor(self.style.text))
        colors = dict(self.style.syntax)
        for text, kind in highlight(self.source, self.language):
            if kind:
                colored = QTextCharFormat(form)
                colored.setForeground(QColor(colors[kind]))
                cursor.insertText(text, colored)
            else:
                cursor.insertText(text, form)

    def _paint_background(self, painter: QPainter, at: QPointF) -> None:
        rect = QRectF(at.x() + 0.5, at.y() + 0.5, self.width - 1, self.height - 1)
        painter.save()
        painter.setClipRect(QRectF(at.x(), at.y(), self.width, self.height))
        # A piece that is not the first or the last has no rounded edge there: draw past the clip.
        rect.adjust(0, 0 if self.part == 0 else -20, 0, 0 if self.is_last else 20)
        painter.setPen(QPen(QColor(self.style.code_border), 1))
        painter.setBrush(QColor(self.style.code_background))
        painter.drawRoundedRect(rect, 10, 10)
        if self.part == 0:
            painter.setPen(QColor(self.style.muted))
            painter.setFont(self.style.small)
            label = QRectF(at.x() + CODE_PADDING, at.y(), self.width - 120, CODE_HEADER)
            painter.drawText(label, int(Qt.AlignmentFlag.AlignVCenter), self.language or "text")
        painter.restore()

    def text(self, span: Span) -> str:
        """Exactly the code's characters; no-break spaces are kept here."""
        if self._document is None:
            return ""
        units = self._document.toRawText().encode("utf-16-le", "surrogatepass")  # as Qt counts positions
        text = units[2 * span.start : 2 * span.end].decode("utf-16-le", "replace")
        return text.replace("\u2029", "\n")
