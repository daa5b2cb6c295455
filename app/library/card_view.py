"""A repository opened: who made it, its licence, the table of its models, its description."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices, QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.library.card_controller import CardController
from app.library.description import Description
from app.library.library_controller import LibraryController
from app.library.notice import Notice
from app.library.pill import Pill
from app.library.quant_row import QuantRow
from app.library.results_model import short_count
from app.theme.theme import Theme
from app.translation import sentences, tr

if TYPE_CHECKING:
    from engine.hub.repository import RepositoryCard


class CardView(QScrollArea):
    def __init__(
        self, theme: Theme, library: LibraryController, controller: CardController, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setObjectName("page")
        self.setAccessibleName(tr("Model"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._theme, self._library, self.controller = theme, library, controller
        self.rows: list[QuantRow] = []
        body = QWidget(self)
        body.setObjectName("pageBody")
        self._layout = QVBoxLayout(body)
        self._layout.setContentsMargins(20, 20, 20, 24)
        self._layout.setSpacing(10)
        self.title = QLabel(body)
        self.title.setObjectName("pageTitle")
        self.title.setTextFormat(Qt.TextFormat.PlainText)
        self.title.setWordWrap(True)
        self.owner = QLabel(body)
        self.owner.setObjectName("settingHelp")
        self.owner.setTextFormat(Qt.TextFormat.PlainText)
        self.owner.setWordWrap(True)
        self._pills = QHBoxLayout()
        self._pills.setSpacing(6)
        self.notice = Notice(body)
        self.table = QFrame(body)
        self.table.setObjectName("card")
        self._table_layout = QVBoxLayout(self.table)
        self._table_layout.setContentsMargins(0, 0, 0, 0)
        self._table_layout.setSpacing(0)
        self.companions = QLabel(body)
        self.companions.setObjectName("settingHelp")
        self.companions.setWordWrap(True)
        self.more = QPushButton(tr("Read the description"), body)
        self.more.setObjectName("secondary")
        self.more.clicked.connect(self._read_description)
        self.measure = QPushButton(tr("Predict speeds"), body)
        self.measure.setObjectName("secondary")
        self.measure.setToolTip(tr("Measures this machine once: a few seconds of full load. Nothing is sent anywhere."))
        self.measure.clicked.connect(controller.measure)
        self.page_button = QPushButton(tr("Open its page"), body)
        self.page_button.setObjectName("secondary")
        self.page_button.clicked.connect(self._open_page)
        self.description = Description(theme, body)
        buttons = QHBoxLayout()
        buttons.addWidget(self.more)
        buttons.addWidget(self.page_button)
        buttons.addStretch(1)
        for widget in (self.title, self.owner):
            self._layout.addWidget(widget)
        self._layout.addLayout(self._pills)
        self._layout.addWidget(self.notice)
        self._layout.addWidget(self.table)
        self._layout.addWidget(self.companions)
        self._layout.addWidget(self.measure, 0, Qt.AlignmentFlag.AlignLeft)
        self._layout.addLayout(buttons)
        self._layout.addWidget(self.description)
        self._layout.addStretch(1)
        self.setWidget(body)
        controller.opened.connect(self.show_card)
        controller.fits_changed.connect(self.show_fits)
        controller.description_changed.connect(self._show_description)
        library.downloads.changed.connect(self._downloads_changed)
        library.entries_changed.connect(self.show_downloads)
        self.show_card()

    # --- contents ---

    def show_card(self) -> None:
        controller = self.controller
        card = controller.card
        owner, _, name = controller.repository.partition("/")
        self.title.setText(name or tr("Choose a model"))
        self.owner.setText(owner if card is None else self._owner_words(card))
        self.owner.setVisible(bool(controller.repository))
        self._show_pills()
        self._fill_table()
        for widget in (self.more, self.page_button):
            widget.setVisible(card is not None)
        self.table.setVisible(bool(self.rows))
        self.description.hide()
        self._show_state()
        self.show_fits()
        self.show_downloads()
        self.verticalScrollBar().setValue(0)

    def _show_state(self) -> None:
        controller = self.controller
        error = controller.error or controller.header_error
        self.companions.setVisible(bool(self._companion_words()))
        self.companions.setText(self._companion_words())
        if error is not None:
            self.notice.show_error(error, controller.again)
        elif controller.card is not None and not self.rows:
            self.notice.show_words(tr("There is no GGUF model in this repository."))
        elif controller.card is None and controller.repository:
            self.notice.show_words(tr("Asking the hub…"))
        elif controller.card is None:
            self.notice.show_words(tr("Its files are shown here, and which of them run on this machine."))
        else:
            self.notice.hide()

    def _owner_words(self, card: RepositoryCard) -> str:
        summary = card.summary
        words = [summary.owner]
        if summary.parameters:
            words.append(tr("{count} parameters", count=short_count(summary.parameters)))
        if summary.architecture:
            words.append(summary.architecture)
        if summary.context_length:
            words.append(tr("{count} tokens of context", count=f"{summary.context_length:,}"))
        if summary.downloads:
            words.append(tr("{count} downloads", count=short_count(summary.downloads)))
        return "\u00a0\u00a0·  ".join(words)  # where the line breaks, the dot stays at its end

    def _show_pills(self) -> None:
        while item := self._pills.takeAt(0):
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        card = self.controller.card
        if card is None:
            return
        summary = card.summary
        pills = [Pill(summary.license or tr("no licence given"), "quiet", self)]
        if summary.gated:
            pills.append(Pill(tr("gated"), "fair", self))
        if summary.private:
            pills.append(Pill(tr("private"), "fair", self))
        for pill in pills:
            self._pills.addWidget(pill)
        self._pills.addStretch(1)

    def _fill_table(self) -> None:
        while item := self._table_layout.takeAt(0):
            if widget := item.widget():
                widget.hide()
                widget.deleteLater()
        self.rows = []
        card = self.controller.card
        for model in card.listing.models if card is not None else ():
            if self.rows:
                line = QFrame(self.table)
                line.setObjectName("line")
                line.setFixedHeight(1)
                self._table_layout.addWidget(line)
            row = QuantRow(self._theme, model, self.table)
            row.chosen.connect(lambda row=row: self._choose(row))
            row.download_pressed.connect(lambda model=model: self.controller.download(model))
            self._table_layout.addWidget(row)
            self.rows.append(row)

    def _choose(self, row: QuantRow) -> None:
        """Say why it would run or not, and read its own header for a better answer."""
        for one in self.rows:
            one.reason.setVisible(one is row)
        self.controller.read_header(row.model, whole=True)

    def _companion_words(self) -> str:
        card = self.controller.card
        kinds = {one.kind for one in card.listing.companions} if card is not None else set()
        words = []
        if "mmproj" in kinds:
            words.append(tr("The projector for images (mmproj) in this repository is no model and is not listed."))
        if self.rows:
            words.append(tr("Files are counted in GB (10⁹ bytes), memory in GiB (2³⁰ bytes, 7 % more)."))
        return sentences(*words)

    def show_fits(self) -> None:
        measuring = self.controller.is_measuring
        self.measure.setVisible(self.controller.can_measure or measuring)
        self.measure.setEnabled(not measuring)
        self.measure.setText(tr("Measuring…") if measuring else tr("Predict speeds"))
        if self._library.services is None or self.controller.card is None:
            return
        recommended = self.controller.recommended()
        for row in self.rows:
            row.show_fit(self.controller.fit(row.model), row.model is recommended)
        self._show_state()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.show_downloads()

    def _downloads_changed(self) -> None:
        if self.isVisible():  # five times a second: not for a page that nobody sees
            self.show_downloads()

    def show_downloads(self) -> None:
        """What is here already, and what is on its way, is not offered again."""
        from engine.hub.download_status import State

        statuses = self._library.downloads.statuses
        running = {(one.repository, one.name): one for one in statuses if one.state is not State.DONE}
        for row in self.rows:
            status = running.get((self.controller.repository, row.model.name))
            if status is not None:
                percent = 100 * status.done // max(1, status.size)
                row.show_download(tr(status.state.value) + f"  {percent} %")
            else:
                row.show_download(tr("In your library") if self._is_here(row) else "")

    def _is_here(self, row: QuantRow) -> bool:
        wanted = {file.path.rsplit("/", 1)[-1] for file in row.model.files}
        return any(
            entry.repository == self.controller.repository and {file.name for file in entry.files} >= wanted
            for entry in self._library.entries
        )

    # --- buttons ---

    def _read_description(self) -> None:
        self.more.setEnabled(False)
        self.controller.read_description()

    def _show_description(self) -> None:
        self.more.setEnabled(True)
        self.more.hide()
        self.description.show_markdown(self.controller.description or tr("There is no description."))
        self.description.show()

    def _open_page(self) -> None:
        services = self._library.services
        if services is not None:
            QDesktopServices.openUrl(QUrl(f"{services.settings.endpoint}/{self.controller.repository}"))
