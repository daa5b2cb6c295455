"""My models: the table, the drawer beside it, and the ways in: files, folders, drag and drop."""

from __future__ import annotations

import threading
from pathlib import Path

from PySide6.QtCore import QSize, QTimer, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QDragEnterEvent, QDropEvent, QFocusEvent, QShowEvent
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QInputDialog,
    QLineEdit,
    QMenu,
    QMessageBox,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.empty_state import EmptyState
from app.library.details_drawer import LOADABLE, DetailsDrawer
from app.library.library_controller import LibraryController
from app.library.metadata_table import read_pairs
from app.library.models_table import ModelsTable
from app.library.panes import Panes
from app.library.rows import table_entries
from app.theme.theme import Theme
from app.translation import sentences, tr


class ModelsPage(QWidget):
    loaded = Signal()  # a model was chosen to be loaded
    discover_requested = Signal()

    def __init__(self, theme: Theme, library: LibraryController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme, self._library = theme, library
        self._verifying: threading.Event | None = None
        self._progress = (0, 1)
        self.setAcceptDrops(True)
        self.field = QLineEdit(self)
        self.field.setAccessibleName(tr("Search your models"))
        self.field.setPlaceholderText(tr("Search my models"))
        self.field.setClearButtonEnabled(True)
        self.table = ModelsTable(theme, self)
        self.drawer = DetailsDrawer(theme, self)
        self.empty = EmptyState(theme, self, icon="library")
        self.empty.show_words(
            tr("No models yet"), tr("Find one under Discover, or drop a .gguf file here."), tr("Discover models")
        )
        self.empty.pressed.connect(self.discover_requested)
        self.field.textChanged.connect(self.table.proxy.setFilterFixedString)
        self.table.chosen.connect(self._chosen)
        self.table.opened.connect(lambda entry: self._order("load"))
        self.drawer.ordered.connect(self._order)
        self._clock = QTimer(self)
        self._clock.setInterval(100)
        self._clock.timeout.connect(lambda: self.drawer.show_verifying(self._progress[0] / max(1, self._progress[1])))
        self._lay_out()
        library.entries_changed.connect(self.show_entries)
        library.downloads.changed.connect(self._show_if_visible)
        library.models.changed.connect(self._show_if_visible)
        self.show_entries()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """To the table; as the page's focus proxy it would keep Tab from the search field."""
        self.table.setFocus(event.reason())

    def _lay_out(self) -> None:
        left = QWidget(self)
        column = QVBoxLayout(left)
        column.setContentsMargins(24, 4, 12, 12)
        column.setSpacing(8)
        line = QHBoxLayout()
        line.setSpacing(8)
        line.addWidget(self.field, 1)
        for words, run in (
            (tr("Add a file…"), self.choose_files),
            (tr("Add a folder…"), self.choose_folder),
        ):
            button = QPushButton(words, self)
            button.setObjectName("secondary")
            button.clicked.connect(lambda _=False, run=run: run())
            line.addWidget(button)
        self.more = self._more_button()
        line.addWidget(self.more)
        column.addLayout(line)
        column.addWidget(self.empty, 1)
        column.addWidget(self.table, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(Panes(left, self.drawer, (700, 310), self))

    def _more_button(self) -> QToolButton:
        menu = QMenu(self)
        menu.addAction(tr("Look through the folders again"), self._library.refresh)
        menu.addAction(tr("Move the models folder…"), self.choose_new_folder)
        button = QToolButton(self)
        button.setObjectName("quiet")
        button.setIcon(self._theme.icon("more"))
        button.setIconSize(QSize(20, 20))
        button.setToolTip(tr("More"))
        button.setAccessibleName(tr("More"))
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        button.setMenu(menu)
        self._theme.changed.connect(lambda: button.setIcon(self._theme.icon("more")))
        return button

    # --- contents ---

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.show_entries()

    def _show_if_visible(self) -> None:
        if self.isVisible():  # five times a second: not for a page that nobody sees
            self.show_entries()

    def show_entries(self) -> None:
        entries = table_entries(self._library.entries, self._library.downloads.statuses)
        current = self.table.current()
        self.table.rows.show(entries)
        if current is not None and self.table.current() is None:
            self.table.select(current.path)
        self._show_in_drawer(self.table.current())
        is_empty = not entries and self._library.services is not None
        self.empty.setVisible(is_empty)
        self.table.setVisible(not is_empty)

    def _show_in_drawer(self, entry) -> None:
        is_loading = entry is not None and self._is_loading(entry)
        self.drawer.show_entry(entry, self._library.settings["kv_type"], is_loading=is_loading)

    def _is_loading(self, entry) -> bool:
        return self._library.models.loading_path in [str(file) for file in entry.files]

    def _chosen(self, entry) -> None:
        self._show_in_drawer(entry)
        if entry is None or not entry.files or self.drawer.metadata.rows.rowCount():
            return

        def show(pairs: list[tuple[str, str]]) -> None:
            if self.drawer.entry is not None and self.drawer.entry.path == entry.path:
                self.drawer.metadata.show_pairs(pairs)

        # What is wrong with an unreadable header stands in the drawer already.
        self._library.background.run_in_background(lambda: read_pairs(entry.path), show, lambda error: None)

    # --- orders ---

    def _order(self, order: str) -> None:
        entry = self.drawer.entry
        if entry is None:
            return
        match order:
            case "load" if self._is_loading(entry):
                self._library.models.cancel_load()
            case "load" if entry.state.name in LOADABLE:
                self._library.load(entry)
                self.loaded.emit()
            case "fetch":
                self._library.fetch_missing(entry)
            case "verify":
                self._verify(entry)
            case "stop" if self._verifying is not None:
                self._verifying.set()
            case "reveal":
                QDesktopServices.openUrl(QUrl.fromLocalFile(str(entry.path.parent)))
            case "rename":
                self._rename(entry)
            case "delete":
                self._delete(entry)

    def _verify(self, entry) -> None:
        self._progress = (0, entry.size)

        def progress(done: int, size: int) -> None:
            self._progress = (done, size)  # read by the clock on the main thread

        def done(compared: bool | None) -> None:
            self._clock.stop()
            self._verifying = None
            self.drawer.show_verifying(None)
            if compared is False:
                QMessageBox.information(
                    self,
                    tr("Verified as far as possible"),
                    tr("The file can be read to its end. There is no checksum to compare it with."),
                )

        self._verifying = self._library.verify(entry, progress, done)
        self._clock.start()

    def _rename(self, entry) -> None:
        label, ok = QInputDialog.getText(
            self, tr("Rename"), tr("Shown as (the file keeps its name):"), QLineEdit.EchoMode.Normal, entry.title
        )
        if ok:
            self._library.rename(entry, label)

    def _delete(self, entry) -> None:
        loaded = entry.state.name == "IN_USE"
        words = tr("{name} goes to the trash.", name=entry.title)
        if loaded:
            words = sentences(words, tr("It is loaded now and will be unloaded first."))
        buttons = QMessageBox.StandardButton.Yes | QMessageBox.StandardButton.Cancel
        if QMessageBox.question(self, tr("Delete the model?"), words, buttons) == QMessageBox.StandardButton.Yes:
            self._library.delete(entry)

    # --- ways in ---

    def choose_files(self) -> None:
        names, _ = QFileDialog.getOpenFileNames(self, tr("Add models"), "", tr("GGUF models (*.gguf);;All files (*)"))
        self.add_files([Path(name) for name in names])

    def choose_folder(self) -> None:
        name = QFileDialog.getExistingDirectory(self, tr("Add a folder of models"))
        if name:
            self._library.add_folder(Path(name))

    def choose_new_folder(self) -> None:
        name = QFileDialog.getExistingDirectory(self, tr("Where should the models be kept?"))
        if name:
            self._library.move_models_folder(Path(name))

    def add_files(self, files: list[Path]) -> None:
        """Ask whether to move them into the models folder or to list them where they are."""
        if not files:
            return
        box = QMessageBox(self)
        box.setWindowTitle(tr("Add models"))
        box.setText(tr("Move into the models folder, or leave in place?"))
        box.setInformativeText("\n".join(file.name for file in files[:8]))
        move = box.addButton(tr("Move"), QMessageBox.ButtonRole.AcceptRole)
        stay = box.addButton(tr("Leave in place"), QMessageBox.ButtonRole.AcceptRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.exec()
        if box.clickedButton() in (move, stay):
            self._library.import_files(files, move=box.clickedButton() is move)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if dropped(event):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        paths = dropped(event)
        event.acceptProposedAction()
        for folder in (path for path in paths if path.is_dir()):
            self._library.add_folder(folder)
        files = [path for path in paths if path.is_file()]
        # The drag's own event loop has to end before a dialog opens.
        QTimer.singleShot(0, self, lambda: self.add_files(files))


def dropped(event: QDropEvent) -> list[Path]:
    """Folders and GGUF files that are being dragged."""
    paths = [Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()]
    return [path for path in paths if path.is_dir() or path.suffix.lower() == ".gguf"]
