"""The library's state for the window: the models on this machine, and what is done with them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QFile, QObject, Signal

from app.background import Background
from app.environment import DataFolder
from app.library.download_watch import DownloadWatch
from app.library.rows import mark_crashed
from app.model_controller import ModelController
from app.problems import Problem, Problems
from app.settings.values import Settings

if TYPE_CHECKING:
    from app.library.hub_services import HubServices
    from engine.hub.library import LibraryEntry

HUB_SETTINGS = ("hub_endpoint", "hub_proxy", "hub_ca_file", "hub_offline")
Factory = Callable[[], "HubServices"]


class LibraryController(QObject):
    """`ready` once, when the services stand; the other signals whenever their part has changed.

    `downloads` follows what is being fetched.
    """

    ready = Signal()
    entries_changed = Signal()
    machine_measured = Signal()
    kv_type_changed = Signal()  # of which caches take more or less memory

    def __init__(
        self,
        settings: Settings,
        folder: DataFolder,
        models: ModelController,
        background: Background,
        problems: Problems,
        factory: Factory | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.services: HubServices | None = None
        self.entries: list[LibraryEntry] = []
        self.background = background
        self.models = models
        self.problems = problems
        self.settings = settings
        self._folder = folder
        self.factory: Factory = factory or self._make_services  # tests put their own here
        self._starting = self._scanning = self._scan_again = False
        self._delete_after_unload: LibraryEntry | None = None
        self.downloads = DownloadWatch(self)
        self.downloads.finished.connect(self._changed_on_disk)
        settings.on_change(self._setting_changed)
        models.changed.connect(self._model_changed)

    # --- start and end ---

    def start(self) -> None:
        """Make the services in the background; nothing is asked of the network."""
        if self.services is None and not self._starting:
            self._starting = True
            self.background.run_in_background(self.factory, self._started, self._failed)

    def close(self) -> None:
        self.downloads.stop()
        if self.services is not None:
            self.services.close()

    def _make_services(self) -> HubServices:
        from app.library.hub_services import HubServices, make_settings

        return HubServices(
            self._folder.root,
            self.models.models_folder,
            make_settings(self.settings.__getitem__),
            parallel=self.settings["download_parallel"],
            bytes_per_second=self.settings["download_limit"] * 1000.0,
        )

    def _started(self, services: HubServices) -> None:
        self.services = services
        self.ready.emit()
        self.refresh()
        self.downloads.follow(services.downloads)

    def _failed(self, error: Exception) -> None:
        self._starting = False
        self.problems.show(Problem.from_exception("library", error))

    # --- entries ---

    def refresh(self) -> None:
        """Look through the folders again; several calls while one is under way become one more."""
        services = self.services
        if services is None:
            return
        if self._scanning:
            self._scan_again = True
            return
        self._scanning = True
        info = self.models.info
        in_use = Path(info.path) if info is not None else None
        self.background.run_in_background(lambda: services.library.entries(in_use), self._scanned, self._scan_failed)

    def _scanned(self, entries: list[LibraryEntry]) -> None:
        self._scanning = False
        self.entries = mark_crashed(entries, self.models.crashes.marked())
        self.entries_changed.emit()
        if self._scan_again:
            self._scan_again = False
            self.refresh()

    def _scan_failed(self, error: Exception) -> None:
        self._scanning = False
        self.problems.show(Problem.from_exception("library", error))

    def entry(self, path: Path) -> LibraryEntry | None:
        return next((one for one in self.entries if one.path == path), None)

    def load(self, entry: LibraryEntry) -> None:
        if self.services is not None:
            self.services.store.mark_used(entry.path)
        self.models.load(entry.path)

    def rename(self, entry: LibraryEntry, label: str) -> None:
        assert self.services is not None
        self.services.library.rename(entry, label)
        self.refresh()

    def delete(self, entry: LibraryEntry) -> None:
        """To the trash. A loaded model is unloaded first, and deleted when the engine has let go of it."""
        info = self.models.info
        if info is not None and Path(info.path) in entry.files:
            self._delete_after_unload = entry
            self.models.unload()
            return
        self._delete_now(entry)

    def _delete_now(self, entry: LibraryEntry) -> None:
        from engine.hub.library_actions import delete

        services = self.services
        assert services is not None
        self.run(lambda: delete(entry, services.store, move_to_trash), lambda _: self._changed_on_disk())

    def verify(
        self, entry: LibraryEntry, progress: Callable[[int, int], None], done: Callable[[bool | None], None]
    ) -> threading.Event:
        """Hash again. `progress` is called on another thread; `done` here: True, False (nothing to compare), None."""
        services, stop = self.services, threading.Event()
        assert services is not None

        def failed(error: Exception) -> None:
            from engine.hub.errors import StoppedError

            if not isinstance(error, StoppedError):
                self.problems.show(Problem.from_exception("library", error))
            done(None)
            self.refresh()

        def finished(compared: bool) -> None:
            done(compared)
            self.refresh()

        self.background.run_in_background(lambda: services.library.verify(entry, progress, stop), finished, failed)
        return stop

    def fetch_missing(self, entry: LibraryEntry) -> None:
        """Queue the missing shards of a model that came from the hub; those that are here are left alone."""
        services = self.services
        assert services is not None
        self.run(lambda: services.fetch_missing(entry), lambda _: self.downloads.watch())

    def import_files(self, files: list[Path], *, move: bool) -> None:
        from engine.hub.library_actions import import_by_move, import_in_place

        services = self.services
        if services is None:
            return

        def work() -> None:
            for file in files:
                if move:
                    import_by_move(services.models, file)
                else:
                    import_in_place(services.store, file)

        self.run(work, lambda _: self._changed_on_disk())

    def add_folder(self, folder: Path) -> None:
        if self.services is not None:
            self.services.store.add_folder(folder)
            self.refresh()

    def move_models_folder(self, new: Path) -> None:
        """Move all models, and from then on download to `new`. Downloads have to be paused."""
        services = self.services
        if services is None:
            return
        old = services.models

        def work() -> None:
            from engine.hub.library_actions import move_models_folder

            services.downloads.relocate(old, new)
            move_models_folder(old, new)
            services.store.relocate(old, new)

        def done(_: object) -> None:
            self.settings.set("models_folder", str(new))
            self._changed_on_disk()
            self.downloads.watch()

        self.run(work, done)

    def read_profile(self) -> None:
        """This machine was measured: speeds are predicted from now on, or anew."""
        if self.services is not None:
            self.services.read_profile()

    def run(self, work: Callable[[], object], done: Callable[[object], None]) -> None:
        """A change on disk off the main thread; what fails is shown, and the list is read again."""

        def failed(error: Exception) -> None:
            self.problems.show(Problem.from_exception("library", error))
            self.refresh()

        self.background.run_in_background(work, done, failed)

    def _changed_on_disk(self) -> None:
        self.refresh()
        self.models.refresh()

    # --- what others change ---

    def _setting_changed(self, name: str, _value: object) -> None:
        services = self.services
        if services is None:
            return
        if name in HUB_SETTINGS:
            self.reconnect()
        elif name == "kv_type":
            self.kv_type_changed.emit()
        elif name in ("download_parallel", "download_limit"):
            services.downloads.limit(
                parallel=self.settings["download_parallel"],
                bytes_per_second=self.settings["download_limit"] * 1000.0,
            )
            self.downloads.watch()
        elif name == "models_folder":
            services.models = services.library.models = self.models.models_folder
            self.refresh()

    def reconnect(self) -> None:
        """Settings or token are different from the next request on."""
        from app.library.hub_services import make_settings

        if self.services is not None:
            self.services.change(make_settings(self.settings.__getitem__))

    def _model_changed(self) -> None:
        if self.models.loading_path is not None:
            return
        entry = self._delete_after_unload
        if entry is not None and self.models.info is None:
            self._delete_after_unload = None
            self._delete_now(entry)
        elif self.services is not None:
            self.refresh()


def move_to_trash(path: Path) -> bool:
    return QFile.moveToTrash(str(path))
