"""The files that will go along with the next message, with their tokens; too large is said before sending."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from app.background import Background
from app.chat.attachments import Attachment, attached_text, read_attachment
from app.chat.token_counter import TokenCounter
from app.flow_layout import FlowLayout
from app.problems import Problem, Problems
from app.theme.theme import Theme
from app.translation import tr
from engine.errors import EngineError


class AttachmentChip(QFrame):
    def __init__(self, attachment: Attachment, theme: Theme, remove: Callable[[], None], parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("chip")
        self.attachment = attachment
        self.tokens: int | None = None
        self.label = QLabel(attachment.name, self)
        self.button = QToolButton(self)
        self.button.setObjectName("quiet")
        self.button.setIconSize(QSize(12, 12))
        self.button.setIcon(theme.icon("close"))
        self.button.setToolTip(tr("Remove"))
        self.button.setAccessibleName(tr("Remove {name}", name=attachment.name))
        self.button.clicked.connect(remove)
        row = QHBoxLayout(self)
        row.setContentsMargins(10, 2, 4, 2)
        row.setSpacing(4)
        row.addWidget(self.label)
        row.addWidget(self.button)

    def show_tokens(self, tokens: int | None) -> None:
        self.tokens = tokens
        name = self.attachment.name
        short = name if len(name) <= 32 else f"{name[:20]}…{name[-10:]}"
        words = (
            tr("{count} tokens", count=f"{tokens:,}") if tokens is not None else tr("counted when a model is loaded")
        )
        self.label.setText(f"{short}  ·  {words}")


class AttachmentBar(QWidget):
    changed = Signal()

    def __init__(
        self,
        theme: Theme,
        counter: TokenCounter,
        background: Background,
        problems: Problems,
        context_length: Callable[[], int],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._counter = counter
        self._background = background
        self._problems = problems
        self._context_length = context_length
        self.chips: list[AttachmentChip] = []
        self.warning = QLabel(self)
        self.warning.setObjectName("attachmentWarning")
        self.warning.setWordWrap(True)
        self.warning.hide()
        self._flow = FlowLayout(spacing=6)
        rows = QVBoxLayout(self)
        rows.setContentsMargins(0, 0, 0, 4)
        rows.setSpacing(4)
        rows.addLayout(self._flow)
        rows.addWidget(self.warning)
        self.hide()

    @property
    def attachments(self) -> list[Attachment]:
        return [chip.attachment for chip in self.chips]

    def add_files(self, paths: list[Path]) -> None:
        """Read and count them in the background; what cannot be attached is explained."""
        for path in paths:
            self._background.run_in_background(
                lambda path=path: read_attachment(path),
                self.add,
                lambda error: self._problems.show(Problem.from_exception("attachment", error)),
            )

    def add_text(self, text: str) -> None:
        """Text that is too long for the box."""
        try:
            self.add(attached_text(tr("Pasted text"), text))
        except EngineError as error:
            self._problems.show(Problem.from_exception("attachment", error))

    def add(self, attachment: Attachment) -> None:
        chip = AttachmentChip(attachment, self._theme, lambda: self._remove(chip), self)
        self.chips.append(chip)
        self._flow.addWidget(chip)
        self.show()

        def counted(tokens: int | None) -> None:
            if chip in self.chips:
                chip.show_tokens(tokens)
                self._warn()

        self._counter.count(attachment.text, counted)
        self.changed.emit()

    def clear(self) -> None:
        for chip in list(self.chips):
            self._remove(chip)

    def _remove(self, chip: AttachmentChip) -> None:
        self.chips.remove(chip)
        self._flow.removeWidget(chip)
        chip.hide()
        chip.deleteLater()
        self.setVisible(bool(self.chips))
        self._warn()
        self.changed.emit()

    def _warn(self) -> None:
        """Said before sending: the files alone do not fit."""
        total = sum(chip.tokens or 0 for chip in self.chips)
        room = self._context_length()
        too_large = room > 0 and total >= room
        self.warning.setVisible(too_large)
        if too_large:
            self.warning.setText(
                tr(
                    "These files need {total} tokens, and the context holds {room}. Remove some, or load the model "
                    "with a longer context.",
                    total=f"{total:,}",
                    room=f"{room:,}",
                )
            )
