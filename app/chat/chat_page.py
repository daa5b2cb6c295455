"""The chat page: model picker above, transcript, problems, composer below."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QGuiApplication
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.background import Background
from app.chat.answer_details import AnswerDetails
from app.chat.answer_facts import ending_of
from app.chat.attachment_bar import AttachmentBar
from app.chat.attachments import stored
from app.chat.composer import Composer
from app.chat.empty_page import EmptyPage
from app.chat.link_question import ask_to_open
from app.chat.parameters.parameters_panel import ParametersPanel
from app.chat.parameters.presets import Presets
from app.chat.readable import readable_text
from app.chat.remedies import ANSWER_PROBLEM, Remedies
from app.chat.session import ChatSession
from app.chat.token_counter import TokenCounter
from app.chat.top_bar import TopBar
from app.chat.transcript.footer import SPOKEN
from app.chat.transcript.style import COLUMN_WIDTH, SIDE_MARGIN
from app.chat.transcript.transcript import Transcript
from app.model_controller import ModelController
from app.problem_stack import ProblemStack
from app.problems import Problems
from app.store.records import Message, Status
from app.theme.theme import Theme
from app.translation import tr
from engine.messages import FinishReason
from engine.text.reasoning import split_reasoning


class ChatPage(QWidget):
    """Assembles the widgets and joins them to the session; decides nothing itself."""

    panel_made = Signal(object)  # ParametersPanel, when it is first wanted
    deleted = Signal(list)  # Messages; offer to undo

    def __init__(
        self,
        theme: Theme,
        session: ChatSession,
        models: ModelController,
        problems: Problems,
        presets: Presets,
        background: Background,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("chatPage")
        self._theme = theme
        self._session = session
        self._models = models
        self._problems = problems
        self._edited: Message | None = None
        self.remedies = Remedies(self, session, models, problems)
        self.top = TopBar(theme, models, self)
        self.sidebar_button = self.top.sidebar_button
        self.picker, self.meter = self.top.picker, self.top.meter
        self.stop_loading = self.top.stop_loading
        self.parameters_button = self.top.parameters_button
        self.transcript = Transcript(theme, self, background.run_in_background)
        self.empty = EmptyPage(theme, models, self)
        self.problem_stack = ProblemStack(problems, theme, self)
        self.composer = Composer(theme, self)
        counter = TokenCounter(models, background)
        self.attachments = AttachmentBar(theme, counter, background, problems, self._context_length, self)
        self.composer.show_attachments(self.attachments)
        self._presets = presets
        self._parameters: ParametersPanel | None = None
        self.to_bottom = QToolButton(self.transcript)
        self._assemble()
        self._connect()
        self._show_path()

    def _assemble(self) -> None:
        self.loading = QProgressBar(self)
        self.loading.setObjectName("loading")
        self.loading.setTextVisible(False)
        self.loading.setFixedHeight(3)
        self.loading.setRange(0, 1000)
        self.loading.setAccessibleName(tr("Loading the model"))
        self.hint = QLabel(self)
        self.hint.setObjectName("hint")
        self.hint.setWordWrap(True)
        self.hint.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.bottom = QWidget(self)
        bottom = QVBoxLayout(self.bottom)
        bottom.setContentsMargins(SIDE_MARGIN, 4, SIDE_MARGIN, 10)
        bottom.setSpacing(8)
        bottom.addWidget(self.problem_stack)
        bottom.addWidget(self.composer)
        bottom.addWidget(self.hint)
        self.to_bottom.setObjectName("toBottom")
        self.to_bottom.setIconSize(QSize(18, 18))
        self.to_bottom.setFixedSize(36, 36)
        self.to_bottom.setToolTip(tr("To the latest message"))
        self.to_bottom.setAccessibleName(tr("To the latest message"))
        self.to_bottom.hide()
        self.main = QWidget(self)
        layout = QVBoxLayout(self.main)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.top)
        layout.addWidget(self.loading)
        layout.addWidget(self.empty, 1)
        layout.addWidget(self.transcript, 1)
        layout.addWidget(self.bottom)
        columns = self._columns = QHBoxLayout(self)
        columns.setContentsMargins(0, 0, 0, 0)
        columns.setSpacing(0)
        columns.addWidget(self.main, 1)
        self.main.installEventFilter(self)
        self._apply_theme()

    def _connect(self) -> None:
        session, transcript = self._session, self.transcript
        session.opened.connect(self._opened)
        session.path_changed.connect(lambda: self._show_path(keep_place=True))
        session.message_added.connect(self._added)
        session.message_grew.connect(lambda message, _text: transcript.grow(message))
        session.message_changed.connect(self._changed)
        session.revealed.connect(transcript.scroll_to_message)
        session.progressed.connect(transcript.show_progress)
        session.started.connect(lambda _message: self._problems.clear(ANSWER_PROBLEM))
        session.finished.connect(self._announce)
        session.busy_changed.connect(self._busy)
        transcript.versions = session.versions
        transcript.can_continue = session.can_continue
        transcript.action_requested.connect(self._act)
        transcript.version_requested.connect(lambda message, step: session.show_version(message.id, step))
        session.message_replaced.connect(transcript.replace)
        transcript.link_activated.connect(lambda link: ask_to_open(link, self))
        transcript.at_bottom_changed.connect(lambda there: self.to_bottom.setVisible(not there))
        self.to_bottom.clicked.connect(transcript.scroll_to_bottom)
        self.composer.send_requested.connect(self._send)
        self.composer.stop_requested.connect(session.stop)
        self.composer.attach_requested.connect(self.choose_attachments)
        self.composer.files_dropped.connect(lambda names: self.attachments.add_files([Path(name) for name in names]))
        self.composer.long_pasted.connect(self.attachments.add_text)
        self.attachments.changed.connect(lambda: self.composer.set_has_attachments(bool(self.attachments.chips)))
        self.composer.edit_cancelled.connect(self._cancel_edit)
        self.composer.last_requested.connect(self.edit_last)
        self.parameters_button.toggled.connect(lambda shown: self.parameters.setVisible(shown))
        self._models.changed.connect(self._model_changed)
        self._theme.changed.connect(self._apply_theme)
        transcript.installEventFilter(self)
        self._model_changed()

    @property
    def parameters(self) -> ParametersPanel:
        """The panel at the right, made when it is first wanted."""
        if self._parameters is None:
            panel = ParametersPanel(self._theme, self._presets, self)
            panel.close_requested.connect(lambda: self.parameters_button.setChecked(False))
            panel.changed.connect(self._parameters_changed)
            panel.show_values(self._session.parameters)
            panel.offer_reasoning(self._models.info is not None and self._models.info.has_reasoning_switch)
            self._columns.addWidget(panel)
            self._parameters = panel
            self.panel_made.emit(panel)
        return self._parameters

    def _parameters_changed(self, values: dict[str, Any]) -> None:
        self._session.set_parameters(values)
        self.remedies.offer_its_model()

    # --- what the session says ---

    def _opened(self) -> None:
        self._problems.clear(ANSWER_PROBLEM)
        self._cancel_edit()
        if self._parameters is not None:
            self._parameters.show_values(self._session.parameters)
        self._show_path()
        self.remedies.offer_its_model()
        self.composer.setFocus()

    def _cancel_edit(self) -> None:
        if self._edited is not None:
            self._edited = None
            self.composer.end_edit()

    def _show_path(self, *, keep_place: bool = False) -> None:
        path = self._session.path()
        self.transcript.set_messages(path, keep_place=keep_place)
        self._show_transcript(bool(path))
        self._show_context()
        generation = self._session.generation
        if generation is not None:
            self.transcript.show_progress(generation)

    def _show_transcript(self, shown: bool) -> None:
        self.transcript.setVisible(shown)
        self.empty.setVisible(not shown)

    def _added(self, message: Message) -> None:
        self._show_transcript(True)
        self.transcript.append(message)

    def _changed(self, message: Message) -> None:
        self.transcript.refresh(message)
        self._show_context()
        error = message.details.get("error")
        if message.status is Status.FAILED and error is not None:
            self.remedies.offer(message, error)
        elif message.details.get("reason") == FinishReason.CONTEXT_FULL.value and self._session.can_continue(message):
            self.remedies.offer_room(message)

    def _announce(self, message: Message) -> None:
        """Tell screen readers what was answered: the text itself is painted, and none of them sees it."""
        if message.conversation_id != self._session.conversation_id or not QAccessible.isActive():
            return
        words = readable_text(message)[:SPOKEN] or ending_of(message)
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self.transcript, words))

    def _show_context(self) -> None:
        """The ring: what the last measured answer on screen used."""
        info = self._models.info
        depths = [depth for message in self._session.path() if (depth := message.details.get("depth"))]
        self.meter.show_use(depths[-1] if depths else 0, info.context_length if info is not None else 0)

    def _busy(self, busy: bool) -> None:
        self.composer.set_busy(busy)
        self.transcript.set_read_only(busy)

    def _model_changed(self) -> None:
        models = self._models
        loading = models.loading_path is not None
        self.loading.setProperty("idle", not loading)
        self.loading.setValue(round(models.loading_fraction * 1000) if loading else 0)
        self.hint.setText(_hint(models))
        if self._parameters is not None:
            self._parameters.offer_reasoning(models.info is not None and models.info.has_reasoning_switch)
        self._show_context()

    # --- what the owner does ---

    def _send(self, text: str) -> None:
        if self._edited is not None:
            self._send_edit(text)
            return
        if not self.remedies.can_answer():
            return
        attachments = stored(self.attachments.attachments)
        self.composer.clear()
        self.attachments.clear()
        self._session.send(text, attachments)

    def _act(self, action: str, message: Message) -> None:
        """What a message's footer asks for."""
        match action:
            case "copy":
                QGuiApplication.clipboard().setText(readable_text(message))
            case "copy_markdown":
                QGuiApplication.clipboard().setText(split_reasoning(message.content).said)
            case "regenerate":
                self._problems.clear(ANSWER_PROBLEM)
                self._session.regenerate(message.id)
            case "continue":
                if self.remedies.can_answer():
                    self._session.continue_answer(message.id)
            case "edit":
                self._edited = message
                self.composer.begin_edit(message.content)
            case "delete":
                if removed := self._session.delete(message.id):
                    self.deleted.emit(removed)
            case "details":
                tree = self._session.tree
                AnswerDetails(message, tree.messages() if tree is not None else [message], self._theme, self).open()

    def choose_attachments(self) -> None:
        names, _ = QFileDialog.getOpenFileNames(self, tr("Attach files"), "", tr("Text, code and PDF (*)"))
        self.attachments.add_files([Path(name) for name in names])

    def _context_length(self) -> int:
        return self._models.info.context_length if self._models.info is not None else 0

    def copy_last(self) -> None:
        """The last answer, as it is read."""
        answers = [message for message in self._session.path() if message.role == "assistant"]
        if answers:
            self._act("copy", answers[-1])

    def edit_last(self) -> None:
        """The owner's last message, back in the box."""
        questions = [message for message in self._session.path() if message.role == "user"]
        if questions and not self._session.is_busy:
            self._act("edit", questions[-1])

    def _send_edit(self, text: str) -> None:
        if self._edited is not None and (self._edited.role == "assistant" or self.remedies.can_answer()):
            self._session.edit(self._edited.id, text)
            self._edited = None
            self.composer.end_edit()

    # --- looks ---

    def _apply_theme(self) -> None:
        self.to_bottom.setIcon(self._theme.icon("arrow-down", "text"))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.transcript and event.type() == QEvent.Type.Resize:
            button, area = self.to_bottom, self.transcript
            button.move((area.width() - button.width()) // 2, area.height() - button.height() - 10)
        elif watched is self.main and event.type() == QEvent.Type.Resize:
            margin = max(SIDE_MARGIN, (self.main.width() - COLUMN_WIDTH) // 2 - 12)
            self.bottom.layout().setContentsMargins(margin, 4, margin, 10)
        return False


def _hint(models: ModelController) -> str:
    info = models.info
    if info is None:
        return tr("Answers are made on this computer. Nothing leaves it.")
    if info.engine == "compatibility":
        return tr("Compatibility engine: placement is per layer.")
    return tr("Models make mistakes. Check what matters.")
