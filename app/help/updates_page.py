"""Updates as a page: which version this is, and a button that asks for the newest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.help.help_page import HelpPage
from app.library.notice import Notice
from app.theme.theme import Theme
from app.translation import tr
from app.update_check import UpdateCheck

if TYPE_CHECKING:
    from engine.hub.updates import Release  # its HTTP client takes a quarter of a second to import


class UpdatesPage(HelpPage):
    def __init__(self, theme: Theme, updates: UpdateCheck, version: str, parent: QWidget | None = None) -> None:
        super().__init__(
            theme,
            tr("Updates"),
            tr(
                "Tessera asks for a newer version only when you press the button, or once a week if you switch that on "
                "under Settings, Privacy. The request says nothing of you or of this computer; nothing is installed."
            ),
            parent,
        )
        self._updates = updates
        self._version = version
        self._page = ""
        card = QFrame(self.body)
        card.setObjectName("card")
        self.state = QLabel(card)
        self.state.setObjectName("settingTitle")
        self.state.setWordWrap(True)
        self.detail = QLabel(card)
        self.detail.setObjectName("settingHelp")
        self.detail.setWordWrap(True)
        self.open = QPushButton(tr("Open its page"), card)
        self.open.setObjectName("primary")
        self.open.clicked.connect(lambda: QDesktopServices.openUrl(QUrl(self._page)))
        self.check = QPushButton(tr("Check now"), card)
        self.check.setObjectName("secondary")
        self.check.clicked.connect(self._start)
        texts = QVBoxLayout()
        texts.setSpacing(4)
        texts.addWidget(self.state)
        texts.addWidget(self.detail)
        row = QHBoxLayout(card)
        row.setContentsMargins(16, 14, 16, 14)
        row.setSpacing(12)
        row.addLayout(texts, 1)
        row.addWidget(self.open)
        row.addWidget(self.check)
        self.notice = Notice(self.body)
        self.notice.hide()
        self.column.addWidget(card)
        self.column.addWidget(self.notice)
        self.column.addStretch(1)
        updates.found.connect(self._found)
        updates.failed.connect(self._failed)
        self.show_state()

    def show_state(self) -> None:
        self.open.hide()
        self.state.setText(tr("This is Tessera {version}.", version=self._version))
        if self._updates.feed:
            self.detail.setText(tr("Asked at {address}.", address=self._updates.feed))
        else:
            self.detail.setText(tr("No address for updates is set under Settings, Privacy, so nobody is asked."))
        self.check.setEnabled(bool(self._updates.feed) and not self._updates.is_running)

    def showEvent(self, event: QShowEvent) -> None:
        self.show_state()  # the address may have been changed meanwhile
        super().showEvent(event)

    def _start(self) -> None:
        self.notice.hide()
        self._updates.start()
        self.show_state()

    def _found(self, release: Release) -> None:
        self.show_state()
        if release.is_newer:
            self._page = release.page
            self.open.show()
            self.detail.setText(tr("Tessera {version} is out.", version=release.version))
        else:
            self.detail.setText(tr("There is no newer version."))

    def _failed(self, error: Exception) -> None:
        self.show_state()
        self.notice.show_error(error, self._start)
