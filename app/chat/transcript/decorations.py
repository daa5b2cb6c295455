"""What is painted behind and beside an answer's text: bars of quotations, rules, bullets, the ground of code.

Qt's own bullets are as heavy as a letter and touch the words, and its ground of inline code is a sharp box as high as
the line; both are painted here instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen, QTextBlock, QTextDocument, QTextFragment

from app.chat.markdown.document import BULLET, CODE, INDENT, INLINE_CODE, QUOTE, QUOTE_INDENT, RULE
from app.chat.transcript.style import TranscriptStyle

# Without one of these there is nothing to paint.
SIGNS = (">", "---", "***", "___", "    ", "`", "~~~", "- ", "* ", "+ ", "$", "\\(", "\\[")
BULLET_RADIUS = 2.4
BULLET_DISTANCE = 13.0  # from the words, middle to edge
CODE_RADIUS = 4.0


def has_decorations(source: str) -> bool:
    return any(sign in source for sign in SIGNS)


def paint_decorations(
    painter: QPainter, document: QTextDocument, at: QPointF, width: float, style: TranscriptStyle
) -> None:
    """For a document whose text will be drawn with its corner at `at`."""
    layout = document.documentLayout()
    block = document.begin()
    while block.isValid():
        form = block.blockFormat()
        rect = layout.blockBoundingRect(block).translated(at)
        for level in range(form.intProperty(QUOTE)):
            distance = level * QUOTE_INDENT + 1
            to_left = block.textDirection() == Qt.LayoutDirection.RightToLeft
            left = at.x() + (width - distance - 3 if to_left else distance)
            painter.fillRect(QRectF(left, rect.top(), 3, rect.height()), QColor(style.border))
        if form.boolProperty(RULE):
            painter.setPen(QPen(QColor(style.border), 1))
            middle = rect.center().y()
            painter.drawLine(QPointF(at.x(), middle), QPointF(at.x() + width, middle))
        if form.boolProperty(CODE):
            left = form.indent() * INDENT + form.leftMargin() - 10
            ground = QRectF(at.x() + left, rect.top(), width - left, rect.height())
            painter.fillRect(ground, QColor(style.code_background))
        if form.boolProperty(BULLET):
            _paint_bullet(painter, block, rect, style)
        _paint_inline_code(painter, block, rect, style)
        block = block.next()


def _paint_bullet(painter: QPainter, block: QTextBlock, rect: QRectF, style: TranscriptStyle) -> None:
    line = block.layout().lineAt(0)
    if not line.isValid():
        return
    text = line.naturalTextRect()
    to_left = block.textDirection() == Qt.LayoutDirection.RightToLeft
    x = rect.left() + (text.right() + BULLET_DISTANCE if to_left else line.x() - BULLET_DISTANCE)
    y = rect.top() + line.y() + line.ascent() - QFontMetricsF(style.body).xHeight() / 2
    painter.save()
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(style.muted))
    painter.drawEllipse(QPointF(x, y), BULLET_RADIUS, BULLET_RADIUS)
    painter.restore()


def _paint_inline_code(painter: QPainter, block: QTextBlock, rect: QRectF, style: TranscriptStyle) -> None:
    height = QFontMetricsF(style.code).height()
    for fragment in _fragments(block):
        if not fragment.charFormat().boolProperty(INLINE_CODE):
            continue
        start = fragment.position() - block.position()
        end = start + fragment.length()
        while start < end:
            line = block.layout().lineForTextPosition(start)
            stop = min(end, line.textStart() + line.textLength())
            if not line.isValid() or stop <= start:
                break
            edges = [line.cursorToX(position)[0] for position in range(start, stop + 1)]
            left, right = min(edges), max(edges)
            top = rect.top() + line.y() + line.ascent() - QFontMetricsF(style.code).ascent()
            ground = QRectF(rect.left() + left - 2, top - 1, right - left + 4, height + 2)
            painter.save()
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(style.inline_code_background))
            painter.drawRoundedRect(ground, CODE_RADIUS, CODE_RADIUS)
            painter.restore()
            start = stop


def _fragments(block: QTextBlock) -> Iterator[QTextFragment]:
    iterator = block.begin()
    while not iterator.atEnd():
        yield iterator.fragment()
        iterator += 1
