"""Our own line icons: SVG files whose `currentColor` becomes the wanted one."""

from __future__ import annotations

from functools import cached_property, lru_cache

from PySide6.QtCore import QByteArray, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QIconEngine, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from app.assets import ICONS


@lru_cache(maxsize=256)
def _source(name: str) -> str:
    return (ICONS / f"{name}.svg").read_text(encoding="utf-8")


class _LineIcon(QIconEngine):
    """Draws the vector at any size, so that every screen scale is sharp. It is read when it is first seen: another
    theme makes all icons anew at once."""

    def __init__(self, name: str, color: str) -> None:
        super().__init__()
        self._name, self._color = name, color
        self._pixmaps: dict[tuple[int, int, bool], QPixmap] = {}

    @cached_property
    def _renderer(self) -> QSvgRenderer:
        return QSvgRenderer(QByteArray(_source(self._name).replace("currentColor", self._color).encode()))

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:
        painter.setOpacity(0.4 if mode == QIcon.Mode.Disabled else 1.0)
        self._renderer.render(painter, QRectF(rect))

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        key = (size.width(), size.height(), mode == QIcon.Mode.Disabled)
        if key in self._pixmaps:  # asked for at every repaint of a button
            return self._pixmaps[key]
        pixmap = QPixmap(size)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        self.paint(painter, pixmap.rect(), mode, state)
        painter.end()
        self._pixmaps[key] = pixmap
        return pixmap

    def clone(self) -> QIconEngine:
        return _LineIcon(self._name, self._color)


def icon(name: str, color: str) -> QIcon:
    return QIcon(_LineIcon(name, color))
