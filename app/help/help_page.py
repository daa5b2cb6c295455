"""What the pages behind the settings have in common: a way back, a title, one explaining line, a body."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QToolButton, QVBoxLayout, QWidget

from app.flow_layout import FlowLayout
from app.theme.theme import Theme
from app.translation import tr

PAGE_WIDTH = 720


class HelpPage(QScrollArea):
    back_requested = Signal()

    def __init__(self, theme: Theme, title: str, explanation: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setObjectName("page")
        self.setAccessibleName(title)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.body = QWidget(self)
        self.body.setObjectName("pageBody")
        self.body.setMaximumWidth(PAGE_WIDTH)
        self.back = QToolButton(self.body)
        self.back.setObjectName("quiet")
        self.back.setIconSize(QSize(18, 18))
        self.back.setToolTip(tr("Back to the settings"))
        self.back.setAccessibleName(tr("Back to the settings"))
        self.back.clicked.connect(self.back_requested)
        heading = QLabel(title, self.body)
        heading.setObjectName("pageTitle")
        self.explanation = QLabel(explanation, self.body)
        self.explanation.setObjectName("settingHelp")
        self.explanation.setWordWrap(True)
        self.head = QHBoxLayout()
        self.head.setSpacing(8)
        self.head.addWidget(self.back)
        self.head.addWidget(heading)
        self.head.addStretch(1)
        self.column = QVBoxLayout(self.body)
        self.column.setContentsMargins(28, 32, 28, 32)
        self.column.setSpacing(10)
        self.column.addLayout(self.head)
        self.column.addWidget(self.explanation)
        self.actions = FlowLayout()  # beside the title they would find no room in a narrow window
        self.column.addLayout(self.actions)
        self.setWidget(self.body)
        theme.changed.connect(self._apply_theme)
        self._apply_theme()

    def _apply_theme(self) -> None:
        self.back.setIcon(self._theme.icon("chevron-left"))
