"""One block of a message, laid out when it is first needed and painted from there on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QAbstractTextDocumentLayout,
    QColor,
    QFont,
    QFontMetricsF,
    QPainter,
    QPalette,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
)

from app.chat.markdown.document import LINE_HEIGHT, ClosedDocument
from app.chat.transcript.style import TranscriptStyle
from app.crash import log


@dataclass(frozen=True, slots=True)
class Span:
    """Selected characters of a block, [start, end)."""

    start: int
    end: int


class BlockView(ABC):
    """A rectangle of the column. `height` is an estimate until `layout` was called for the current width."""

    gap = 0.0  # distance to the block above
    break_before = "\n\n"  # what stands between it and the block above in copied text

    def __init__(self, style: TranscriptStyle, source: str) -> None:
        self.style = style
        self.source = source
        self.height = 0.0
        self.width = 0.0
        self._document: QTextDocument | None = None
        self.origin = QPointF(0, 0)  # of the text inside the block
        self.grown_from = 0.0  # below its top, where what `grow` added last is to be painted

    @property
    def is_laid_out(self) -> bool:
        return self._document is not None

    def estimate(self, width: float) -> None:
        """A height good enough to scroll by, at the price of counting characters."""
        per_line = max(10.0, width / (self.style.body.pixelSize() * 0.52))
        lines = self.source.count("\n") + 1 + len(self.source) / per_line
        self.height = lines * self.style.body.pixelSize() * 1.5
        self._document = None

    def layout(self, width: float) -> None:
        self.width = width
        try:
            self._document = self._make(width)
        except Exception as error:  # whatever a model writes, its words are shown
            log.warning("a block cannot be rendered and is shown as it stands: %r", error)
            self._document = plain_document(self.source, self.style.body, self.style.text, width)
            self.height = self._document.size().height()

    def grow(self, source: str) -> bool:
        """Become the block of `source` without being laid out anew; False where that cannot be."""
        return False

    def release(self) -> None:
        """Give the laid-out text back; the height stays."""
        self._document = None

    @abstractmethod
    def _make(self, width: float) -> QTextDocument:
        """Build the document, set `height` and `origin`."""

    def paint(self, painter: QPainter, at: QPointF, clip: QRectF, span: Span | None) -> None:
        """Draw with the block's corner at `at`; `clip` is in the same coordinates."""
        document = self._document
        if document is None:
            return
        self._paint_background(painter, at)
        painter.save()
        painter.translate(at + self.origin)
        context = QAbstractTextDocumentLayout.PaintContext()
        context.clip = clip.translated(-(at + self.origin))
        context.palette.setColor(QPalette.ColorRole.Text, QColor(self.style.text))
        if span is not None and span.end > span.start:
            context.selections = [self._selection(document, span)]
        document.documentLayout().draw(painter, context)
        painter.restore()

    def _paint_background(self, painter: QPainter, at: QPointF) -> None:
        """Draw what lies behind the text; most blocks stand on the window itself."""
        return

    def _selection(self, document: QTextDocument, span: Span) -> QAbstractTextDocumentLayout.Selection:
        selection = QAbstractTextDocumentLayout.Selection()
        cursor = QTextCursor(document)
        cursor.setPosition(min(span.start, self.length))
        cursor.setPosition(min(span.end, self.length), QTextCursor.MoveMode.KeepAnchor)
        selection.cursor = cursor
        form = QTextCharFormat()
        form.setBackground(QColor(self.style.selection))
        selection.format = form
        return selection

    @property
    def length(self) -> int:
        """Positions are 0..length. Laying out is needed to know it."""
        return self._document.characterCount() - 1 if self._document is not None else 0

    def position_at(self, point: QPointF) -> int:
        if self._document is None:
            return 0
        hit = self._document.documentLayout().hitTest(point - self.origin, Qt.HitTestAccuracy.FuzzyHit)
        return max(0, hit)

    def link_at(self, point: QPointF) -> str:
        if self._document is None:
            return ""
        return self._document.documentLayout().anchorAt(point - self.origin)

    def text(self, span: Span) -> str:
        """Selected text as it is read, for the clipboard."""
        if self._document is None:
            return ""
        pieces: list[str] = []
        block = self._document.findBlock(span.start)
        while block.isValid() and block.position() <= span.end:
            units = block.text().encode("utf-16-le", "surrogatepass")  # as Qt counts positions
            start = max(0, span.start - block.position())
            end = max(0, span.end - block.position())
            pieces.append(units[2 * start : 2 * end].decode("utf-16-le", "replace"))
            pieces.append(separator(block))
            block = block.next()
        text = "".join(pieces[:-1]).replace("\u2028", "\n")
        return text.replace("\u00a0", " ")

    def word_at(self, position: int) -> Span:
        if self._document is None:
            return Span(0, 0)
        cursor = QTextCursor(self._document)
        cursor.setPosition(min(position, self.length))
        cursor.select(QTextCursor.SelectionType.WordUnderCursor)
        return Span(cursor.selectionStart(), cursor.selectionEnd())


def separator(block: QTextBlock) -> str:
    """What stands between a block and the next: a tab inside a table's row, otherwise a line's end."""
    table = QTextCursor(block).currentTable()
    if table is None:
        return "\n"
    here, there = table.cellAt(block.position()), table.cellAt(block.next().position())
    return "\t" if there.isValid() and there.row() == here.row() and there.column() > here.column() else "\n"


def leading(font: QFont) -> float:
    """Qt puts a line's extra height below its text: that much is taken off the padding under the last one."""
    return QFontMetricsF(font).height() * (LINE_HEIGHT - 100) / 100


def plain_document(text: str, font: QFont, color: str, width: float) -> QTextDocument:
    """Text exactly as it is, wrapped at `width`."""
    document = ClosedDocument()
    document.setUndoRedoEnabled(False)
    document.setDocumentMargin(0)
    document.setDefaultFont(font)
    option = document.defaultTextOption()
    option.setWrapMode(option.WrapMode.WrapAtWordBoundaryOrAnywhere)
    document.setDefaultTextOption(option)
    document.setTextWidth(width)
    cursor = QTextCursor(document)
    block = cursor.blockFormat()
    block.setLineHeight(LINE_HEIGHT, block.LineHeightTypes.ProportionalHeight.value)
    cursor.setBlockFormat(block)
    form = QTextCharFormat()
    form.setForeground(QColor(color))
    cursor.insertText(text, form)
    return document
