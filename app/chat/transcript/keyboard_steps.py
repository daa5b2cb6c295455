"""From message to message with the keyboard; what gets the focus comes on screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtWidgets import QApplication, QWidget

from app.chat.transcript.overlay import Overlay

if TYPE_CHECKING:
    from app.chat.transcript.transcript import Transcript

FOCUS_MARGIN = 12  # pixels around a button that is brought on screen


class KeyboardSteps(QObject):
    def __init__(self, transcript: Transcript, overlay: Overlay) -> None:
        super().__init__(transcript)
        self._transcript = transcript
        self._overlay = overlay
        self._stepping = False
        QApplication.instance().focusChanged.connect(self._focus_changed)  # type: ignore[union-attr]

    def step(self, step: int) -> None:
        """From the message with the focus, or from the edge of the screen."""
        transcript = self._transcript
        visible = {index: (view, top) for index, view, top in transcript.visible_messages()}
        if not visible:
            return
        ids = [view.message.id for view in transcript.message_views]
        focused = self._overlay.focused()
        index = ids.index(focused) + step if focused in ids else max(visible) if step < 0 else min(visible)
        index = max(0, min(len(ids) - 1, index))
        self._stepping = True
        view, top = visible.get(index, (None, 0.0))
        if view is None or top < 0 or top + view.height > transcript.viewport().height():
            transcript.scroll_to_message(ids[index])
        if not self._overlay.focus(ids[index]):
            transcript.setFocus(Qt.FocusReason.TabFocusReason)
        self._stepping = False

    def _focus_changed(self, _old: QWidget | None, new: QWidget | None) -> None:
        """A button over the text that gets the keyboard comes on screen."""
        if new is None or self._stepping:  # None too where the transcript is going, and has no viewport any more
            return
        viewport = self._transcript.viewport()
        if not viewport.isAncestorOf(new):
            return
        top = new.mapTo(viewport, QPoint(0, 0)).y()
        below = top + new.height() - viewport.height()
        bar = self._transcript.verticalScrollBar()
        if top < 0:
            bar.setValue(bar.value() + top - FOCUS_MARGIN)
        elif below > 0:
            bar.setValue(bar.value() + below + FOCUS_MARGIN)
