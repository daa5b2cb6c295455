"""What the sidebar's menus do: pin, folders, copies, files, trash. Dialogs are opened here, models decide."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog, QInputDialog, QWidget

from app.background import Background
from app.chat.conversations import Conversations
from app.chat.exchange import Bundle, file_name, from_text, to_json, to_markdown
from app.export_file import write_export
from app.problems import Problem, Problems
from app.store.records import Conversation
from app.translation import tr
from engine.errors import FileError

PROBLEM = "exchange"
FILTERS = {"json": "JSON (*.json)", "md": "Markdown (*.md)"}


class ConversationActions(QObject):
    def __init__(
        self, window: QWidget, conversations: Conversations, background: Background, problems: Problems
    ) -> None:
        super().__init__(window)
        self._window = window
        self._conversations = conversations
        self._background = background
        self._problems = problems

    def run(self, action: str, conversation_id: str) -> None:
        """An action on one conversation, by its name in ConversationList."""
        conversations = self._conversations
        match action:
            case "pin":
                conversations.toggle_pin(conversation_id)
            case "folder":
                self._ask_folder(conversation_id)
            case "duplicate":
                conversations.duplicate(conversation_id)
            case "delete":
                conversations.delete(conversation_id)
            case "export_markdown":
                conversations.bundle(conversation_id, lambda bundle: self._export(bundle, "md"))
            case "export_json":
                conversations.bundle(conversation_id, lambda bundle: self._export(bundle, "json"))

    def run_for_all(self, action: str) -> None:
        match action:
            case "import":
                self._ask_import()
            case "export_all":
                self._export_all()
            case "trash":
                self._conversations.trash(self._show_trash)

    # --- folders ---

    def _ask_folder(self, conversation_id: str) -> None:
        names = ["", *self._conversations.folders()]
        row = self._conversations.get(conversation_id)
        current = names.index(row.folder) if row is not None and row.folder in names else 0
        name, accepted = QInputDialog.getItem(
            self._window, tr("Move to a folder"), tr("Folder (empty: none)"), names, current, True
        )
        if accepted:
            self._conversations.move(conversation_id, name)

    # --- files ---

    def _export(self, bundle: Bundle, kind: str) -> None:
        suggestion = f"{file_name(bundle.conversation.title)}.{kind}"
        name, _ = QFileDialog.getSaveFileName(self._window, tr("Export"), suggestion, FILTERS[kind])
        if name:
            text = to_json([bundle]) if kind == "json" else to_markdown(bundle)
            self.write(Path(name), text)

    def _export_all(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self._window, tr("Export all"), "conversations.json", FILTERS["json"])
        if not name:
            return
        bundles: list[Bundle] = []
        rows = self._conversations.rows()

        def collect(bundle: Bundle) -> None:
            bundles.append(bundle)
            if len(bundles) == len(rows):
                self.write(Path(name), lambda: to_json(bundles))

        for row in rows:
            self._conversations.bundle(row.id, collect)

    def write(self, path: Path, text: object) -> None:
        """`text`, or what it returns when called, whole or not at all."""

        def work() -> None:
            write_export(path, (text() if callable(text) else str(text)).encode())

        self._background.run_in_background(work, None, self._failed)

    def _ask_import(self) -> None:
        names, _ = QFileDialog.getOpenFileNames(
            self._window, tr("Import conversations"), "", tr("Conversations (*.json *.md)")
        )
        for name in names:
            self.read(Path(name))

    def read(self, path: Path) -> None:
        def work() -> list[Bundle]:
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise FileError(f"{path} could not be read: {error}.", done="Nothing was imported.") from error
            return from_text(text, path.name)

        self._background.run_in_background(work, self._conversations.add, self._failed)

    def _failed(self, error: Exception) -> None:
        self._problems.show(Problem.from_exception(PROBLEM, error))

    # --- trash ---

    def _show_trash(self, rows: list[Conversation]) -> None:
        from app.chat.trash_dialog import TrashDialog

        TrashDialog(rows, self._conversations, self._window).open()
