"""A memory as two stacked bars: what the plan takes above, what is really used below. Hue = place, shade = purpose."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QHelpEvent, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from app.placement.memory_parts import Bar, Part, Purpose
from app.placement.words import gib
from app.theme.kept_picture import KeptPicture
from app.theme.theme import Theme
from app.theme.tokens import contrast
from app.translation import tr

PLANNED, NOW, GAP = 24, 10, 5
TITLE = 22
LEGEND = 22
_SHADES = {Purpose.WEIGHTS: 1.0, Purpose.EXPERTS: 0.62, Purpose.STATE: 0.36, Purpose.SCRATCH: 0.2, Purpose.APP: 0.5}


class MemoryBar(QWidget):
    """`hue`: "gpu" or "ram"."""

    def __init__(self, theme: Theme, name: str, hue: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme, self._name, self._hue = theme, name, hue
        self._bar = Bar(0)
        self._missing = ""
        self._picture = KeptPicture(self, theme, self._draw)
        self.setFixedHeight(TITLE + PLANNED + GAP + LEGEND)
        theme.changed.connect(self.update)

    def show_bar(self, bar: Bar, missing: str = "") -> None:
        """`missing`: why nothing is measured."""
        if (bar, missing) == (self._bar, self._missing):
            return
        look, summary = self._look(), self._summary()
        self._bar, self._missing = bar, missing
        self.setFixedHeight(TITLE + PLANNED + GAP + (NOW + GAP if bar.now else 0) + LEGEND)
        self.setAccessibleName(f"{self._name}: {gib(bar.total)}")
        self.setAccessibleDescription(
            "; ".join(
                f"{words}: " + ", ".join(f"{tr(part.purpose.value)} {gib(part.bytes)}" for part in parts)
                for words, parts in ((tr("planned"), bar.planned), (tr("now"), bar.now))
                if parts
            )
        )
        if self._look() != look:
            self._picture.forget()
        elif self._summary() != summary:
            self.update(0, 0, self.width(), TITLE)

    def sizeHint(self) -> QSize:
        return QSize(480, self.height())

    # --- drawing ----------------------------------------------------------------------------------------------

    def color_of(self, purpose: Purpose) -> QColor:
        """Shades of the place's hue over the card, so that bar and map speak the same language."""
        theme = self._theme
        if purpose is Purpose.OTHER:
            return theme.color("other")
        if purpose in (Purpose.FREE, Purpose.CACHE):
            return theme.color("card")
        dark, base, card = (theme.color(n) for n in (f"place_{self._hue}_hot", f"place_{self._hue}", "card"))
        shade = _SHADES[purpose]
        if theme.name == "dark":  # there, more light is more ink
            shade = {1.0: 1.0, 0.62: 0.95, 0.36: 0.62, 0.2: 0.42}.get(shade, shade)
        return _mixed(dark, base, 0.45) if shade == 1.0 else _mixed(base, card, shade)

    def _look(self) -> tuple[object, ...]:
        """What the picture shows of the bar. Four times a second some byte is another one; mostly no pixel is."""
        bar = self._bar
        edges = [
            (part.purpose, box.left(), box.right())
            for parts in (bar.planned, bar.now)
            for part, box in self._boxes(parts, 0, 0)
        ]
        return tuple(edges), tuple(gib(part.bytes) for part in bar.planned or bar.now), bool(bar.now)

    def paintEvent(self, event: QPaintEvent) -> None:
        """From a picture: its patterns and rounded ends cost 2 ms, and whatever moves on the page paints it again. The
        title is written each time: its sizes change while nothing else does."""
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._picture.pixmap())
        self._paint_title(painter)
        painter.end()

    def _draw(self, painter: QPainter) -> None:
        self._paint_row(painter, self._bar.planned, TITLE, PLANNED, labels=True)
        if self._bar.now:
            self._paint_row(painter, self._bar.now, TITLE + PLANNED + GAP, NOW, labels=False)
        self._paint_legend(painter)

    def _paint_title(self, painter: QPainter) -> None:
        theme = self._theme
        painter.setFont(theme.font(theme.type.small, theme.font(1).Weight.DemiBold))
        painter.setPen(theme.color("text"))
        line = QRectF(0, 0, self.width(), TITLE - 6)
        painter.drawText(line, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self._name)
        painter.setFont(theme.font(theme.type.tiny))
        painter.setPen(theme.color("muted"))
        painter.drawText(line, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, self._summary())

    def _summary(self) -> str:
        bar = self._bar

        def ours(parts: tuple[Part, ...]) -> int:
            return sum(p.bytes for p in parts if p.purpose not in (Purpose.FREE, Purpose.OTHER, Purpose.CACHE))

        now = tr("now {size}", size=gib(ours(bar.now))) if bar.now else self._missing
        planned = tr("planned {size}", size=gib(ours(bar.planned)))
        return "  ·  ".join(filter(None, (planned if bar.planned else "", now, tr("of {size}", size=gib(bar.total)))))

    def _paint_row(self, painter: QPainter, parts: tuple[Part, ...], y: int, height: int, *, labels: bool) -> None:
        theme = self._theme
        whole = QRectF(0, y, self.width(), height)
        clip = QPainterPath()
        clip.addRoundedRect(whole, min(5, height / 2), min(5, height / 2))
        painter.fillPath(clip, theme.color("hover"))
        if not parts or not self._bar.total:
            return
        painter.save()
        painter.setClipPath(clip)
        painter.setFont(theme.font(theme.type.tiny))
        for part, box in self._boxes(parts, y, height):
            self._paint_part(painter, part, box)
            if labels:
                self._paint_label(painter, part, box)
        painter.restore()

    def _boxes(self, parts: tuple[Part, ...], y: int, height: int) -> list[tuple[Part, QRectF]]:
        """Ours from the left, other programs at the right end; edges lie between the screen's pixels."""
        width, pixels = self.width(), self.devicePixelRatioF()
        scale = width / max(1, self._bar.total, sum(part.bytes for part in parts))
        boxes, at = [], 0.0
        for part in parts:
            left, size = at, max(1.0, part.bytes * scale - 1.5)
            if part.purpose is Purpose.OTHER:
                size = part.bytes * scale
                left = width - size
            else:
                at += part.bytes * scale
            left, right = (round(edge * pixels) / pixels for edge in (left, left + size))
            boxes.append((part, QRectF(left, y, right - left, height)))
        return boxes

    def _paint_part(self, painter: QPainter, part: Part, box: QRectF) -> None:
        color = self.color_of(part.purpose)
        painter.fillRect(box, color)
        if part.purpose in (Purpose.FREE, Purpose.CACHE):
            line = self._theme.color(f"place_{self._hue}")
            painter.setPen(QPen(line, 1, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5))
        elif part.purpose is Purpose.OTHER:
            painter.fillRect(box, QBrush(self._theme.color("card"), Qt.BrushStyle.BDiagPattern))

    def _paint_label(self, painter: QPainter, part: Part, box: QRectF) -> None:
        words = f"{tr(part.purpose.value)} {gib(part.bytes)}"
        metrics = painter.fontMetrics()
        if metrics.horizontalAdvance(words) > box.width() - 12:
            words = tr(part.purpose.value)
        if metrics.horizontalAdvance(words) > box.width() - 12 or part.purpose is Purpose.OTHER:
            return
        inks = ("#ffffff", self._theme.colors.text, "#101413")
        ink = max(inks, key=lambda color: contrast(color, self.color_of(part.purpose).name()))
        painter.setPen(QColor(ink))
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, words)

    def _paint_legend(self, painter: QPainter) -> None:
        theme = self._theme
        painter.setFont(theme.font(theme.type.tiny))
        metrics, x, y = painter.fontMetrics(), 0.0, float(self.height() - LEGEND + 6)
        for part in self._bar.planned or self._bar.now:
            words = f"{tr(part.purpose.value)} {gib(part.bytes)}"
            width = 17 + metrics.horizontalAdvance(words)
            if x + width > self.width():
                break
            self._paint_part(painter, part, QRectF(x, y + 2, 11, 11))
            painter.setPen(theme.color("muted"))
            painter.drawText(QPointF(x + 16, y + 2 + metrics.ascent() - 1), words)
            x += width + 16

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self._words_at(QPointF(event.pos())), self)
            return True
        return super().event(event)

    def _words_at(self, position: QPointF) -> str:
        for words, parts, y, height in (
            (tr("planned"), self._bar.planned, TITLE, PLANNED),
            (tr("now"), self._bar.now, TITLE + PLANNED + GAP, NOW),
        ):
            for part, box in self._boxes(parts, y, height) if parts else ():
                if box.contains(position):
                    return f"{tr(part.purpose.value)}: {gib(part.bytes)} ({words})"
        return ""


def _mixed(first: QColor, second: QColor, share: float) -> QColor:
    """`share` of the first."""
    rest = 1 - share
    return QColor(
        round(first.red() * share + second.red() * rest),
        round(first.green() * share + second.green() * rest),
        round(first.blue() * share + second.blue() * rest),
    )
