"""Settings by group, each applied as it is changed."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app.model_controller import ModelController
from app.preferences.setting_row import SettingRow
from app.settings.table import SETTINGS
from app.settings.values import Settings
from app.theme.theme import Theme
from app.translation import tr

PAGE_WIDTH = 720


class PreferencesPage(QScrollArea):
    def __init__(self, theme: Theme, settings: Settings, models: ModelController) -> None:
        super().__init__()
        self.setObjectName("page")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self._settings = settings
        self._models = models
        self.rows: dict[str, SettingRow] = {}
        body = QWidget(self)
        body.setObjectName("pageBody")
        body.setMaximumWidth(PAGE_WIDTH)
        layout = QVBoxLayout(body)
        layout.setContentsMargins(28, 32, 28, 32)
        layout.setSpacing(8)
        title = QLabel(tr("Settings"), body)
        title.setObjectName("pageTitle")
        layout.addWidget(title)
        for group in dict.fromkeys(setting.group for setting in SETTINGS if setting.shown):
            self._add_group(layout, group)
        self.reload = QPushButton(tr("Load the model again with these settings"), body)
        self.reload.setObjectName("secondary")
        self.reload.clicked.connect(models.reload)
        self.reload.hide()
        layout.addWidget(self.reload, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addStretch(1)
        self.setWidget(body)
        self.setAlignment(Qt.AlignmentFlag.AlignHCenter)

    def _add_group(self, layout: QVBoxLayout, group: str) -> None:
        heading = QLabel(tr(group), self)
        heading.setObjectName("groupTitle")
        layout.addSpacing(12)
        layout.addWidget(heading)
        card = QFrame(self)
        card.setObjectName("card")
        rows = QVBoxLayout(card)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(0)
        for setting in SETTINGS:
            if setting.group == group and setting.shown:
                if rows.count():
                    line = QFrame(card)
                    line.setObjectName("line")
                    line.setFixedHeight(1)
                    rows.addWidget(line)
                row = SettingRow(setting, self._settings[setting.name], card)
                row.changed.connect(self._changed)
                self.rows[setting.name] = row
                rows.addWidget(row)
        layout.addWidget(card)

    def _changed(self, name: str, value: object) -> None:
        self._settings.set(name, value)
        if self._settings.table[name].needs_reload and self._models.info is not None:
            self.reload.show()
        if name == "models_folder":
            self._models.refresh()
