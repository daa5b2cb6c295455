"""What can be done with the keyboard: declared once, for the shortcuts, the palette and the list on F1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtGui import QKeySequence

from app.translation import tr

if TYPE_CHECKING:
    from app.chat.conversation_actions import ConversationActions
    from app.chat.session import ChatSession
    from app.main_window import MainWindow
    from app.model_controller import ModelController


@dataclass(frozen=True, slots=True)
class WindowCommand:
    """`keys` in Qt's portable spelling; empty where only the palette has it."""

    title: str
    keys: str
    run: Callable[[], None]

    def keys_text(self) -> str:
        return native(self.keys)


def window_commands(
    window: MainWindow, session: ChatSession, models: ModelController, actions: ConversationActions
) -> list[WindowCommand]:
    """All of them, in the order of the list; the palette leaves itself, the first, out."""
    page = window.chat_page
    return [
        WindowCommand(tr("Command palette"), "Ctrl+K", window.open_palette),
        WindowCommand(tr("New conversation"), "Ctrl+N", window.new_conversation),
        WindowCommand(tr("Search all conversations"), "Ctrl+F", window.focus_search),
        WindowCommand(tr("Write a message"), "Ctrl+L", window.focus_composer),
        WindowCommand(tr("Stop the answer, or leave an edit"), "Esc", page.composer.escape),
        WindowCommand(tr("Answer again"), "Ctrl+R", session.regenerate_last),
        WindowCommand(tr("Copy the last answer"), "Ctrl+Shift+C", page.copy_last),
        WindowCommand(tr("Previous message"), "Alt+Up", lambda: page.transcript.step_message(-1)),
        WindowCommand(tr("Next message"), "Alt+Down", lambda: page.transcript.step_message(1)),
        WindowCommand(tr("Choose a model"), "Ctrl+M", page.picker.open_menu),
        WindowCommand(tr("Open a model file…"), "Ctrl+O", page.picker.choose_file),
        WindowCommand(tr("Attach files…"), "Ctrl+Shift+A", page.choose_attachments),
        WindowCommand(tr("Parameters"), "Ctrl+P", page.parameters_button.toggle),
        WindowCommand(tr("Sidebar"), "Ctrl+B", lambda: window.show_sidebar(not window.sidebar.isVisible())),
        WindowCommand(tr("Library"), "Ctrl+D", lambda: window.show_page("library")),
        WindowCommand(tr("Memory"), "Ctrl+Shift+M", lambda: window.show_page("memory")),
        WindowCommand(tr("Settings"), "Ctrl+,", lambda: window.show_page("preferences")),
        WindowCommand(tr("Larger text"), "Ctrl++", lambda: window.change_text_size(1)),
        WindowCommand(tr("Smaller text"), "Ctrl+-", lambda: window.change_text_size(-1)),
        WindowCommand(tr("Light or dark theme"), "Ctrl+Shift+T", window.switch_theme),
        WindowCommand(tr("Keyboard shortcuts"), "F1", window.show_shortcuts),
        WindowCommand(tr("Check of this computer"), "", lambda: window.show_page("doctor")),
        WindowCommand(tr("Logs"), "", lambda: window.show_page("logs")),
        WindowCommand(tr("Import conversations…"), "", lambda: actions.run_for_all("import")),
        WindowCommand(tr("Export all conversations…"), "", lambda: actions.run_for_all("export_all")),
        WindowCommand(tr("Trash…"), "", lambda: actions.run_for_all("trash")),
        WindowCommand(tr("Unload the model"), "", models.unload),
        WindowCommand(tr("Quit"), "Ctrl+Q", lambda: window.close()),
    ]


def writing_keys() -> list[tuple[str, str]]:
    """Keys of the composer and the conversation, which are no commands: (keys, what they do)."""
    rows = (
        ("Return", tr("Send the message")),
        ("Shift+Return", tr("Begin a new line")),
        ("Up", tr("Edit your last message (empty box)")),
        ("F2", tr("Rename a conversation (in the list)")),
        ("Del", tr("Delete a conversation (in the list)")),
    )
    return [(native(keys), words) for keys, words in rows]


def native(keys: str) -> str:
    """Keys as this system writes them."""
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText) if keys else ""
