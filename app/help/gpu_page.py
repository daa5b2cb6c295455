"""GPU support as a page: what it is, whether it is here, and one button for what can be done about it."""

from __future__ import annotations

from PySide6.QtWidgets import QProgressBar, QWidget

from app.background import Background
from app.help.gpu_install import GpuInstall
from app.help.help_page import HelpPage
from app.help.state_card import StateCard
from app.library.notice import Notice
from app.model_files import format_bytes
from app.settings.values import Settings
from app.theme.theme import Theme
from app.translation import tr
from engine.hub.connection import HubSettings
from engine.hub.gpu_support import GpuSupport, component_for_this_system


class GpuPage(HelpPage):
    def __init__(
        self,
        theme: Theme,
        background: Background,
        settings: Settings,
        support: GpuSupport | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(
            theme,
            tr("GPU support"),
            tr(
                "On an NVIDIA card Tessera's kernels are compiled once, by NVIDIA's compiler library NVRTC. It is "
                "fetched from the Python package index when you ask for it, checked, and kept in your data folder."
            ),
            parent,
        )
        self._settings = settings
        component = component_for_this_system()
        if support is None and component is not None:
            support = GpuSupport(component)
        self.install: GpuInstall | None = None
        self.card = StateCard(theme, self.body)
        self.progress = QProgressBar(self.card)
        self.progress.setObjectName("progress")
        self.progress.setTextVisible(False)
        self.progress.setFixedHeight(6)
        self.card.texts.addWidget(self.progress)
        self.button = self.card.add_button("", "primary")
        self.button.clicked.connect(self._pressed)
        self.column.addWidget(self.card)
        self.notice = Notice(self.body)
        self.notice.hide()
        self.column.addWidget(self.notice)
        self.column.addStretch(1)
        if support is not None:
            self.install = GpuInstall(background, support, self._hub_settings, self)
            self.install.changed.connect(self.show_state)
            self.install.failed.connect(lambda error: self.notice.show_error(error, self._pressed))
            self.install.finished.connect(
                lambda: self.notice.show_words(tr("GPU support is installed. Start Tessera again to use it."))
            )
        self.show_state()

    def _hub_settings(self) -> HubSettings:
        from app.library.hub_services import make_settings

        return make_settings(self._settings.__getitem__)

    def show_state(self) -> None:
        install = self.install
        self.progress.setVisible(install is not None and install.is_running)
        self.button.setVisible(install is not None)
        if install is None:
            self.card.say("info", "muted", tr("There are no NVIDIA cards for this system."), "")
            return
        size = format_bytes(install.size)
        if install.is_running:
            self.progress.setRange(0, 1000)
            self.progress.setValue(install.done * 1000 // install.size)
            come = tr("{done} of {size}", done=format_bytes(install.done), size=size)
            self.card.say("download", "accent", tr("Downloading and checking…"), install.waiting or come)
            self._offer(tr("Pause"), "secondary")
        elif install.support.is_installed:
            self.card.say("check", "accent", tr("GPU support is installed."), str(install.support.folder))
            self._offer(tr("Remove"), "secondary")
        elif install.done:
            come = tr("{done} of {size}", done=format_bytes(install.done), size=size)
            self.card.say("pause", "muted", tr("The download was interrupted."), come)
            self._offer(tr("Go on"), "primary")
        else:
            self.card.say("info", "muted", tr("GPU support is not installed."), tr("A download of {size}.", size=size))
            self._offer(tr("Install"), "primary")

    def _offer(self, words: str, style: str) -> None:
        self.button.setText(words)
        if self.button.objectName() != style:
            self.button.setObjectName(style)
            self.button.style().unpolish(self.button)
            self.button.style().polish(self.button)

    def _pressed(self) -> None:
        install = self.install
        if install is None:
            return
        self.notice.hide()
        if install.is_running:
            install.pause()
        elif install.support.is_installed:
            install.remove()
        else:
            install.start()

    def _apply_theme(self) -> None:
        super()._apply_theme()
        if hasattr(self, "install") and hasattr(self, "notice"):
            self.show_state()
