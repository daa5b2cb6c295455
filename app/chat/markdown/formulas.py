"""Formulas as pictures: typeset off the main thread, kept, and drawn in any colour."""

from __future__ import annotations

import math
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from PySide6.QtCore import QByteArray, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from app.crash import log

KEPT = 600
INK = "#010203"  # replaced by the text's colour
Run = Callable[[Callable[[], object], Callable[[object], None], Callable[[Exception], None]], None]


@dataclass(frozen=True, slots=True)
class Formula:
    """An SVG with its metrics in pixels: above and below the baseline."""

    svg: str
    width: float
    ascent: float
    descent: float

    def image(self, color: str, above: float, below: float) -> QImage:
        """The formula on a transparent ground with `above` and `below` pixels around the baseline."""
        scale = max(1, math.ceil(QGuiApplication.primaryScreen().devicePixelRatio()))
        size = (math.ceil(self.width), math.ceil(above + below))
        image = QImage(size[0] * scale, size[1] * scale, QImage.Format.Format_ARGB32_Premultiplied)
        image.setDevicePixelRatio(scale)
        image.fill(Qt.GlobalColor.transparent)
        renderer = QSvgRenderer(QByteArray(self.svg.replace(INK, color).encode()))
        painter = QPainter(image)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        renderer.render(painter, QRectF(0, above - self.ascent, self.width, self.ascent + self.descent))
        painter.end()
        return image


Key = tuple[str, bool, int]  # LaTeX, display, pixels


class Formulas(QObject):
    """`get` answers at once: the formula, None while it is being typeset, or "" where it cannot be."""

    ready = Signal()

    def __init__(self, run: Run | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._run = run
        self._known: OrderedDict[Key, Formula | str] = OrderedDict()
        self._wanted: dict[Key, None] = {}
        self._is_running = False

    def get(self, latex: str, display: bool, pixels: int) -> Formula | str | None:
        key = (latex, display, pixels)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        if self._run is None:
            self._keep(key, typeset(*key))
            return self._known[key]
        self._wanted[key] = None
        self._start()
        return None

    def _start(self) -> None:
        if self._is_running or not self._wanted or self._run is None:
            return
        self._is_running = True
        keys, self._wanted = list(self._wanted), {}
        self._run(lambda: [(key, typeset(*key)) for key in keys], self._done, self._failed)

    def _done(self, results: object) -> None:
        self._is_running = False
        for key, formula in results:  # type: ignore[attr-defined]
            self._keep(key, formula)
        self.ready.emit()
        self._start()

    def _failed(self, error: Exception) -> None:
        self._is_running = False
        log.warning("formulas could not be typeset: %r", error)

    def _keep(self, key: Key, formula: Formula | str) -> None:
        self._known[key] = formula
        while len(self._known) > KEPT:
            self._known.popitem(last=False)


@lru_cache(maxsize=1)
def _latex_type() -> Any:
    """ziamath.Latex; imported when the first formula comes (its font takes a quarter of a second)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it reads its font the old way
        import ziamath
    ziamath.config.svg2 = False  # Qt draws SVG 1.2 Tiny
    return ziamath.Latex


def typeset(latex: str, display: bool, pixels: int) -> Formula | str:
    """The formula, or "" where the LaTeX cannot be understood."""
    latex_type = _latex_type()
    try:
        made = latex_type(latex, size=pixels * 1.12, color=INK, inline=not display)
        svg = made.svg()
    except Exception as error:  # a model may write anything
        log.info("a formula cannot be typeset: %r", error)
        return ""
    box = QSvgRenderer(QByteArray(svg.encode())).viewBoxF()
    if box.width() <= 0 or box.height() <= 0 or box.width() > 8000:
        return ""
    return Formula(svg, box.width(), -box.top(), box.bottom())
