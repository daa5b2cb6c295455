"""The check of this computer as a page: every finding green, amber or red, with its remedy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.background import Background
from app.help.help_page import HelpPage
from app.theme.theme import Theme
from app.translation import engine_text, tr

if TYPE_CHECKING:
    from engine.telemetry.doctor import Check

# Health → icon and colour token.
LOOKS = {"good": ("check", "accent"), "limited": ("warning", "warning"), "broken": ("error", "danger")}


class DoctorPage(HelpPage):
    def __init__(
        self, theme: Theme, background: Background, models_folder: Path, parent: QWidget | None = None
    ) -> None:
        super().__init__(
            theme,
            tr("Check of this computer"),
            tr("What Tessera found here. Amber works, with something missing; red needs the remedy beside it."),
            parent,
        )
        self._background = background
        self._models_folder = models_folder
        self.checks: list[Check] = []
        self.rows: list[QWidget] = []
        self.again = QPushButton(tr("Check again"), self.body)
        self.again.setObjectName("secondary")
        self.again.clicked.connect(self.run)
        self.copy = QPushButton(tr("Copy"), self.body)
        self.copy.setObjectName("secondary")
        self.copy.setToolTip(tr("Copies the findings without paths"))
        self.copy.clicked.connect(self._copy)
        self.actions.addWidget(self.copy)
        self.actions.addWidget(self.again)
        self._card: QFrame | None = None
        self.column.addStretch(1)
        self.run()

    def run(self) -> None:
        """Check, off the main thread."""
        self.again.setEnabled(False)
        self.copy.setEnabled(False)
        folder = self._models_folder

        def check() -> list[Check]:
            from engine.telemetry.doctor import run_checks

            return run_checks(folder, has_display=True)

        self._background.run_in_background(check, self.show_checks)

    def show_checks(self, checks: list[Check]) -> None:
        self.checks = checks
        self.again.setEnabled(True)
        self.copy.setEnabled(True)
        self._fill()

    def _fill(self) -> None:
        if self._card is not None:
            self._card.hide()  # it is deleted only once the event loop is back
            self._card.deleteLater()
        card = QFrame(self.body)
        card.setObjectName("card")
        rows = QVBoxLayout(card)
        rows.setContentsMargins(0, 4, 0, 4)
        rows.setSpacing(0)
        # What needs attention comes first.
        order = {"broken": 0, "limited": 1, "good": 2}
        self.rows = [self._row(check, card) for check in sorted(self.checks, key=lambda one: order[one.health.value])]
        for row in self.rows:
            rows.addWidget(row)
        self._card = card
        self.column.insertWidget(3, card)

    def _row(self, check: Check, parent: QWidget) -> QWidget:
        icon, color = LOOKS[check.health.value]
        words = _health_words(check.health.value)
        row = QWidget(parent)
        mark = QLabel(row)
        mark.setPixmap(self._theme.icon(icon, color).pixmap(QSize(18, 18), self.devicePixelRatioF()))
        mark.setAccessibleName(words)
        mark.setToolTip(words)
        name = QLabel(name_words(check.name), row)
        name.setObjectName("settingTitle")
        name.setFixedWidth(130)
        name.setWordWrap(True)
        found = QLabel(engine_text(check.found), row)
        found.setWordWrap(True)
        found.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)  # a path is one long word
        found.setToolTip(found.text())
        found.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(found)
        if check.remedy:
            remedy = QLabel(engine_text(check.remedy), row)
            remedy.setObjectName("settingHelp")
            remedy.setWordWrap(True)
            remedy.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
            remedy.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            texts.addWidget(remedy)
        line = QHBoxLayout(row)
        line.setContentsMargins(16, 8, 16, 8)
        line.setSpacing(12)
        line.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
        line.addWidget(name, 0, Qt.AlignmentFlag.AlignTop)
        line.addLayout(texts, 1)
        return row

    def _copy(self) -> None:
        from app.log_text import without_personal

        lines = [
            f"{check.health.value:<8} {check.name}: {check.found} {check.remedy}".rstrip() for check in self.checks
        ]
        QGuiApplication.clipboard().setText(without_personal("\n".join(lines) + "\n"))

    def _apply_theme(self) -> None:
        super()._apply_theme()
        if getattr(self, "checks", None):
            self._fill()


def name_words(name: str) -> str:
    """Single words are too short to be recognised among the engine's texts."""
    words = {
        "Processor": tr("Processor"),
        "Memory": tr("Memory"),
        "Disk": tr("Disk"),
        "System": tr("System"),
        "Display": tr("Display"),
    }
    return words.get(name) or engine_text(name)


def _health_words(health: str) -> str:
    """What the colour says, for those who do not see it."""
    if health == "good":
        return tr("Good")
    return tr("Works, with something missing") if health == "limited" else tr("Broken")
