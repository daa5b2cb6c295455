"""A long page whose changes are spread over turns of the event loop: none both lays it out and paints it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QHideEvent, QPaintEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QScrollBar, QWidget

from app.theme.held_picture import HeldPicture

FIT_AFTER = 8  # milliseconds: another frame than the window's own


class StagedPage(QScrollArea):
    """`body` is what scrolls. After a change of its layout the window keeps its picture until the page's own pictures
    have been drawn anew; a window of another size shows the body as it was first, and then as it fits."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("page")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        # Its room is kept: a bar that comes and goes would lay the whole page out anew.
        self.setVerticalScrollBar(_ScrollBar(Qt.Orientation.Vertical, self))
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self._held = HeldPicture(self)
        self._turns: Iterator[None] | None = None
        self._turn = QTimer(self)
        self._turn.timeout.connect(self._take_turn)
        self._fit_due = QTimer(self)
        self._fit_due.setSingleShot(True)
        self._fit_due.setInterval(FIT_AFTER)
        # A turn later, as the system may ask for the window's picture at the end of this one.
        self._fit_due.timeout.connect(lambda: QTimer.singleShot(0, self, self._fit_body))
        self._is_fitting = self._is_seen = False
        # In its place while it is empty, its parts made in it: a widget that gets another parent is styled once more.
        self.body = QWidget(self.viewport())
        self.body.setObjectName("pageBody")
        self.setWidget(self.body)

    def parts(self) -> Iterable[QWidget]:
        """Those that keep pictures of themselves."""
        return ()

    def fit(self, width: int) -> None:
        """Its body is about to be laid out for that many pixels."""

    @property
    def is_under_way(self) -> bool:
        """Turns are being taken."""
        return self._turns is not None

    def take_turns(self, turns: Iterator[None]) -> None:
        """Advances `turns` once per turn of the event loop, instead of what was under way; seen at its end."""
        self._turns = turns
        if self.isVisible():
            self._held.hold()
        self._turn.start(0)

    def end_turns(self) -> None:
        """What is under way is not wanted any more."""
        if self._turns is not None:
            self._turns = None
            self._turn.stop()
            self._held.show(self.body.findChildren(QWidget))  # what is painted for the first time takes longest

    def _take_turn(self) -> None:
        turns = self._turns
        if turns is not None and next(turns, self) is self and self._turns is turns:
            self.end_turns()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            self._is_seen = True
        moved = event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Resize)
        if moved and watched is self.widget() and self._turns is None and self.isVisible() and self._held.may_wait:
            parts = self.parts()  # not while it is held: what fails must not keep it so
            self._held.hold()
            self._held.show(parts)
        return super().eventFilter(watched, event)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._turns is not None:
            self._held.hold()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._is_seen = False

    def resizeEvent(self, event: QResizeEvent) -> None:
        if not self._is_seen:
            self.fit(self.viewport().width())
        elif not self._is_fitting and event.size().width() != event.oldSize().width():  # a bar below changes the height
            self._is_fitting = True
            self.setWidgetResizable(False)
            self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
            self._fit_due.start()
        super().resizeEvent(event)

    def _fit_body(self) -> None:
        self._is_fitting = False
        self.fit(self.viewport().width())
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setWidgetResizable(True)


class _ScrollBar(QScrollBar):
    def paintEvent(self, event: QPaintEvent) -> None:
        if self.minimum() < self.maximum():
            super().paintEvent(event)
