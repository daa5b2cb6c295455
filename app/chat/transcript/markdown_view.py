"""A block of an answer's Markdown."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter, QPen, QTextDocument

from app.chat.markdown.document import CODE, INDENT, QUOTE, QUOTE_INDENT, RULE, ClosedDocument, DocumentBuilder
from app.chat.transcript.block_view import BlockView, Span
from app.chat.transcript.style import TranscriptStyle

OBJECT = "\ufffc"  # stands for a picture in a document's text


class MarkdownView(BlockView):
    """A block of an answer's text."""

    def __init__(self, style: TranscriptStyle, source: str) -> None:
        super().__init__(style, source)
        self.gap = style.paragraph_gap
        self._formulas: list[str] = []
        self.has_pending_formulas = False
        if source.startswith("#"):
            self.gap = style.paragraph_gap * 1.6

    def _make(self, width: float) -> QTextDocument:
        document = ClosedDocument()
        document.setUndoRedoEnabled(False)
        document.setTextWidth(width)
        builder = DocumentBuilder(document, self.style)
        builder.build(self.source)
        self._formulas = builder.formulas
        self.has_pending_formulas = builder.has_pending_formulas
        self.height = document.size().height()
        return document

    def text(self, span: Span) -> str:
        """As it is read; a formula as its LaTeX."""
        text = super().text(span)
        if OBJECT not in text or self._document is None:
            return text
        before = self._document.toRawText().encode("utf-16-le", "surrogatepass")[: 2 * span.start]
        number = before.decode("utf-16-le", "replace").count(OBJECT)
        pieces = text.split(OBJECT)
        formulas = [f"${latex}$" for latex in self._formulas[number : number + len(pieces) - 1]] + [""]
        return "".join(piece + formula for piece, formula in zip(pieces, formulas, strict=True))

    def paint(self, painter: QPainter, at: QPointF, clip: QRectF, span: Span | None) -> None:
        self._paint_decorations(painter, at)
        super().paint(painter, at, clip, span)

    def _paint_decorations(self, painter: QPainter, at: QPointF) -> None:
        """Bars of quotations, horizontal rules, the ground of nested code."""
        document = self._document
        if document is None or not self._has_decorations():
            return
        layout = document.documentLayout()
        block = document.begin()
        while block.isValid():
            form = block.blockFormat()
            rect = layout.blockBoundingRect(block).translated(at)
            if depth := form.intProperty(QUOTE):
                for level in range(depth):
                    bar = QRectF(at.x() + level * QUOTE_INDENT + 1, rect.top(), 3, rect.height())
                    painter.fillRect(bar, QColor(self.style.border))
            if form.boolProperty(RULE):
                painter.setPen(QPen(QColor(self.style.border), 1))
                middle = rect.center().y()
                painter.drawLine(QPointF(at.x(), middle), QPointF(at.x() + self.width, middle))
            if form.boolProperty(CODE):
                left = form.indent() * INDENT + form.leftMargin() - 10
                ground = QRectF(at.x() + left, rect.top(), self.width - left, rect.height())
                painter.fillRect(ground, QColor(self.style.code_background))
            block = block.next()

    def _has_decorations(self) -> bool:
        source = self.source
        return (
            ">" in source
            or "---" in source
            or "***" in source
            or "___" in source
            or "    " in source
            or ("```" in source or "~~~" in source)
        )
