"""The button that names the loaded model and opens the list of those at hand; beside it, the one that stops a load."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog, QMenu, QToolButton, QWidget

from app.menu import open_below
from app.model_controller import ModelController
from app.model_files import ModelFile, format_bytes
from app.theme.theme import Theme
from app.translation import tr

MAX_NAME = 44


class ModelPicker(QToolButton):
    folder_requested = Signal()

    def __init__(self, theme: Theme, controller: ModelController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("modelPicker")
        self._theme = theme
        self._controller = controller
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setLayoutDirection(Qt.LayoutDirection.RightToLeft)  # the arrow stands after the name
        self.setIconSize(QSize(16, 16))
        self.clicked.connect(self.open_menu)
        controller.changed.connect(self._show_state)
        controller.models_found.connect(self._show_state)
        theme.changed.connect(self._show_state)
        self._show_state()

    def open_menu(self) -> None:
        menu = self.build_menu()
        open_below(menu, self)
        self._controller.refresh()

    def build_menu(self) -> QMenu:
        menu = QMenu(self)
        menu.setLayoutDirection(QGuiApplication.layoutDirection())  # not the button's
        menu.setToolTipsVisible(True)
        info = self._controller.info
        for model in self._controller.models:
            action = menu.addAction(_words(model), lambda path=model.path: self._controller.load(path))
            action.setToolTip(str(model.path))
            if info is not None and str(model.path) == info.path:
                action.setIcon(self._theme.icon("check", "accent"))
        if not self._controller.models:
            menu.addAction(tr("No models in the models folder yet")).setEnabled(False)
        menu.addSeparator()
        menu.addAction(self._theme.icon("folder"), tr("Open a model file…"), self.choose_file)
        menu.addAction(tr("Show the models folder"), self.folder_requested.emit)
        if info is not None:
            menu.addSeparator()
            menu.addAction(tr("Unload the model"), self._controller.unload)
        return menu

    def choose_file(self) -> None:
        folder = self._controller.models_folder
        name, _ = QFileDialog.getOpenFileName(
            self, tr("Open a model"), str(folder), tr("GGUF models (*.gguf);;All files (*)")
        )
        if name:
            self._controller.load(name)

    def _show_state(self) -> None:
        controller = self._controller
        if controller.loading_path is not None:
            model = ModelFile(Path(controller.loading_path), 0)
            percent = round(controller.loading_fraction * 100)
            text = tr("Loading {name}… {percent} %", name=_short(model.name), percent=percent)
        elif controller.info is not None:
            info = controller.info
            text = f"{_short(info.name)}  ·  {info.quantization}" if info.quantization else _short(info.name)
        else:
            text = tr("Choose a model")
        self.setText(text + " ")
        self.setAccessibleName(tr("Model: {name}", name=text))
        self.setToolTip(_details(controller))
        self.setIcon(self._theme.icon("chevron-down"))


class StopLoading(QToolButton):
    """There as long as a model is being loaded."""

    def __init__(self, theme: Theme, controller: ModelController, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("quiet")
        self._theme, self._controller = theme, controller
        self.setIconSize(QSize(16, 16))
        self.setToolTip(tr("Stop loading"))
        self.setAccessibleName(tr("Stop loading"))
        self.clicked.connect(controller.cancel_load)
        controller.changed.connect(self._show_state)
        theme.changed.connect(self._apply_theme)
        self._apply_theme()
        self._show_state()

    def _show_state(self) -> None:
        self.setVisible(self._controller.loading_path is not None)

    def _apply_theme(self) -> None:
        self.setIcon(self._theme.icon("close"))


def _short(name: str) -> str:
    """Cut in the middle, where a narrow button cuts too; what tells versions apart is often at the end."""
    half = MAX_NAME // 2
    return name if len(name) <= MAX_NAME else name[:half].rstrip() + "…" + name[1 - half :].lstrip()


def _words(model: ModelFile) -> str:
    parts = [_short(model.name), model.quantization, format_bytes(model.size)]
    return "   ".join(part for part in parts if part).replace("&", "&&")


def _details(controller: ModelController) -> str:
    info = controller.info
    if info is None:
        return tr("Choose the model that answers")
    return "\n".join(
        (
            info.path,
            tr("Engine: {engine}", engine=info.engine),
            tr("Context: {count} tokens", count=f"{info.context_length:,}"),
            tr("Threads: {count}", count=info.threads),
        )
    )
