"""What a widget draws, kept as a picture: whatever moves beside it paints it again, which then is one copy."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QPainter, QPixmap
from PySide6.QtWidgets import QWidget

from app.theme.theme import Theme


class KeptPicture:
    """Drawn anew by `draw`, antialiased on the colour of a card, for another size, theme or screen, or when what it
    shows is another."""

    def __init__(self, widget: QWidget, theme: Theme, draw: Callable[[QPainter], None]) -> None:
        self._widget, self._theme, self._draw = widget, theme, draw
        self._kept: tuple[tuple[object, ...], QPixmap] | None = None

    def forget(self) -> None:
        """It shows something else."""
        self._kept = None
        self._widget.update()

    def paint(self) -> None:
        """The whole widget, from its paintEvent."""
        painter = QPainter(self._widget)
        painter.drawPixmap(0, 0, self.pixmap())
        painter.end()

    def pixmap(self) -> QPixmap:
        """As it is now."""
        widget, theme = self._widget, self._theme
        key = (widget.size(), theme.name, theme.type, widget.devicePixelRatioF())
        if self._kept is None or self._kept[0] != key:
            self._kept = key, self._drawn()
        return self._kept[1]

    def _drawn(self) -> QPixmap:
        scale = self._widget.devicePixelRatioF()
        pixmap = QPixmap(self._widget.size() * scale)
        pixmap.setDevicePixelRatio(scale)
        pixmap.fill(self._theme.color("card"))
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._draw(painter)
        painter.end()
        return pixmap
