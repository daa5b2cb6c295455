"""Text that is shown exactly as it is: the owner's words, a model's reasoning, the application's remarks."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QTextDocument

from app.chat.transcript.block_view import BlockView, leading, plain_document
from app.chat.transcript.style import BUBBLE_PADDING_X, BUBBLE_PADDING_Y, CODE_PADDING, TranscriptStyle
from app.translation import tr

ATTACHMENT_HEIGHT = 34.0
REASONING_INDENT = 16
FOLD_HEADER_HEIGHT = 30.0


class PlainView(BlockView):
    """The owner's words, exactly as typed, in a bubble on the right; a very long text comes in pieces."""

    max_share = 0.82  # of the column

    def __init__(self, style: TranscriptStyle, source: str, part: int = 0, *, is_last: bool = True) -> None:
        super().__init__(style, source)
        self.part, self.is_last = part, is_last
        self.gap = 0.0 if part else 10.0  # below a file's name or a summary
        self.break_before = "\n" if part else "\n\n"

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
        inner = width * self.max_share - 2 * BUBBLE_PADDING_X
        document = plain_document(self.source, self.style.body, self.style.text, inner)
        ideal = min(inner, document.idealWidth() + 1) if self._is_whole else inner
        document.setTextWidth(ideal)
        above, below = self._padding
        self.height = document.size().height() + above + below - (leading(self.style.body) if self.is_last else 0)
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


class AttachmentView(BlockView):
    """The name of a file that went along with the owner's message."""

    def __init__(self, style: TranscriptStyle, name: str, pages: int, characters: int) -> None:
        size = tr("{count} pages", count=pages) if pages else tr("{count} characters", count=f"{characters:,}")
        super().__init__(style, f"{name}  ·  {size}")
        self.gap = 6.0

    def estimate(self, width: float) -> None:
        self.height = ATTACHMENT_HEIGHT
        self._document = None

    def _make(self, width: float) -> QTextDocument:
        document = plain_document(self.source, self.style.small, self.style.muted, width * 0.8)
        document.setTextWidth(min(width * 0.8, document.idealWidth() + 1))
        self.origin = QPointF(width - document.textWidth() - 14, 8)
        self.height = max(ATTACHMENT_HEIGHT, document.size().height() + 16 - leading(self.style.small))
        return document

    def _paint_background(self, painter: QPainter, at: QPointF) -> None:
        left = at.x() + self.origin.x() - 14
        rect = QRectF(left + 0.5, at.y() + 0.5, at.x() + self.width - left - 1, self.height - 1)
        painter.save()
        painter.setPen(QPen(QColor(self.style.border), 1))
        painter.setBrush(QColor(self.style.code_background))
        painter.drawRoundedRect(rect, 10, 10)
        painter.restore()


class NoteView(BlockView):
    """A remark of the application under an answer: an error, or something that was left out."""

    def __init__(self, style: TranscriptStyle, source: str, *, serious: bool) -> None:
        super().__init__(style, source)
        self.serious = serious
        self.gap = style.paragraph_gap

    def _make(self, width: float) -> QTextDocument:
        document = plain_document(self.source, self.style.small, self.style.text, width - 2 * CODE_PADDING - 6)
        self.origin = QPointF(CODE_PADDING + 6, 10)
        self.height = document.size().height() + 20 - leading(self.style.small)
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


class FoldHeader(BlockView):
    """The place of a button that folds what follows it. `key` names it within its message."""

    gap = 4.0

    def __init__(self, style: TranscriptStyle, key: str, words: str, *, is_unfolded: bool) -> None:
        super().__init__(style, "")
        self.key, self.words, self.is_unfolded = key, words, is_unfolded
        self.height = FOLD_HEADER_HEIGHT

    def estimate(self, width: float) -> None:
        self.height = FOLD_HEADER_HEIGHT

    def _make(self, width: float) -> QTextDocument:
        return plain_document("", self.style.small, self.style.muted, width)


class ReasoningView(BlockView):
    """A model's reasoning, literally; a long one comes in pieces."""

    def __init__(self, style: TranscriptStyle, source: str, part: int = 0, *, is_last: bool = True) -> None:
        super().__init__(style, source)
        self.part, self.is_last = part, is_last
        self.break_before = "\n" if part else "\n\n"
        self.gap = 4.0 if part == 0 else 0.0

    def _make(self, width: float) -> QTextDocument:
        document = plain_document(self.source, self.style.reasoning, self.style.muted, width - REASONING_INDENT)
        self.origin = QPointF(REASONING_INDENT, 0)
        self.height = document.size().height()
        return document

    def _paint_background(self, painter: QPainter, at: QPointF) -> None:
        painter.fillRect(QRectF(at.x() + 1, at.y(), 2, self.height), QColor(self.style.border))
