"""The Discover list: painted rows of one height, so that a thousand of them scroll as easily as ten."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen, QStaticText
from PySide6.QtWidgets import QFrame, QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.library.results_model import ResultRow, ResultsModel, RowRole
from app.theme.theme import Theme
from app.translation import tr

PADDING = 14
ROW_HEIGHT = 84
LINE = 20
KEPT_TEXTS = 4000
RADIUS = 10


class _Delegate(QStyledItemDelegate):
    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        theme.changed.connect(self._apply_theme)
        self._apply_theme()

    def _apply_theme(self) -> None:
        theme = self._theme
        self._title = theme.font(theme.type.control, QFont.Weight.DemiBold)
        self._small = theme.font(theme.type.small)
        self._tiny = theme.font(theme.type.tiny)
        self._texts: dict[tuple[str, str, int], QStaticText] = {}
        self._metrics = {font.key(): QFontMetrics(font) for font in (self._title, self._small, self._tiny)}

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        row: ResultRow = index.data(RowRole)
        return QSize(200, ROW_HEIGHT + (LINE if row.wanted_file else 0))

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        row: ResultRow = index.data(RowRole)
        colors = self._theme.colors
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area = option.rect.adjusted(0, 2, -2, -2)
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        if selected or option.state & QStyle.StateFlag.State_MouseOver:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colors.accent_soft if selected else colors.hover))
            painter.drawRoundedRect(area, RADIUS, RADIUS)
        if selected and option.state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(QPen(QColor(colors.accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(area.adjusted(0, 0, -1, -1), RADIUS, RADIUS)
        inner = area.adjusted(PADDING, 10, -PADDING, -10)
        title = QRect(inner.left(), inner.top(), inner.width(), 22)
        if row.gated:
            title = self._badge(painter, title)
        self._line(painter, title, self._title, colors.text, row.title)
        subtitle = QRect(inner.left(), inner.top() + 22, inner.width(), LINE)
        if row.wanted_file:  # why it is recommended takes two lines
            laid_out = self._laid_out(self._small, row.subtitle, inner.width(), 2)
            subtitle.setHeight(2 * LINE if laid_out.size().height() > LINE else LINE)
            self._line(painter, subtitle, self._small, colors.muted, row.subtitle, lines=2)
        else:
            self._line(painter, subtitle, self._small, colors.muted, row.subtitle)
        facts = QRect(inner.left(), subtitle.bottom() + 2, inner.width(), 18)
        self._line(painter, facts, self._tiny, colors.muted, row.facts)
        painter.restore()

    def _line(self, painter: QPainter, area: QRect, font: QFont, color: str, text: str, lines: int = 1) -> None:
        laid_out = self._laid_out(font, text, area.width(), lines)
        painter.setFont(font)
        painter.setPen(QColor(color))
        top = area.top() + (area.height() - laid_out.size().height()) / 2 if lines == 1 else area.top()
        painter.drawStaticText(QPointF(area.left(), top), laid_out)

    def _laid_out(self, font: QFont, text: str, width: int, lines: int) -> QStaticText:
        """Kept, because fitting and shaping a line takes longer than drawing it: a list that scrolls repeats itself."""
        key = (font.key(), text, width)
        if key not in self._texts:
            if len(self._texts) >= KEPT_TEXTS:
                self._texts.clear()
            metrics = self._metrics[font.key()]
            fitting = text if lines > 1 else metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)
            laid_out = QStaticText(fitting)
            laid_out.setTextFormat(Qt.TextFormat.PlainText)
            if lines > 1:
                laid_out.setTextWidth(width)
            laid_out.prepare(font=font)
            self._texts[key] = laid_out
        return self._texts[key]

    def _badge(self, painter: QPainter, line: QRect) -> QRect:
        """A “gated” pill at the line's right end; what is left of the line."""
        text = tr("gated")
        width = self._metrics[self._tiny.key()].horizontalAdvance(text) + 16
        area = QRect(line.right() - width + 1, line.top() + 2, width, 18)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._theme.colors.warning_soft))
        painter.drawRoundedRect(area, 9, 9)
        painter.setFont(self._tiny)
        painter.setPen(QColor(self._theme.colors.warning))
        painter.drawText(area, Qt.AlignmentFlag.AlignCenter, text)
        return line.adjusted(0, 0, -width - 8, 0)


class ResultsList(QListView):
    chosen = Signal(object)  # ResultRow
    end_reached = Signal()

    def __init__(self, theme: Theme, model: ResultsModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("results")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setModel(model)
        self.setItemDelegate(_Delegate(theme, self))
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName(tr("Models found"))
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.selectionModel().currentChanged.connect(self._current_changed)
        model.modelReset.connect(lambda: self.scrollToTop())

    def _current_changed(self, current: QModelIndex) -> None:
        if current.isValid():
            self.chosen.emit(current.data(RowRole))

    def _scrolled(self, value: int) -> None:
        if value >= self.verticalScrollBar().maximum() - 3 * ROW_HEIGHT:
            self.end_reached.emit()
