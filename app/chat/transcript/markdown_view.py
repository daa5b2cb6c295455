"""A block of an answer's Markdown."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter, QTextCursor, QTextDocument

from app.chat.markdown.continuation import is_plain_continuation
from app.chat.markdown.document import ClosedDocument, DocumentBuilder
from app.chat.transcript.block_view import BlockView, Span
from app.chat.transcript.decorations import Decoration, find_decorations, has_decorations, paint_decorations
from app.chat.transcript.style import TranscriptStyle

OBJECT = "\ufffc"  # stands for a picture in a document's text


class MarkdownView(BlockView):
    """A block of an answer's text."""

    def __init__(self, style: TranscriptStyle, source: str) -> None:
        super().__init__(style, source)
        self.gap = style.paragraph_gap
        self._end: QTextCursor | None = None  # of the document, where words are added
        self._decorations: list[Decoration] | None = None  # found by the first painting
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
        self._formulas = builder.inline.formulas
        self.has_pending_formulas = builder.inline.has_pending_formulas
        self.height = document.size().height()
        self._end = self._decorations = None
        return document

    def grow(self, source: str) -> bool:
        """Words that mean nothing but themselves are put at the document's end; anything else is parsed anew."""
        document = self._document
        if document is None or not is_plain_continuation(self.source, source):
            return False
        block = document.lastBlock()
        # After a table Qt keeps an empty block of its own: there the end of the text is not the end of the document.
        if not block.text().endswith(self.source[-1]):
            return False
        layout = document.documentLayout()
        last_line = block.layout().lineAt(block.layout().lineCount() - 1)
        self.grown_from = min(self.grown_from, layout.blockBoundingRect(block).top() + last_line.y())
        if self._end is None:
            self._end = QTextCursor(document)
            self._end.movePosition(QTextCursor.MoveOperation.End)
        self._end.insertText(source[len(self.source) :])
        self.source = source
        height = document.size().height()
        if height != self.height:  # another line: the bar of a quotation is longer
            self.height, self._decorations = height, None
        return True

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
        if self._document is not None and self._decorations is None:
            is_plain = not has_decorations(self.source)
            self._decorations = [] if is_plain else find_decorations(self._document, self.width, self.style)
        if self._decorations:
            paint_decorations(painter, self._decorations, at, clip)
        super().paint(painter, at, clip, span)
