"""Access to the hub: the token, and a test of the connection. The rest stands in the settings."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.library.library_controller import LibraryController
from app.library.notice import Notice
from app.theme.theme import Theme
from app.translation import tr


class HubDialog(QDialog):
    def __init__(self, theme: Theme, library: LibraryController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Access to the hub"))
        self.setMinimumWidth(480)
        self._library = library
        services = library.services
        assert services is not None
        self.endpoint = services.settings.endpoint
        address = QLabel(tr("Address: {endpoint}", endpoint=self.endpoint), self)
        address.setObjectName("settingHelp")
        address.setTextFormat(Qt.TextFormat.PlainText)
        self.token = QLineEdit(self)
        self.token.setEchoMode(QLineEdit.EchoMode.Password)
        self.token.setPlaceholderText(tr("hf_… (leave empty to remove the one that is kept)"))
        self.token.setAccessibleName(tr("Access token"))
        words = QLabel(
            tr(
                "Needed for gated and private repositories only. It is kept in the system's keyring and sent to "
                "this address, never to another one."
            ),
            self,
        )
        words.setObjectName("settingHelp")
        words.setWordWrap(True)
        self.notice = Notice(self)
        self.notice.hide()
        self.test = QPushButton(tr("Test the connection"), self)
        self.test.setObjectName("secondary")
        self.test.clicked.connect(self.try_connection)
        self.save = QPushButton(tr("Save the token"), self)
        self.save.setObjectName("primary")
        self.save.clicked.connect(self.save_token)
        close = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        close.rejected.connect(self.reject)
        row = QHBoxLayout()
        row.addWidget(self.test)
        row.addStretch(1)
        row.addWidget(close)
        row.addWidget(self.save)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(24, 20, 24, 20)
        layout.setSpacing(12)
        title = QLabel(tr("Access token"), self)
        title.setObjectName("settingTitle")
        for widget in (address, title, self.token, words, self.notice):
            layout.addWidget(widget)
        layout.addLayout(row)

    def save_token(self) -> None:
        services, token = self._library.services, self.token.text()
        assert services is not None

        def done(warning: str) -> None:
            self._library.reconnect()
            self.token.clear()
            kept = tr("The token is kept.") if token.strip() else tr("No token is kept any more.")
            self.notice.show_words(warning or kept)

        self._library.background.run_in_background(
            lambda: services.tokens.set(self.endpoint, token),
            done,
            lambda error: self.notice.show_error(error, self.save_token),
        )

    def try_connection(self) -> None:
        """Asks once for everything a hub has to answer; says which part fails, if one does."""
        services = self._library.services
        assert services is not None
        self.test.setEnabled(False)

        def work() -> None:
            from engine.hub.repository import probe

            probe(services.connect())

        def done(_: object) -> None:
            self.test.setEnabled(True)
            self.notice.show_words(tr("{endpoint} answers.", endpoint=self.endpoint))

        def failed(error: Exception) -> None:
            self.test.setEnabled(True)
            self.notice.show_error(error, self.try_connection)

        self._library.background.run_in_background(work, done, failed)
