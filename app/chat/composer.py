"""Where the owner writes: Enter sends, Shift+Enter breaks the line, and an input method is never cut short."""

from __future__ import annotations

from PySide6.QtCore import QElapsedTimer, QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import QInputMethodEvent, QKeyEvent
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QTextEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.line_edit import OF_THE_INPUT_METHOD
from app.theme.theme import Theme
from app.translation import tr

MAX_LINES = 9
MAX_PASTE = 20_000  # characters; more become an attachment, because laying them out would hold up the window


class ComposerEdit(QTextEdit):
    """Plain text only; grows with its lines."""

    submitted = Signal()
    escaped = Signal()
    files_dropped = Signal(list)
    long_pasted = Signal(str)
    last_requested = Signal()
    lines_changed = Signal()
    _composing = False  # on the class, because Qt sends events while it is being made

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("composerEdit")
        self.setAcceptRichText(False)
        self.setTabChangesFocus(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(2)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    @property
    def is_composing(self) -> bool:
        """An input method holds text that is not committed yet."""
        return self._composing

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        self._composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def event(self, event: QEvent) -> bool:
        if self._composing and event.type() == QEvent.Type.ShortcutOverride:
            event.accept()  # no key of an input method is a shortcut of the window
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self._composing and event.key() in OF_THE_INPUT_METHOD:
            return  # it belongs to the input method
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
            if modifiers == Qt.KeyboardModifier.ShiftModifier:
                self.textCursor().insertBlock()
                self.ensureCursorVisible()
                return
            if modifiers in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier):
                self.submitted.emit()
                return
        if event.key() == Qt.Key.Key_Escape:
            self.escaped.emit()
            return
        if event.key() == Qt.Key.Key_Up and not self.toPlainText() and not self._composing:
            self.last_requested.emit()
            return
        super().keyPressEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return source.hasText() or source.hasUrls()

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Files that are dropped or pasted are attached; of anything else the text is taken."""
        files = [url.toLocalFile() for url in source.urls() if url.isLocalFile()]
        if files:
            self.files_dropped.emit(files)
        elif source.hasText():
            text = source.text()
            if len(text) > MAX_PASTE:
                self.long_pasted.emit(text)
            else:
                self.insertPlainText(text)

    def sizeHint(self) -> QSize:
        return QSize(300, self.height())

    def _fit(self) -> None:
        line = self.fontMetrics().lineSpacing()
        wanted = round(self.document().size().height())
        self.setFixedHeight(max(line + 6, min(wanted, line * MAX_LINES + 6)) + 2)
        self.lines_changed.emit()


class Composer(QFrame):
    """The card at the bottom: text, and one round button that sends or stops."""

    send_requested = Signal(str)
    attach_requested = Signal()
    files_dropped = Signal(list)  # of paths
    long_pasted = Signal(str)
    edit_cancelled = Signal()
    last_requested = Signal()  # the owner's last message, to be edited
    stop_requested = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("composer")
        self._theme = theme
        self._busy = False
        self._sent = QElapsedTimer()  # since the last click on Send
        self.edit = ComposerEdit(self)
        self.edit.setAccessibleName(tr("Message"))
        self.edit.setPlaceholderText(tr("Write a message"))
        self.edit.submitted.connect(self._submit)
        self.edit.escaped.connect(self.escape)
        self.edit.last_requested.connect(self.last_requested)
        self.edit.textChanged.connect(self._update_button)
        self.attach = QToolButton(self)
        self.attach.setObjectName("quiet")
        self.attach.setIconSize(QSize(20, 20))
        self.attach.setFixedSize(32, 32)
        self.attach.setToolTip(tr("Attach files"))
        self.attach.setAccessibleName(tr("Attach files"))
        self.attach.clicked.connect(self.attach_requested)
        self.edit.files_dropped.connect(self.files_dropped)
        self.edit.long_pasted.connect(self.long_pasted)
        self.has_attachments = False
        self.button = QToolButton(self)
        self.button.setObjectName("send")
        self.button.setIconSize(QSize(20, 20))
        self.button.setFixedSize(36, 36)
        self.button.clicked.connect(self._clicked)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self.attach, 0, Qt.AlignmentFlag.AlignBottom)
        row.addWidget(self.edit, 1, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignBottom)
        self._draft = ""
        self.edit_bar = QWidget(self)
        self.edit_bar.hide()
        self._make_edit_bar()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 8, 8)
        layout.addWidget(self.edit_bar)
        self._layout = layout
        layout.addLayout(row)
        self.setFocusProxy(self.edit)
        theme.changed.connect(self._apply_theme)
        self._apply_theme()

    @property
    def text(self) -> str:
        return self.edit.toPlainText()

    def set_text(self, text: str) -> None:
        self.edit.setPlainText(text)
        cursor = self.edit.textCursor()
        cursor.movePosition(cursor.MoveOperation.End)
        self.edit.setTextCursor(cursor)

    def begin_edit(self, text: str) -> None:
        """Another version of a message is written; the draft comes back afterwards."""
        if not self.edit_bar.isVisibleTo(self):
            self._draft = self.text
        self.edit_bar.show()
        self.set_text(text)
        self.edit.setFocus()

    def end_edit(self) -> None:
        self.edit_bar.hide()
        self.set_text(self._draft)
        self._draft = ""

    def _make_edit_bar(self) -> None:
        row = QHBoxLayout(self.edit_bar)
        row.setContentsMargins(0, 0, 0, 2)
        words = QLabel(tr("Editing: sending makes a new version, the old one is kept."), self.edit_bar)
        words.setObjectName("editingHint")
        words.setWordWrap(True)
        self.cancel_edit = QPushButton(tr("Cancel"), self.edit_bar)
        self.cancel_edit.setObjectName("link")
        self.cancel_edit.clicked.connect(self.edit_cancelled)
        row.addWidget(words, 1)
        row.addWidget(self.cancel_edit)

    def clear(self) -> None:
        self.edit.clear()

    def set_busy(self, busy: bool) -> None:
        self._busy = busy
        self._update_button()

    def _submit(self) -> None:
        if not self._busy and (self.text.strip() or self.has_attachments):
            self.send_requested.emit(self.text)

    def escape(self) -> None:
        """Esc leaves an edit; otherwise it stops an answer."""
        if self.edit_bar.isVisible():
            self.edit_cancelled.emit()
        elif self._busy:
            self.stop_requested.emit()

    def _clicked(self) -> None:
        """The second click of a double click on Send is no Stop."""
        if not self._busy:
            self._sent.start()
            self._submit()
        elif not self._sent.isValid() or self._sent.hasExpired(QApplication.doubleClickInterval()):
            self.stop_requested.emit()

    def _update_button(self) -> None:
        ready = self._busy or bool(self.text.strip()) or self.has_attachments
        words = tr("Stop") if self._busy else tr("Send")
        self.button.setEnabled(ready)
        self.button.setIcon(self._theme.icon("stop" if self._busy else "send", "on_accent" if ready else "muted"))
        self.button.setToolTip(words)
        self.button.setAccessibleName(words)

    def show_attachments(self, bar: QWidget) -> None:
        """Put the bar of files over the text."""
        self._layout.insertWidget(1, bar)

    def set_has_attachments(self, some: bool) -> None:
        self.has_attachments = some
        self._update_button()

    def _apply_theme(self) -> None:
        self.attach.setIcon(self._theme.icon("attach"))
        font = self._theme.font(self._theme.type.body)
        if self.edit.font() != font:  # else its whole text would be laid out anew for another colour
            self.edit.setFont(font)
            self.edit._fit()
        self._update_button()
