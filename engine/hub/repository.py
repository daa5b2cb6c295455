"""Search the hub and read one repository. Every function asks the network, and only when it is called."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import httpx2
from huggingface_hub import ModelInfo
from huggingface_hub import RepoFile as HubFile
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import paginate  # type: ignore[attr-defined]

from engine.hub.connection import Connection, status_error, stoppable, translate
from engine.hub.errors import GatedError, NotFoundError, ServerError
from engine.hub.names import Listing, RepoFile, fold

Sort = Literal["downloads", "likes", "recent"]
PAGE = 50
README_BYTES = 512 << 10
_SORT_KEYS: dict[Sort, str] = {"downloads": "downloads", "likes": "likes", "recent": "lastModified"}


@dataclass(frozen=True, slots=True)
class RepositorySummary:
    """A row of the search's answer; None where the hub did not say."""

    name: str
    downloads: int | None
    likes: int | None
    modified: datetime | None
    gated: bool
    private: bool
    license: str
    tags: tuple[str, ...]
    parameters: int | None
    architecture: str
    context_length: int | None

    @property
    def owner(self) -> str:
        return self.name.partition("/")[0]

    @property
    def title(self) -> str:
        return self.name.partition("/")[2] or self.name


@dataclass(frozen=True, slots=True)
class RepositoryCard:
    """A repository opened: `revision` is the commit all its files are read from."""

    summary: RepositorySummary
    revision: str
    listing: Listing


class Search:
    """The answers to one query, page by page. `stop` set from another thread ends it with StoppedError."""

    def __init__(self, connection: Connection, text: str, sort: Sort = "downloads") -> None:
        self.stop = threading.Event()
        self._connection = connection
        url = f"{connection.settings.endpoint}/api/models"
        params: dict[str, Any] = {"filter": "gguf", "sort": _SORT_KEYS[sort], "limit": PAGE}
        # The properties a row shows; without this list the answer names every file of every repository.
        params["expand"] = ["downloads", "likes", "lastModified", "gated", "private", "tags", "gguf"]
        if text.strip():
            params["search"] = text.strip()
        # Not HfApi.list_models: it asks for one page of a thousand rows, or for no more than its limit.
        self._rows: Iterator[Any] = iter(paginate(url, params, connection.headers(httpx2.URL(url))))
        self.finished = False

    def next_page(self, rows: int = PAGE) -> tuple[RepositorySummary, ...]:
        """Up to `rows` more; `finished` is True after the last. Raises HubError, StoppedError."""
        found: list[RepositorySummary] = []
        with stoppable(self.stop):
            try:
                info: Any = ModelInfo  # untyped
                while len(found) < rows:
                    found.append(_summary(info(**next(self._rows))))
            except StopIteration:
                self.finished = True
            except Exception as error:
                raise translate(error, self._connection) from error
        return tuple(found)


def probe(connection: Connection) -> None:
    """Try each kind of call that a hub has to answer; the error says which one this address does not."""
    rows: tuple[RepositorySummary, ...] = ()
    try:
        rows = Search(connection, "").next_page(1)
        step = "the facts of a repository"
        if rows:
            card = open_repository(connection, rows[0].name)
            step = "the files of a repository"
            read_description(connection, card)
    except GatedError:
        return  # it answers, and asks for a token
    except (NotFoundError, ServerError) as error:
        if not rows:
            raise
        raise ServerError(
            f"{connection.settings.endpoint} answers the search, but not the request for {step}: {error.cause}",
            remedy="A mirror has to speak the hub's own protocol; choose another one under Settings, Network.",
        ) from error


def open_repository(connection: Connection, name: str) -> RepositoryCard:
    """Facts and files of a repository: one request, where the hub answers as huggingface.co does.

    A mirror that leaves sizes out of its answer is asked for the file tree too. Raises HubError.
    """
    try:
        info = connection.api.model_info(name, files_metadata=True)
        files = [_file(one.rfilename, one.size, one.lfs) for one in info.siblings or []]
        if not files or any(file is None for file in files):
            tree = connection.api.list_repo_tree(name, recursive=True, revision=info.sha)
            files = [_file(one.path, one.size, one.lfs) for one in tree if isinstance(one, HubFile)]
    except Exception as error:
        raise translate(error, connection, name) from error
    listing = fold(file for file in files if file is not None)
    return RepositoryCard(_summary(info), info.sha or "main", listing)


def read_description(connection: Connection, card: RepositoryCard) -> str:
    """The repository's README without its YAML head, at most half a megabyte; empty if there is none."""
    name = card.summary.name
    url = httpx2.URL(f"{connection.settings.endpoint}/{name}/raw/{card.revision}/README.md")
    try:
        with connection.client.stream("GET", url, headers=connection.headers(url)) as response:
            if response.status_code == 404:
                return ""
            if response.status_code >= 400:
                raise status_error(response, name, connection.settings.endpoint)
            data = bytearray()
            for block in response.iter_bytes():
                data += block
                if len(data) >= README_BYTES:
                    break
    except (httpx2.HTTPError, HfHubHTTPError, OSError) as error:
        raise translate(error, connection, name) from error
    return _without_head(bytes(data[:README_BYTES]).decode("utf-8", "replace"))


def _without_head(text: str) -> str:
    text = text.removeprefix("\ufeff")
    if text.startswith("---\n") and (end := text.find("\n---", 4)) >= 0:
        return text[end + 4 :].lstrip("-").lstrip()
    return text


def _file(path: str, size: int | None, lfs: Any) -> RepoFile | None:
    """None where the hub did not tell the size."""
    if lfs is not None:
        return RepoFile(path, int(lfs.size), str(lfs.sha256))
    return None if size is None else RepoFile(path, int(size))


def _summary(info: Any) -> RepositorySummary:
    gguf = info.gguf if isinstance(info.gguf, dict) else {}
    tags = tuple(str(tag) for tag in info.tags or ())
    licence = next((tag.partition(":")[2] for tag in tags if tag.startswith("license:")), "")
    return RepositorySummary(
        name=str(info.id),
        downloads=info.downloads,
        likes=info.likes,
        modified=info.last_modified,
        gated=bool(info.gated),
        private=bool(info.private),
        license=licence,
        tags=tags,
        parameters=_count(gguf.get("total")),
        architecture=str(gguf.get("architecture") or ""),
        context_length=_count(gguf.get("context_length")),
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
