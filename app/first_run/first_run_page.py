"""The first page of the first start: what this computer can do, three models for it, and a way to begin at once."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.background import Background
from app.first_run.machine_words import Fact, FirstLook, look
from app.library.pill import Pill
from app.model_files import ModelFile
from app.theme.theme import Theme
from app.titled_text import TitledText
from app.translation import engine_text, sentences, tr
from engine.hub.names import STARTER_FILE
from engine.hub.recommend import FLUENT, Recommendation, Role

PAGE_WIDTH = 720


class FirstRunPage(QScrollArea):
    begin_requested = Signal()
    model_requested = Signal(str)  # words to look for in the library
    file_chosen = Signal(str)

    def __init__(self, theme: Theme, background: Background, data: Path, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._found: FirstLook | None = None
        self._has_model = True  # until the models folder was looked through
        self.setObjectName("page")
        self.setAccessibleName(tr("Welcome to Tessera"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        body = QWidget(self)
        body.setObjectName("pageBody")
        body.setMaximumWidth(PAGE_WIDTH)
        self._column = QVBoxLayout(body)
        self._column.setContentsMargins(28, 36, 28, 32)
        self._column.setSpacing(10)
        self.mark = QLabel(body)
        self._column.addWidget(self.mark)
        title = QLabel(tr("Welcome to Tessera"), body)
        title.setObjectName("pageTitle")
        self._column.addWidget(title)
        self._text(tr("It runs language models on this computer. What you write stays here."), body)
        self.begin = QPushButton(tr("Start chatting"), body)
        self.begin.setObjectName("primary")
        self.begin.setAutoDefault(True)  # Enter presses it, too, which outside of dialogs not every system does
        self.begin.clicked.connect(self._begin)
        self.import_file = QPushButton(tr("Open a model file of mine…"), body)
        self.import_file.setObjectName("secondary")
        self.import_file.setAutoDefault(True)
        self.import_file.clicked.connect(self._ask_file)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        buttons.addWidget(self.begin)
        buttons.addWidget(self.import_file)
        buttons.addStretch(1)
        self._column.addSpacing(6)
        self._column.addLayout(buttons)
        self.model_words = self._text(tr("Looking for models…"), body)
        self._heading(tr("This computer"), body)
        self.facts = self._card(body)
        self.facts.addWidget(self._line(tr("Looking at this computer…")))
        self._heading(tr("Models that suit it"), body)
        self.models = self._card(body)
        self.models.addWidget(self._line(tr("What suits it is known in a moment.")))
        self.source = self._text("", body)
        self._column.addStretch(1)
        self.setWidget(body)
        theme.changed.connect(self._apply_theme)
        self._apply_theme()
        background.run_in_background(lambda: look(data), self.show_look)

    def _text(self, words: str, parent: QWidget) -> QLabel:
        label = QLabel(words, parent)
        label.setObjectName("settingHelp")
        label.setWordWrap(True)
        self._column.addWidget(label)
        return label

    def _heading(self, words: str, parent: QWidget) -> None:
        label = QLabel(words, parent)
        label.setObjectName("groupTitle")
        label.setContentsMargins(0, 16, 0, 0)
        self._column.addWidget(label)

    def _card(self, parent: QWidget) -> QVBoxLayout:
        card = QFrame(parent)
        card.setObjectName("card")
        rows = QVBoxLayout(card)
        rows.setContentsMargins(0, 6, 0, 6)
        rows.setSpacing(0)
        self._column.addWidget(card)
        return rows

    def show_models(self, models: list[ModelFile]) -> None:
        """What there is to begin with; without any model the way leads to the library."""
        self._has_model = bool(models)
        self.begin.setText(tr("Start chatting") if models else tr("Discover models"))
        if any(model.path.name == STARTER_FILE for model in models):
            words = tr("A small starter model is here already and answers at once: quick, but not clever.")
        elif models:
            words = tr("Models that are here already: {count}.", count=len(models))
        else:
            words = tr("No model is here yet: look for one, or open a file of yours.")
        self.model_words.setText(words)

    def show_look(self, found: FirstLook) -> None:
        """Fill both cards, in place of what stood there."""
        self._found = found
        for rows in (self.facts, self.models):
            while (item := rows.takeAt(0)) is not None:
                item.widget().hide()  # it is deleted only once the event loop is back
                item.widget().deleteLater()
        for fact in found.facts:
            self.facts.addWidget(self._fact_row(fact))
        for one in found.recommendations:
            self.models.addWidget(self._model_row(one))
        if not found.recommendations:
            nothing = tr("None of the suggested models fits into the memory; the starter model does.")
            self.models.addWidget(self._line(nothing))
        self.source.setText(
            tr("Speeds are predicted from this computer's measured memory speed, and not measured with the model.")
            if found.measured
            else tr("Speeds are predicted from datasheets of similar computers, and not measured.")
        )

    def _line(self, words: str) -> QLabel:
        label = QLabel(words, self)
        label.setWordWrap(True)
        label.setContentsMargins(16, 8, 16, 8)
        return label

    def _fact_row(self, fact: Fact) -> QWidget:
        row = QWidget(self)
        mark = QLabel(row)
        icon = self._theme.icon("check", "accent") if fact.good else self._theme.icon("warning", "warning")
        mark.setPixmap(icon.pixmap(QSize(18, 18), self.devicePixelRatioF()))
        title = QLabel(fact.title, row)
        title.setObjectName("settingTitle")
        title.setFixedWidth(120)
        words = QLabel(fact.words, row)
        words.setWordWrap(True)
        line = QHBoxLayout(row)
        line.setContentsMargins(16, 7, 16, 7)
        line.setSpacing(12)
        line.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(title, 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(words, 1)
        return row

    def _model_row(self, one: Recommendation) -> QWidget:
        row = QWidget(self)
        model = one.model
        why = sentences(_role_words(one.role), engine_text(model.why))
        texts = TitledText(f"{model.title}  ·  {model.gigabytes:.1f} GB", why, row)
        speed = f"{one.speed:.0f}" if one.speed >= 10 else f"{one.speed:.1f}"
        pill = Pill(tr("~{speed} tok/s predicted", speed=speed), "good" if one.speed >= FLUENT else "quiet", row)
        get = QPushButton(tr("Look at it"), row)
        get.setObjectName("secondary")
        get.setAccessibleName(tr("Look at {model}", model=model.title))
        get.clicked.connect(lambda: self.model_requested.emit(model.repository))
        line = QHBoxLayout(row)
        line.setContentsMargins(16, 8, 16, 8)
        line.setSpacing(12)
        line.addLayout(texts, 1)
        side = QVBoxLayout()  # below each other: a narrow window has no room for both in a line
        side.setSpacing(4)
        side.addWidget(pill, 0, Qt.AlignmentFlag.AlignRight)
        side.addWidget(get, 0, Qt.AlignmentFlag.AlignRight)
        line.addLayout(side)
        return row

    def _begin(self) -> None:
        if self._has_model:
            self.begin_requested.emit()
        else:
            self.model_requested.emit("")

    def _ask_file(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self, tr("Open a model"), "", "GGUF (*.gguf)")
        if name:
            self.file_chosen.emit(name)

    def _apply_theme(self) -> None:
        self.mark.setPixmap(self._theme.icon("tessera", "accent").pixmap(QSize(48, 48), self.devicePixelRatioF()))
        if self._found is not None:
            self.show_look(self._found)


def _role_words(role: Role) -> str:
    if role is Role.QUICK:
        return tr("Small and quick.")
    return tr("Balanced.") if role is Role.BALANCED else tr("The most able.")
