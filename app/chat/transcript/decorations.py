"""What is painted behind and beside an answer's text: bars of quotations, rules, bullets, the ground of code.

Qt's own bullets are as heavy as a letter and touch the words, and its ground of inline code is a sharp box as high as
the line; both are painted here instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QTextBlock, QTextDocument, QTextFragment

from app.chat.markdown.character_formats import INLINE_CODE
from app.chat.markdown.document import BULLET, CODE, INDENT, QUOTE, QUOTE_INDENT, RULE
from app.chat.transcript.style import TranscriptStyle

# Without one of these there is nothing to paint.
SIGNS = (">", "---", "***", "___", "    ", "`", "~~~", "- ", "* ", "+ ", "$", "\\(", "\\[")
BULLET_RADIUS = 2.4
BULLET_DISTANCE = 13.0  # from the words, middle to edge
CODE_RADIUS = 4.0


def has_decorations(source: str) -> bool:
    return any(sign in source for sign in SIGNS)


class Decoration(NamedTuple):
    """A rectangle in a document's coordinates, filled; `radius` of its corners."""

    rect: QRectF
    color: QColor
    radius: float = 0.0


def find_decorations(document: QTextDocument, width: float, style: TranscriptStyle) -> list[Decoration]:
    """What stands behind and beside a laid-out text, in the order of painting. Looked for once, painted often."""
    layout = document.documentLayout()
    found: list[Decoration] = []
    block = document.begin()
    while block.isValid():
        form = block.blockFormat()
        rect = layout.blockBoundingRect(block)
        for level in range(form.intProperty(QUOTE)):
            distance = level * QUOTE_INDENT + 1
            to_left = block.textDirection() == Qt.LayoutDirection.RightToLeft
            left = width - distance - 3 if to_left else distance
            found.append(Decoration(QRectF(left, rect.top(), 3, rect.height()), QColor(style.border)))
        if form.boolProperty(RULE):
            found.append(Decoration(QRectF(0, rect.center().y() - 0.5, width, 1), QColor(style.border)))
        if form.boolProperty(CODE):
            left = form.indent() * INDENT + form.leftMargin() - 10
            ground = QRectF(left, rect.top(), width - left, rect.height())
            found.append(Decoration(ground, QColor(style.code_background)))
        if form.boolProperty(BULLET):
            found.extend(_bullet(block, rect, style))
        found.extend(_inline_code(block, rect, style))
        block = block.next()
    return found


def paint_decorations(painter: QPainter, decorations: Iterable[Decoration], at: QPointF, clip: QRectF) -> None:
    """Of a document whose text will be drawn with its corner at `at`; `clip` is in the painter's coordinates."""
    shown = clip.translated(-at)
    painter.save()
    painter.translate(at)
    painter.setPen(Qt.PenStyle.NoPen)
    for rect, color, radius in decorations:
        if not rect.intersects(shown):
            continue
        if radius:
            painter.setBrush(color)
            painter.drawRoundedRect(rect, radius, radius)
        else:
            painter.fillRect(rect, color)
    painter.restore()


def _bullet(block: QTextBlock, rect: QRectF, style: TranscriptStyle) -> Iterator[Decoration]:
    line = block.layout().lineAt(0)
    if not line.isValid():
        return
    text = line.naturalTextRect()
    to_left = block.textDirection() == Qt.LayoutDirection.RightToLeft
    x = rect.left() + (text.right() + BULLET_DISTANCE if to_left else line.x() - BULLET_DISTANCE)
    y = rect.top() + line.y() + line.ascent() - QFontMetricsF(style.body).xHeight() / 2
    size = 2 * BULLET_RADIUS
    yield Decoration(QRectF(x - BULLET_RADIUS, y - BULLET_RADIUS, size, size), QColor(style.muted), BULLET_RADIUS)


def _inline_code(block: QTextBlock, rect: QRectF, style: TranscriptStyle) -> Iterator[Decoration]:
    metrics = QFontMetricsF(style.code)
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
            top = rect.top() + line.y() + line.ascent() - metrics.ascent()
            ground = QRectF(rect.left() + left - 2, top - 1, right - left + 4, metrics.height() + 2)
            yield Decoration(ground, QColor(style.inline_code_background), CODE_RADIUS)
            start = stop


def _fragments(block: QTextBlock) -> Iterator[QTextFragment]:
    iterator = block.begin()
    while not iterator.atEnd():
        yield iterator.fragment()
        iterator += 1
