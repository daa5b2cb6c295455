"""What the library's pages work with: hub, downloads and models on disk. Free of Qt; made off the main thread.

Making it imports the hub's client library (a quarter of a second) and reads the queue, and asks the network nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.assets import FOLDER
from engine.hub.catalogue import CatalogueModel, read_catalogue
from engine.hub.connection import Connection, HubSettings, settings_from_environment
from engine.hub.downloads import Downloads
from engine.hub.errors import NotFoundError
from engine.hub.facts import ModelFacts
from engine.hub.fit import Fit, Machine, estimate_fit, this_machine
from engine.hub.folders import cache_folder
from engine.hub.journal import Source
from engine.hub.library import Library, LibraryEntry
from engine.hub.library_store import LibraryStore
from engine.hub.names import LogicalModel, RepoFile
from engine.hub.places import Place
from engine.hub.remote_header import remote_facts
from engine.hub.repository import RepositoryCard, open_repository
from engine.hub.token import TokenStore


class HubServices:
    def __init__(
        self,
        data: Path,
        models: Path,
        settings: HubSettings,
        *,
        parallel: int = 2,
        bytes_per_second: float = 0.0,
        tokens: TokenStore | None = None,
        places: tuple[Place, ...] | None = None,
        cache: Path | None = None,
    ) -> None:
        self.models = models
        self.settings = settings
        self.tokens = tokens or TokenStore(data / "hub-tokens.json")
        self.machine: Machine = this_machine()
        self.store = LibraryStore(data / "library.json")
        self.library = Library(models, self.store, places)
        self.catalogue: tuple[CatalogueModel, ...] = read_catalogue(FOLDER / "catalogue.json")
        self._cache = (cache or cache_folder()) / "headers"
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self.downloads = Downloads(
            self.connect, data / "downloads.json", parallel=parallel, bytes_per_second=bytes_per_second
        )

    def connect(self) -> Connection:
        """The connection under the present settings. Asks the keyring, so not for the main thread."""
        with self._lock:
            if self._connection is None:
                token = self.tokens.get(self.settings.endpoint)
                self._connection = Connection(self.settings, token)
                self._connection.install()
            return self._connection

    def change(self, settings: HubSettings) -> None:
        """Use other settings (or a new token) from the next request on; running downloads keep theirs."""
        with self._lock:
            self.settings = settings
            self._connection = None

    def header(self, card: RepositoryCard, model: LogicalModel, stop: threading.Event) -> ModelFacts:
        return remote_facts(self.connect(), source_of(card, model.files[0]), self._cache, stop)

    def fit(self, model: LogicalModel, facts: ModelFacts | None, *, read: bool) -> Fit:
        """Fit of a row. With facts of another row of the same card (`read` False) only the cache's size is theirs."""
        if facts is not None and not read:
            return replace(estimate_fit(model.size, replace(facts, unsupported=""), self.machine), from_header=False)
        return estimate_fit(model.size, facts, self.machine)

    def download(self, card: RepositoryCard, model: LogicalModel) -> str:
        folder = self.models.joinpath(*card.summary.name.split("/"))
        return self.downloads.add(model.name, [source_of(card, file) for file in model.files], folder)

    def fetch_missing(self, entry: LibraryEntry) -> None:
        """Asks the hub for the repository that the entry came from, and queues its shards into their folder."""
        card = open_repository(self.connect(), entry.repository)
        here = {file.name for file in entry.files}
        for model in card.listing.models:
            if here <= {file.path.rsplit("/", 1)[-1] for file in model.files}:
                self.download(card, model)
                return
        raise NotFoundError(
            f"{entry.repository} holds no model with these files any more.",
            remedy="Look for the model under Discover.",
        )

    def close(self) -> None:
        self.downloads.close()


def source_of(card: RepositoryCard, file: RepoFile) -> Source:
    return Source(card.summary.name, card.revision, file.path, file.size, file.sha256)


def make_settings(read: Callable[[str], object]) -> HubSettings:
    """From the settings table; what is left empty there comes from the environment (HF_ENDPOINT, HF_HUB_OFFLINE)."""
    base = settings_from_environment()
    return replace(
        base,
        endpoint=str(read("hub_endpoint")).strip().rstrip("/") or base.endpoint,
        proxy=str(read("hub_proxy")).strip(),
        ca_file=str(read("hub_ca_file")).strip(),
        offline=bool(read("hub_offline")) or base.offline,
    )
