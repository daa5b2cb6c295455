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
    QPen,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
)

from app.chat.markdown.document import (
    CODE,
    LINE_HEIGHT,
    QUOTE,
    QUOTE_INDENT,
    RULE,
    ClosedDocument,
    DocumentBuilder,
)
from app.chat.transcript.style import (
    BUBBLE_PADDING_X,
    BUBBLE_PADDING_Y,
    CODE_HEADER,
    CODE_PADDING,
    TranscriptStyle,
)


@dataclass(frozen=True, slots=True)
class Span:
    """Selected characters of a block, [start, end)."""

    start: int
    end: int


class BlockView(ABC):
    """A rectangle of the column. `height` is an estimate until `layout` was called for the current width."""

    gap = 0.0  # distance to the block above

    def __init__(self, style: TranscriptStyle, source: str) -> None:
        self.style = style
        self.source = source
        self.height = 0.0
        self.width = 0.0
        self._document: QTextDocument | None = None
        self.origin = QPointF(0, 0)  # of the text inside the block

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
        self._document = self._make(width)

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
            pieces.append(_separator(block))
            block = block.next()
        text = "".join(pieces[:-1]).replace("\u2028", "\n").replace("\ufffc", "")
        return text.replace("\u00a0", " ")

    def word_at(self, position: int) -> Span:
        if self._document is None:
            return Span(0, 0)
        cursor = QTextCursor(self._document)
        cursor.setPosition(min(position, self.length))
        cursor.select(QTextCursor.SelectionType.WordUnderCursor)
        return Span(cursor.selectionStart(), cursor.selectionEnd())


def _separator(block: QTextBlock) -> str:
    """What stands between a block and the next: a tab inside a table's row, otherwise a line's end."""
    table = QTextCursor(block).currentTable()
    if table is None:
        return "\n"
    here, there = table.cellAt(block.position()), table.cellAt(block.next().position())
    return "\t" if there.isValid() and there.row() == here.row() and there.column() > here.column() else "\n"


def _leading(font: QFont) -> float:
    """Qt puts a line's extra height below its text: that much is taken off the padding under the last one."""
    return QFontMetricsF(font).height() * (LINE_HEIGHT - 100) / 100


class MarkdownView(BlockView):
    """A block of an answer's text."""

    def __init__(self, style: TranscriptStyle, source: str) -> None:
        super().__init__(style, source)
        self.gap = style.paragraph_gap
        if source.startswith("#"):
            self.gap = style.paragraph_gap * 1.6

    def _make(self, width: float) -> QTextDocument:
        document = ClosedDocument()
        document.setUndoRedoEnabled(False)
        document.setTextWidth(width)
        DocumentBuilder(document, self.style).build(self.source)
        self.height = document.size().height()
        return document

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
                ground = QRectF(rect.left() - 10, rect.top(), self.width - (rect.left() - at.x()) + 10, rect.height())
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


class PlainView(BlockView):
    """The owner's words, exactly as typed, in a bubble on the right; a very long text comes in pieces."""

    max_share = 0.82  # of the column

    def __init__(self, style: TranscriptStyle, source: str, part: int = 0, *, is_last: bool = True) -> None:
        super().__init__(style, source)
        self.part, self.is_last = part, is_last

    @property
    def _is_whole(self) -> bool:
        return self.part == 0 and self.is_last

    @property
    def _padding(self) -> tuple[float, float]:
        """Above and below the text."""
        return BUBBLE_PADDING_Y if self.part == 0 else 0.0, BUBBLE_PADDING_Y if self.is_last else 0.0

    def estimate(self, width: float) -> None:
        super().estimate(width * self.max_share - 2 * BUBBLE_PADDING_X)
        self.height += sum(self._padding)

    def _make(self, width: float) -> QTextDocument:
        document = ClosedDocument()
        document.setUndoRedoEnabled(False)
        document.setDocumentMargin(0)
        document.setDefaultFont(self.style.body)
        option = document.defaultTextOption()
        option.setWrapMode(option.WrapMode.WrapAtWordBoundaryOrAnywhere)
        document.setDefaultTextOption(option)
        inner = width * self.max_share - 2 * BUBBLE_PADDING_X
        document.setTextWidth(inner)
        cursor = QTextCursor(document)
        block = cursor.blockFormat()
        block.setLineHeight(LINE_HEIGHT, block.LineHeightTypes.ProportionalHeight.value)
        cursor.setBlockFormat(block)
        form = QTextCharFormat()
        form.setForeground(QColor(self.style.text))
        cursor.insertText(self.source, form)
        ideal = min(inner, document.idealWidth() + 1) if self._is_whole else inner
        document.setTextWidth(ideal)
        above, below = self._padding
        self.height = document.size().height() + above + below - (_leading(self.style.body) if self.is_last else 0)
        self.origin = QPointF(width - ideal - BUBBLE_PADDING_X, above)
        return document

    def _paint_background(self, painter: QPainter, at: QPointF) -> None:
        left = at.x() + self.origin.x() - BUBBLE_PADDING_X
        rect = QRectF(left, at.y(), at.x() + self.width - left, self.height)
        painter.save()
        painter.setClipRect(rect, Qt.ClipOperation.IntersectClip)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self.style.bubble))
        # A piece that is not the first or the last has no rounded edge there: draw past the clip.
        rect.adjust(0, 0 if self.part == 0 else -30, 0, 0 if self.is_last else 30)
        painter.drawRoundedRect(rect, 18, 18)
        painter.restore()


class NoteView(BlockView):
    """A remark of the application under an answer: an error, or something that was left out."""

    def __init__(self, style: TranscriptStyle, source: str, *, serious: bool) -> None:
        super().__init__(style, source)
        self.serious = serious
        self.gap = style.paragraph_gap

    def _make(self, width: float) -> QTextDocument:
        document = ClosedDocument()
        document.setDocumentMargin(0)
        document.setDefaultFont(self.style.small)
        document.setTextWidth(width - 2 * CODE_PADDING - 6)
        cursor = QTextCursor(document)
        block = cursor.blockFormat()
        block.setLineHeight(LINE_HEIGHT, block.LineHeightTypes.ProportionalHeight.value)
        cursor.setBlockFormat(block)
        form = QTextCharFormat()
        form.setForeground(QColor(self.style.text))
        cursor.insertText(self.source, form)
        self.origin = QPointF(CODE_PADDING + 6, 10)
        self.height = document.size().height() + 20 - _leading(self.style.small)
        return document

    def _paint_background(self, painter: QPainter, at: QPointF) -> None:
        rect = QRectF(at.x(), at.y(), self.width, self.height)
        painter.save()
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self.style.danger_background if self.serious else self.style.note_background))
        painter.drawRoundedRect(rect, 10, 10)
        painter.setBrush(QColor(self.style.danger if self.serious else self.style.note))
        painter.drawRoundedRect(QRectF(rect.left() + 8, rect.top() + 10, 3, rect.height() - 20), 1.5, 1.5)
        painter.restore()


class CodeView(BlockView):
    """A block of code, or one piece of a long one: the first has the header, the last the lower edge."""

    def __init__(self, style: TranscriptStyle, source: str, language: str, part: int) -> None:
        super().__init__(style, source)
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
        document = ClosedDocument()
        document.setUndoRedoEnabled(False)
        document.setDocumentMargin(0)
        document.setDefaultFont(self.style.code)
        option = document.defaultTextOption()
        option.setWrapMode(option.WrapMode.WrapAtWordBoundaryOrAnywhere)
        option.setTabStopDistance(self.style.code.pixelSize() * 0.6 * 4)
        document.setDefaultTextOption(option)
        document.setTextWidth(width - 2 * CODE_PADDING)
        cursor = QTextCursor(document)
        block = cursor.blockFormat()
        block.setLineHeight(LINE_HEIGHT, block.LineHeightTypes.ProportionalHeight.value)
        cursor.setBlockFormat(block)
        form = QTextCharFormat()
        form.setFont(self.style.code)
        form.setForeground(QColor(self.style.text))
        cursor.insertText(self.source, form)
        self.origin = QPointF(CODE_PADDING, self.header)
        self.height = document.size().height() + self.header + self.footer
        if self.is_last:
            self.height -= _leading(self.style.code)
        return document

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
