"""Settings by group, each applied as it is changed; with search, reset, export and import."""

from __future__ import annotations

import json
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QMenu,
    QPushButton,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.export_file import write_export
from app.menu import open_below
from app.model_controller import ModelController
from app.preferences.link_row import LinkRow
from app.preferences.setting_row import SettingRow
from app.settings.table import GROUPS, SETTINGS
from app.settings.values import Settings
from app.theme.theme import Theme
from app.translation import error_text, sentences, tr
from engine.errors import FileError

PAGE_WIDTH = 720


class PreferencesPage(QScrollArea):
    page_requested = Signal(str)

    def __init__(self, theme: Theme, settings: Settings, models: ModelController) -> None:
        super().__init__()
        self.setObjectName("page")
        self.setAccessibleName(tr("Settings"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self._settings = settings
        self._models = models
        self._theme = theme
        self.rows: dict[str, SettingRow] = {}
        self.links: dict[str, LinkRow] = {}
        self._groups: list[tuple[QLabel, QFrame, list[str]]] = []
        body = QWidget(self)
        body.setObjectName("pageBody")
        body.setMaximumWidth(PAGE_WIDTH)
        layout = QVBoxLayout(body)
        layout.setContentsMargins(28, 32, 28, 32)
        layout.setSpacing(8)
        layout.addLayout(self._head())
        self.message = QLabel(body)
        self.message.setObjectName("settingHelp")
        self.message.setWordWrap(True)
        self.message.hide()
        layout.addWidget(self.message)
        for group in GROUPS:
            self._add_group(layout, group)
        self._add_help(layout)
        self.nothing = QLabel(tr("No setting has these words."), body)
        self.nothing.setObjectName("emptyText")
        self.nothing.hide()
        layout.addWidget(self.nothing)
        self.reload = QPushButton(tr("Load the model again with these settings"), body)
        self.reload.setObjectName("secondary")
        self.reload.clicked.connect(self._reload)
        self.reload.hide()
        layout.addWidget(self.reload, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addStretch(1)
        self.setWidget(body)
        self.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        settings.on_change(self._changed_elsewhere)
        theme.changed.connect(self._apply_theme)
        self._apply_theme()

    # --- parts ---

    def _head(self) -> QHBoxLayout:
        title = QLabel(tr("Settings"), self)
        title.setObjectName("pageTitle")
        self.search = QLineEdit(self)
        self.search.setPlaceholderText(tr("Search settings"))
        self.search.setAccessibleName(tr("Search settings"))
        self.search.setClearButtonEnabled(True)
        self.search.setMaximumWidth(240)
        self.search.textChanged.connect(self.filter)
        self.more = QToolButton(self)
        self.more.setObjectName("quiet")
        self.more.setIconSize(QSize(18, 18))
        self.more.setToolTip(tr("Reset, export, import"))
        self.more.setAccessibleName(tr("Reset, export, import"))
        self.more.clicked.connect(self._open_menu)
        row = QHBoxLayout()
        row.addWidget(title)
        row.addStretch(1)
        row.addWidget(self.search, 1)
        row.addWidget(self.more)
        return row

    def _add_group(self, layout: QVBoxLayout, group: str) -> None:
        heading = QLabel(tr(group), self)
        heading.setObjectName("groupTitle")
        layout.addWidget(heading)
        heading.setContentsMargins(0, 14, 0, 0)
        card = QFrame(self)
        card.setObjectName("card")
        rows = QVBoxLayout(card)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(0)
        names = []
        for setting in SETTINGS:
            if setting.group == group and setting.shown:
                row = SettingRow(setting, self._settings[setting.name], self._theme, card)
                row.changed.connect(self._changed)
                row.has_line = bool(names)
                self.rows[setting.name] = row
                names.append(setting.name)
                rows.addWidget(row)
        layout.addWidget(card)
        self._groups.append((heading, card, names))

    def _add_help(self, layout: QVBoxLayout) -> None:
        """Ways to the pages behind this one, as a group like the others."""
        heading = QLabel(tr("Help"), self)
        heading.setObjectName("groupTitle")
        heading.setContentsMargins(0, 14, 0, 0)
        layout.addWidget(heading)
        card = QFrame(self)
        card.setObjectName("card")
        rows = QVBoxLayout(card)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(0)
        for key, title, words in (
            ("doctor", tr("Check of this computer"), tr("What is here, what is missing, and how to get it.")),
            ("gpu", tr("GPU support"), tr("Install or remove what models need to run on an NVIDIA card.")),
            ("logs", tr("Logs"), tr("What happened, to read or to copy without paths.")),
            ("updates", tr("Updates"), tr("Which version this is, and whether there is a newer one.")),
        ):
            row = LinkRow(title, words, card)
            row.has_line = bool(self.links)
            row.clicked.connect(lambda key=key: self.page_requested.emit(key))
            self.links[key] = row
            rows.addWidget(row)
        layout.addWidget(card)
        self._help = (heading, card)

    # --- changes ---

    def _changed(self, name: str, value: object) -> None:
        try:
            self._settings.set(name, value)
        except ValueError as error:
            self._say(error_text(error))
            self.rows[name].show_value(self._settings[name])

    def _changed_elsewhere(self, name: str, value: object) -> None:
        """A setting has another value now, whoever changed it."""
        if name not in self.rows:
            return
        self.message.hide()
        self.rows[name].show_value(value)
        if self._settings.table[name].needs_reload and self._models.info is not None:
            self.reload.show()
        if name == "models_folder":
            self._models.refresh()

    def _reload(self) -> None:
        self.reload.hide()
        self._models.reload()

    def filter(self, query: str) -> None:
        """Show only settings that have these words."""
        words = query.lower().split()
        found = False
        for heading, card, names in self._groups:
            shown = [name for name in names if all(word in self.rows[name].words for word in words)]
            for name in names:
                self.rows[name].setVisible(name in shown)
                self.rows[name].has_line = bool(shown) and name != shown[0]
            heading.setVisible(bool(shown))
            card.setVisible(bool(shown))
            found = found or bool(shown)
        linked = [row for row in self.links.values() if all(word in row.words for word in words)]
        for row in self.links.values():
            row.setVisible(row in linked)
            row.has_line = row is not linked[0] if linked else False
        for part in self._help:
            part.setVisible(bool(linked))
        self.nothing.setVisible(not found and not linked)

    # --- all of them ---

    def build_menu(self) -> QMenu:
        menu = QMenu(self)
        menu.addAction(tr("Reset all settings"), self.reset_all)
        menu.addSeparator()
        menu.addAction(tr("Export settings…"), self._ask_export)
        menu.addAction(tr("Import settings…"), self._ask_import)
        return menu

    def reset_all(self) -> None:
        for name in self.rows:
            self._settings.set(name, self._settings.table[name].default)
        self._say(tr("All settings have their defaults again."))

    def export_to(self, path: Path) -> None:
        values = {name: self._settings[name] for name in self.rows}
        try:
            write_export(path, (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode())
        except FileError as error:
            self._say(error_text(error))
            return
        self._say(tr("The settings were written to {path}.", path=path))

    def import_from(self, path: Path) -> None:
        """Every setting that is known and valid; the others are named."""
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            items = list(stored.items())
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            self._say(tr("{path} holds no settings: {error}", path=path, error=error))
            return
        problems = []
        for name, value in items:
            setting = self._settings.table.find(name)
            if setting is None or not setting.shown:
                problems.append(tr("“{name}” is unknown.", name=name))
                continue
            try:
                self._settings.set(setting.name, value)
            except ValueError as error:
                problems.append(error_text(error))
        self._say(sentences(tr("The settings were read from {path}.", path=path), *problems))

    def _ask_export(self) -> None:
        name, _ = QFileDialog.getSaveFileName(self, tr("Export settings"), "tessera-settings.json", "JSON (*.json)")
        if name:
            try:
                self.export_to(Path(name))
            except OSError as error:
                self._say(tr("{path} could not be written: {error}", path=name, error=error))

    def _ask_import(self) -> None:
        name, _ = QFileDialog.getOpenFileName(self, tr("Import settings"), "", "JSON (*.json)")
        if name:
            self.import_from(Path(name))

    def _open_menu(self) -> None:
        open_below(self.build_menu(), self.more)

    def _say(self, words: str) -> None:
        self.message.setText(words)
        self.message.show()

    def _apply_theme(self) -> None:
        self.more.setIcon(self._theme.icon("more"))
