"""A hub on loopback, and a connection to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.hub.connection import Connection, HubSettings
from engine.hub.file_download import FileDownload
from engine.hub.journal import Source
from tests.support.hub_content import COMMIT, Content, Repository
from tests.support.hub_server import FakeHub

MODEL = "maker/Model-GGUF"
FILE = "Model-Q4_K_M.gguf"


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub() as running:
        yield running


@pytest.fixture
def connect(hub: FakeHub) -> Iterator[Callable[..., Connection]]:
    """Makes connections to the hub; keyword arguments are settings, `token` the token."""
    made: list[Connection] = []

    def make(token: str | None = None, endpoint: str = "", **settings: object) -> Connection:
        values: dict[str, object] = {"proxy": "none", "stall_seconds": 0.3} | settings
        connection = Connection(HubSettings(endpoint or hub.url, **values), token)  # type: ignore[arg-type]
        connection.install()
        made.append(connection)
        return connection

    yield make
    for connection in made:
        connection.close()


def publish(hub: FakeHub, content: Content, path: str = FILE, **options: object) -> Source:
    """Put a file on the hub; the source to download it from."""
    repository = hub.repositories.get(MODEL) or hub.add(Repository(MODEL, **options))  # type: ignore[arg-type]
    repository.files[path] = content
    return Source(MODEL, COMMIT, path, content.size, content.sha256)


def fetch(connection: Connection, source: Source, target: Path) -> FileDownload:
    """Download in this thread, with hardly a pause between attempts."""
    transfer = FileDownload(connection, source, target, patience=0.001)
    transfer.run()
    return transfer
