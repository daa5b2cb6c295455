"""Updates as a page: which version this is, and a button that asks for the newest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices, QShowEvent
from PySide6.QtWidgets import QWidget

from app.help.help_page import HelpPage
from app.help.state_card import StateCard
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
        self._release: Release | None = None
        self.card = StateCard(theme, self.body)
        self.open = self.card.add_button(tr("Open its page"), "primary")
        self.open.clicked.connect(self._open)
        self.check = self.card.add_button(tr("Check now"), "secondary")
        self.check.clicked.connect(self._start)
        self.notice = Notice(self.body)
        self.notice.hide()
        self.column.addWidget(self.card)
        self.column.addWidget(self.notice)
        self.column.addStretch(1)
        updates.found.connect(self._found)
        updates.failed.connect(self._failed)
        self.show_state()

    def show_state(self) -> None:
        release = self._release
        self.open.setVisible(release is not None and release.is_newer)
        self.check.setEnabled(bool(self._updates.feed) and not self._updates.is_running)
        icon, color, detail = "info", "muted", tr("Asked at {address}.", address=self._updates.feed)
        if not self._updates.feed:
            detail = tr("No address for updates is set under Settings, Privacy, so nobody is asked.")
        elif release is not None and release.is_newer:
            icon, color, detail = "download", "accent", tr("Tessera {version} is out.", version=release.version)
        elif release is not None:
            icon, color, detail = "check", "accent", tr("There is no newer version.")
        self.card.say(icon, color, tr("This is Tessera {version}.", version=self._version), detail)

    def showEvent(self, event: QShowEvent) -> None:
        self._release = None  # the address may have been changed meanwhile
        self.show_state()
        super().showEvent(event)

    def _start(self) -> None:
        self.notice.hide()
        self._release = None
        self._updates.start()
        self.show_state()

    def _open(self) -> None:
        if self._release is not None:
            QDesktopServices.openUrl(QUrl(self._release.page))

    def _found(self, release: Release) -> None:
        self._release = release
        self.show_state()

    def _failed(self, error: Exception) -> None:
        self.show_state()
        self.notice.show_error(error, self._start)

    def _apply_theme(self) -> None:
        super()._apply_theme()
        if hasattr(self, "card"):
            self.show_state()
