"""Is there a newer Tessera? Asked only when the owner does, or has asked for it once a week.

The answer is a small JSON file, {"version": "0.2.0", "page": "https://…"}, fetched by one GET over HTTPS that says
nothing of this computer or this version. `make package` writes it beside the packages; nothing is downloaded here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

import httpx2

from engine.hub.connection import Connection, HubSettings
from engine.hub.errors import ProtocolError

LONGEST = 64 << 10
_VERSION = re.compile(r"\d{1,5}(?:\.\d{1,5}){1,3}")


@dataclass(frozen=True, slots=True)
class Release:
    """The newest version, and the page that tells of it; `is_newer` than the one that asked."""

    version: str
    page: str
    is_newer: bool


def newest_release(feed: str, current: str, settings: HubSettings) -> Release:
    """What the file at `feed` says. Proxy, certificates and offline mode are the owner's. Raises HubError."""
    url = httpx2.URL(feed)
    if url.scheme != "https" or not url.host:
        raise ProtocolError(f"{feed} is no https address.", remedy="Check the address under Settings, Privacy.")
    connection = Connection(replace(settings, endpoint=f"https://{url.netloc.decode('ascii')}"))
    try:
        with connection.client.stream("GET", url, headers=connection.headers(url)) as response:
            if response.status_code != 200 or response.url.scheme != "https":
                raise ProtocolError(f"{feed} holds no list of releases (status {response.status_code}).")
            body = b""
            for piece in response.iter_bytes():
                body += piece
                if len(body) > LONGEST:
                    raise _no_release(feed)
    finally:
        connection.close()
    return read_release(feed, body, current)


def read_release(feed: str, body: bytes, current: str) -> Release:
    """Raises ProtocolError for anything but a version and an https page."""
    try:
        found = json.loads(body)
        version, page = found["version"], found["page"]
        is_page = httpx2.URL(page).scheme == "https"
    except (ValueError, KeyError, TypeError, RecursionError, httpx2.InvalidURL) as error:
        raise _no_release(feed) from error
    if not isinstance(version, str) or not is_page or not _VERSION.fullmatch(version):
        raise _no_release(feed)
    return Release(version, page, is_newer(version, current))


def is_newer(version: str, current: str) -> bool:
    """Number by number; a current version that is no number, as from source, is never outdated."""
    if not _VERSION.fullmatch(current):
        return False
    return _numbers(version) > _numbers(current)


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(part) for part in version.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _no_release(feed: str) -> ProtocolError:
    return ProtocolError(
        f"{feed} holds no release that can be read.", remedy="Check the address under Settings, Privacy."
    )
