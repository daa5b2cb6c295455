"""What the library's pages work with: hub, downloads and models on disk. Free of Qt; made off the main thread.

Making it imports the hub's client library (a quarter of a second) and reads the queue, and asks the network nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from app.assets import BUNDLED_MODELS, FOLDER
from engine.errors import EngineError
from engine.hub.catalogue import CatalogueModel, read_catalogue
from engine.hub.connection import Connection, HubSettings, settings_from_environment
from engine.hub.downloads import Downloads, Fetch
from engine.hub.errors import NotFoundError
from engine.hub.facts import ModelFacts, model_facts
from engine.hub.fit import Fit, Machine, estimate_fit, this_machine
from engine.hub.folders import cache_folder
from engine.hub.journal import Source
from engine.hub.library import Library, LibraryEntry
from engine.hub.library_store import LibraryStore
from engine.hub.names import LogicalModel, RepoFile
from engine.hub.places import INSTALLATION, Place, known_places
from engine.hub.remote_header import remote_header
from engine.hub.repository import RepositoryCard, open_repository
from engine.hub.token import TokenStore
from engine.hub.transfers import Transfers
from engine.placement.fit import fit as planned_fit
from engine.placement.hardware import store
from engine.placement.hardware.profile import HardwareProfile
from engine.placement.shape import ModelShape
from engine.placement.shape_source import shape_of_header
from engine.runtime.threads import default_threads


@dataclass(frozen=True, slots=True)
class Header:
    """What was read of a model on the hub; without a shape nothing can be planned."""

    facts: ModelFacts
    shape: ModelShape | None


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
        fetch: Fetch | None = None,
    ) -> None:
        """`fetch`: what fetches a single file; by default a process of its own."""
        self.models = models
        self.settings = settings
        self.tokens = tokens or TokenStore(data / "hub-tokens.json")
        self.machine: Machine = this_machine()
        self.store = LibraryStore(data / "library.json")
        if places is None:
            places = (*known_places(), Place(BUNDLED_MODELS, INSTALLATION, "installation"))
        self.library = Library(models, self.store, places)
        self.catalogue: tuple[CatalogueModel, ...] = read_catalogue(FOLDER / "catalogue.json")
        self._hardware = store.hardware_folder(data)
        self.profile: HardwareProfile | None = None
        self.read_profile()
        self._cache = (cache or cache_folder()) / "headers"
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._transfers = Transfers()
        self.downloads = Downloads(
            self.connect,
            data / "downloads.json",
            parallel=parallel,
            bytes_per_second=bytes_per_second,
            fetch=fetch or self._transfers.fetch,
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

    # --- does it run here ---

    def header(self, card: RepositoryCard, model: LogicalModel, stop: threading.Event, *, whole: bool) -> Header:
        """Read the header of a model's first file; of all its shards where `whole`, which a plan needs."""
        files = model.files if whole else model.files[:1]
        headers = [remote_header(self.connect(), source_of(card, file), self._cache, stop) for file in files]
        tensors = {name: info for header in headers for name, info in header.tensors.items()}
        facts = model_facts(headers[0].metadata, tensors)
        shape = None
        if len(files) == len(model.files) and not facts.unsupported:
            with contextlib.suppress(EngineError):  # an architecture whose layers the planner cannot read
                shape = shape_of_header(headers[0].metadata, tensors.values(), model.name)
        return Header(facts, shape)

    def fit(self, model: LogicalModel, own: Header | None, other: ModelFacts | None, kv_type: str) -> Fit:
        """Fit of a row: planned, where its header was read and this machine was measured; else by memory alone.

        `other` are facts of another row of the same card, good for the size of the cache. `kv_type`: of keys and
        values.
        """
        if own is not None:
            if own.shape is not None and self.profile is not None and own.facts.kind == "model":
                return planned_fit(own.shape, self.profile, kv_type=kv_type)
            return estimate_fit(model.size, own.facts, self.machine, kv_type=kv_type)
        facts = replace(other, unsupported="") if other is not None else None
        return replace(estimate_fit(model.size, facts, self.machine, kv_type=kv_type), from_header=False)

    def read_profile(self) -> None:
        """Takes milliseconds."""
        self.profile = store.known_machine(self._hardware, default_threads())

    def measure(self) -> None:
        """Measure this machine once, for predicted speeds: some seconds of full load. Kept for the next time."""
        self._hardware.mkdir(parents=True, exist_ok=True)
        self.profile = store.this_machine(self._hardware, default_threads())

    # --- downloads ---

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
        self._transfers.close()


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
