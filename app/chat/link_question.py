"""No link is followed unasked, and only to the web or to mail."""

from __future__ import annotations

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QMessageBox, QWidget

from app.translation import tr


def ask_to_open(link: str, parent: QWidget) -> QMessageBox | None:
    """Ask, then open; None where the address leads elsewhere, which is never opened."""
    url = QUrl(link)
    if url.scheme() not in ("http", "https", "mailto"):
        return None
    box = QMessageBox(parent)
    box.setWindowTitle(tr("Open a link"))
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(tr("Open this address in your browser?"))
    box.setInformativeText(link)
    box.setStandardButtons(QMessageBox.StandardButton.Open | QMessageBox.StandardButton.Cancel)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.accepted.connect(lambda: QDesktopServices.openUrl(url))
    box.open()
    return box
