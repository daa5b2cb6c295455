"""A widget as a picture, painted in bands: a whole page at once would hold the window for several frames."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QPoint, Qt, QTimer
from PySide6.QtGui import QImage, QPainter, QRegion
from PySide6.QtWidgets import QWidget

_BAND = 120  # pixels of height per turn of the event loop


class Picture(QObject):
    """Calls `on_done` with the image of `widget`, at the screen's resolution, some turns later; never, where the widget
    is gone by then."""

    def __init__(self, widget: QWidget, on_done: Callable[[QImage], None]) -> None:
        super().__init__(widget)
        self._widget, self._on_done = widget, on_done
        scale = widget.devicePixelRatioF()
        self._size = widget.size()
        self._image = QImage(self._size * scale, QImage.Format.Format_ARGB32_Premultiplied)
        self._image.setDevicePixelRatio(scale)
        self._image.fill(Qt.GlobalColor.transparent)
        self._top = 0
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._paint_band)
        self._timer.start(0)

    def _paint_band(self) -> None:
        band = QRegion(0, self._top, self._size.width(), _BAND)
        painter = QPainter(self._image)
        self._widget.render(painter, QPoint(0, self._top), band)
        painter.end()
        self._top += _BAND
        if self._top >= self._size.height():
            self._timer.stop()
            self.deleteLater()
            self._on_done(self._image)
