"""One opened repository: its files, which of them would run here, and the header that says so.

Opening makes one request to the hub for facts and files, and one for the header of the file that is recommended
(which the hub redirects to its file host): three in all. Other headers are read when their row is chosen, and the
description when it is asked for.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.library.library_controller import LibraryController
from app.translation import error_text

if TYPE_CHECKING:
    from app.library.hub_services import Header
    from engine.hub.fit import Fit
    from engine.hub.names import LogicalModel
    from engine.hub.repository import RepositoryCard

PREFERRED = ("Q4_K_M", "UD-Q4_K_XL", "MXFP4", "MXFP4_MOE", "Q4_K_S", "Q5_K_M", "Q4_0", "Q8_0")


class CardController(QObject):
    """`opened` when another card (or none yet) is shown, `fits_changed` when pills have news."""

    opened = Signal()
    fits_changed = Signal()
    description_changed = Signal()

    def __init__(self, library: LibraryController, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self.repository = ""
        self.card: RepositoryCard | None = None
        self.error: Exception | None = None
        self.header_error: Exception | None = None
        self.description: str | None = None
        self.is_reading = False
        self.is_measuring = False
        self._headers: dict[str, Header] = {}  # by path of the model's first file
        self._wanted_file = ""
        self._stop = threading.Event()
        library.kv_type_changed.connect(self.fits_changed)

    # --- opening ---

    def open(self, repository: str, wanted_file: str = "") -> None:
        services = self._library.services
        if services is None or (repository == self.repository and self.card is not None):
            return
        self._stop.set()
        stop = self._stop = threading.Event()
        self.repository, self._wanted_file = repository, wanted_file
        self.card = self.error = self.header_error = self.description = None
        self._headers = {}
        self.opened.emit()

        def work() -> RepositoryCard:
            from engine.hub.repository import open_repository

            return open_repository(services.connect(), repository)

        def done(card: RepositoryCard) -> None:
            if stop is self._stop:
                self.card = card
                self.opened.emit()
                model = self.recommended()
                if model is not None:
                    self.read_header(model)

        def failed(error: Exception) -> None:
            if stop is self._stop:
                self.error = error
                self.opened.emit()

        self._library.background.run_in_background(work, done, failed)

    def again(self) -> None:
        repository, self.repository = self.repository, ""
        self.open(repository, self._wanted_file)

    def recommended(self) -> LogicalModel | None:
        """The file a curated row names; else the best usual quantisation that runs here, else the smallest file."""
        if self.card is None:
            return None
        models = [one for one in self.card.listing.models if not one.problem and not one.missing]
        for model in models:
            if self._wanted_file and model.files[0].path.endswith(self._wanted_file):
                return model
        running = [one for one in models if self.fit(one).runs]
        for label in PREFERRED:
            for model in running:
                if model.quantization == label:
                    return model
        if running:
            return running[-1]
        return models[0] if models else None

    # --- headers and fits ---

    def read_header(self, model: LogicalModel, *, whole: bool = False) -> None:
        """Read the header of a row's first file, or of all its shards, unless that was done."""
        services, card, path = self._library.services, self.card, model.files[0].path
        if services is None or card is None or path in self._headers or self.is_reading or model.problem:
            return
        stop = self._stop
        self.is_reading, self.header_error = True, None

        def done(header: Header) -> None:
            self.is_reading = False
            if stop is self._stop:
                self._headers[path] = header
                self.fits_changed.emit()

        def failed(error: Exception) -> None:
            self.is_reading = False
            if stop is self._stop:
                self.header_error = error
                self.fits_changed.emit()

        self._library.background.run_in_background(
            lambda: services.header(card, model, stop, whole=whole), done, failed
        )

    def fit(self, model: LogicalModel) -> Fit:
        services = self._library.services
        assert services is not None
        any_header = next(iter(self._headers.values()), None)
        own = self._headers.get(model.files[0].path)
        other = any_header.facts if any_header is not None else None
        return services.fit(model, own, other, self._library.settings["kv_type"])

    @property
    def can_measure(self) -> bool:
        """Speeds could be predicted if this machine were measured."""
        services = self._library.services
        return services is not None and services.profile is None and bool(self._headers)

    def measure(self) -> None:
        """Measure this machine; some seconds of full load, once."""
        services = self._library.services
        if services is None or self.is_measuring:
            return
        self.is_measuring = True
        self.fits_changed.emit()

        def done(_: object) -> None:
            self.is_measuring = False
            self.fits_changed.emit()
            self._library.machine_measured.emit()

        self._library.run(services.measure, done)

    # --- the rest ---

    def read_description(self) -> None:
        services, card, stop = self._library.services, self.card, self._stop
        if services is None or card is None or self.description is not None:
            return

        def work() -> str:
            from engine.hub.repository import read_description

            return read_description(services.connect(), card)

        def show(text: str) -> None:
            if stop is self._stop:
                self.description = text
                self.description_changed.emit()

        self._library.background.run_in_background(work, show, lambda error: show(error_text(error)))

    def download(self, model: LogicalModel) -> None:
        services, card = self._library.services, self.card
        if services is not None and card is not None:
            services.download(card, model)
            self._library.downloads.watch()
