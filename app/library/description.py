"""A repository's description: Markdown shown without HTML, pictures or scripts; nothing is loaded by showing it."""

from __future__ import annotations

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFrame, QTextBrowser, QWidget

from app.chat.markdown.document import ClosedDocument, DocumentBuilder
from app.chat.transcript.style import TranscriptStyle
from app.theme.theme import Theme

MAX_CHARACTERS = 60_000  # a longer one is cut: laying it out would hold up the window
SAFE_SCHEMES = ("http", "https")


class Description(QTextBrowser):
    """As tall as its text; links open in the browser when they are pressed, and only web links."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("description")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setOpenLinks(False)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.anchorClicked.connect(self._open)
        self._theme = theme
        self._source = ""
        theme.changed.connect(self._build)

    def show_markdown(self, source: str) -> None:
        self._source = source[:MAX_CHARACTERS]
        self._build()

    def loadResource(self, kind: int, name: QUrl) -> object:
        return None

    def resizeEvent(self, event) -> None:
        super().resizeEvent(event)
        self._fit()

    def _build(self) -> None:
        document = ClosedDocument(self)
        DocumentBuilder(document, TranscriptStyle.of(self._theme)).build(self._source)
        self.setDocument(document)
        self._fit()

    def _fit(self) -> None:
        document = self.document()
        document.setTextWidth(max(100, self.viewport().width()))
        self.setFixedHeight(int(document.size().height()) + 4)

    def _open(self, url: QUrl) -> None:
        if url.scheme() in SAFE_SCHEMES:
            QDesktopServices.openUrl(url)
