"""Asking for a newer version: one plain request over HTTPS, and nothing believed that is no release."""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.hub.connection import HubSettings
from engine.hub.errors import HubError, OfflineError, ProtocolError, UnreachableError
from engine.hub.updates import LONGEST, is_newer, newest_release, read_release
from tests.support.certificates import make_certificate

RELEASE = {"version": "0.2.0", "page": "https://example.org/tessera/0.2.0"}


class Feed:
    """A server on loopback that notes what it is asked."""

    def __init__(self, folder: Path, *, tls: bool = True) -> None:
        self.body, self.status, self.extra = json.dumps(RELEASE).encode(), 200, {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        feed = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                feed.asked.append((self.command, self.path, dict(self.headers)))
                self.send_response(feed.status)
                for name, value in feed.extra.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(feed.body)))
                self.end_headers()
                self.wfile.write(feed.body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        certificate, key = make_certificate(folder)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server.server_port}/latest.json"
        self.settings = HubSettings(proxy="none", ca_file=str(certificate), stall_seconds=5)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))

    def __enter__(self) -> Feed:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    with Feed(tmp_path) as running:
        yield running


def test_one_plain_request_tells_the_newest_version(feed: Feed) -> None:
    release = newest_release(feed.url, "0.1.0", feed.settings)
    assert (release.version, release.page, release.is_newer) == ("0.2.0", RELEASE["page"], True)
    ((method, path, headers),) = feed.asked
    assert (method, path) == ("GET", "/latest.json")
    # What every request has, and nothing that tells of the one who asks.
    assert {name.lower() for name in headers} <= {"host", "accept", "accept-encoding", "connection", "user-agent"}
    assert headers["User-Agent"] == "tessera/1"
    assert not newest_release(feed.url, "0.2.0", feed.settings).is_newer


def test_an_address_that_is_not_https_is_not_asked(feed: Feed) -> None:
    for address in (feed.url.replace("https", "http"), "ftp://x/y", "latest.json", ""):
        with pytest.raises(ProtocolError):
            newest_release(address, "0.1.0", feed.settings)
    assert feed.asked == []


def test_offline_mode_and_unknown_certificates_hold(feed: Feed) -> None:
    with pytest.raises(OfflineError):
        newest_release(feed.url, "0.1.0", HubSettings(offline=True))
    with pytest.raises(UnreachableError, match="not trusted"):
        newest_release(feed.url, "0.1.0", HubSettings(proxy="none"))
    assert feed.asked == []


@pytest.mark.parametrize("status", [204, 404, 500])
def test_what_is_no_release_file_is_an_error(feed: Feed, status: int) -> None:
    feed.status = status
    feed.body = b"" if status == 204 else feed.body
    with pytest.raises(HubError):
        newest_release(feed.url, "0.1.0", feed.settings)


def test_a_way_out_of_https_is_not_believed(feed: Feed, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with Feed(tmp_path / "plain", tls=False) as plain:
        feed.status, feed.extra = 302, {"Location": plain.url}
        with pytest.raises(ProtocolError):
            newest_release(feed.url, "0.1.0", feed.settings)


def test_an_endless_answer_is_given_up(feed: Feed) -> None:
    feed.body = b" " * (LONGEST + 1)
    with pytest.raises(ProtocolError, match="no release"):
        newest_release(feed.url, "0.1.0", feed.settings)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"version": "0.2.0"}',
        b'{"version": 2, "page": "https://x"}',
        b'{"version": "0.2.0", "page": "http://x"}',
        b'{"version": "0.2.0", "page": "file:///etc/passwd"}',
        b'{"version": "0.2.0", "page": 3}',
        b'{"version": "newest", "page": "https://x"}',
        b'{"version": "9.' + b"9" * 5000 + b'", "page": "https://x"}',
    ],
)
def test_a_body_that_is_no_release_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_release("https://x/latest.json", body, "0.1.0")


@pytest.mark.parametrize(
    ("version", "current", "newer"),
    [
        ("0.2.0", "0.1.0", True),
        ("0.10.0", "0.9.9", True),
        ("1.0", "1.0.0", False),
        ("0.1.0", "0.1.0", False),
        ("0.1.0", "0.2", False),
        ("9.9.9", "from source", False),
    ],
)
def test_versions_are_compared_number_by_number(version: str, current: str, newer: bool) -> None:
    assert is_newer(version, current) is newer
