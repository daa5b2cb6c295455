"""The logs as a page: readable, and to be copied without what concerns nobody else."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QTextCursor
from PySide6.QtWidgets import QComboBox, QPlainTextEdit, QPushButton, QWidget

from app.background import Background
from app.help.help_page import HelpPage
from app.log_text import read_tail, without_personal
from app.theme.theme import Theme
from app.translation import tr


class LogsPage(HelpPage):
    def __init__(self, theme: Theme, background: Background, folder: Path, parent: QWidget | None = None) -> None:
        super().__init__(
            theme,
            tr("Logs"),
            tr("What happened, newest at the end. Nothing you write and no answer is in here, and nothing is sent."),
            parent,
        )
        self._background = background
        self._folder = folder
        self.body.setMaximumWidth(1000)
        self.files = QComboBox(self.body)
        for name, words in (
            ("tessera.log", tr("Application")),
            ("last-native-crash.log", tr("Last crash")),
            ("start.log", tr("Failed starts")),
        ):
            self.files.addItem(words, name)
        self.files.setAccessibleName(tr("Which log"))
        self.files.currentIndexChanged.connect(self.read)
        self.text = QPlainTextEdit(self.body)
        self.text.setReadOnly(True)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setAccessibleName(tr("Logs"))
        self.text.setPlaceholderText(tr("Nothing was written."))
        self.copy = QPushButton(tr("Copy without paths"), self.body)
        self.copy.setObjectName("secondary")
        self.copy.setToolTip(tr("File names, addresses and access tokens are taken out"))
        self.copy.clicked.connect(self._copy)
        self.open = QPushButton(tr("Open the folder"), self.body)
        self.open.setObjectName("secondary")
        self.open.clicked.connect(lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._folder))))
        self.refresh = QPushButton(tr("Refresh"), self.body)
        self.refresh.setObjectName("secondary")
        self.refresh.clicked.connect(self.read)
        for widget in (self.files, self.refresh, self.open, self.copy):
            self.actions.addWidget(widget)
        self.column.addWidget(self.text, 1)
        self._apply_theme()
        self.read()

    def read(self) -> None:
        """The log's end, read off the main thread."""
        path = self._folder / self.files.currentData()
        self._background.run_in_background(lambda: read_tail(path), self.show_text)

    def show_text(self, text: str) -> None:
        self.text.setPlainText(text)
        self.text.moveCursor(QTextCursor.MoveOperation.End)
        self.copy.setEnabled(bool(text))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(without_personal(self.text.toPlainText()))

    def _apply_theme(self) -> None:
        super()._apply_theme()
        if hasattr(self, "text"):
            self.text.setFont(self._theme.mono(12))
