"""A hub on loopback: search, model info, file tree, and files behind redirects to signed, expiring URLs.

Two servers, as in reality: the hub itself (127.0.0.1), which sees the token, and a file host (localhost, another
port), which must never see it. Answers follow huggingface.co's as its client library reads them; `faults` makes
the file host misbehave, one entry per request, and `requests` tells what was asked.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.support.hub_content import Content, Repository, xet_hash
from tests.support.hub_faults import HTML, SOUND, Fault

BLOCK = 1 << 16


@dataclass(frozen=True)
class Seen:
    """A request as it arrived; `host` is "hub" or "files"."""

    host: str
    method: str
    path: str
    headers: dict[str, str]


@dataclass
class FakeHub:
    """The state behind both servers. Use as a context manager."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    token: str = "hf_secret_token"
    url_seconds: float = 3600.0
    page: int = 100
    faults: deque[Fault] = field(default_factory=deque)  # next answers of the file host; then sound ones
    hub_faults: deque[Fault] = field(default_factory=deque)  # next answers of /resolve/ and the API
    every: Callable[[int], Fault] | None = None  # or: the fault of the n-th file request
    requests: list[Seen] = field(default_factory=list)
    sent: int = 0  # body bytes of files handed to the network
    epoch: int = 0  # signed URLs of earlier epochs have expired
    plain_mirror: bool = False  # leaves sizes and checksums out of the model info
    tls: ssl.SSLContext | None = None
    same_host: bool = False  # serve files from the hub itself, without a redirect

    def __enter__(self) -> FakeHub:
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self.file_requests = 0
        self.servers = [_serve(self, _HubHandler), _serve(self, _FileHandler)]
        scheme = "https" if self.tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.servers[0].server_address[1]}"
        self.files_url = f"{scheme}://localhost:{self.servers[1].server_address[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def add(self, repository: Repository) -> Repository:
        self.repositories[repository.name] = repository
        return repository

    def seen(self, host: str = "", contains: str = "") -> list[Seen]:
        with self.lock:
            return [one for one in self.requests if one.host.startswith(host) and contains in one.path]

    def next_fault(self) -> Fault:
        with self.lock:
            self.file_requests += 1
            if self.faults:
                return self.faults.popleft()
            return self.every(self.file_requests) if self.every else SOUND


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that hang up are the point of these tests


def _serve(hub: FakeHub, handler: type[_Handler]) -> _Server:
    server = _Server(("127.0.0.1", 0), type("Bound", (handler,), {"hub": hub}))
    if hub.tls is not None:
        server.socket = hub.tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub
    host = ""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        with self.hub.lock:
            headers = {key.lower(): value for key, value in self.headers.items()}
            self.hub.requests.append(Seen(self.host, self.command, self.path, headers))
        return True

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name in headers or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_json(self, value: Any, headers: dict[str, str] | None = None) -> None:
        self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def refuse(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message, "Content-Type": "application/json"}
        self.answer(status, json.dumps({"error": message}).encode(), headers)


class _HubHandler(_Handler):
    host = "hub"

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        with self.hub.lock:
            fault = self.hub.hub_faults.popleft() if self.hub.hub_faults else SOUND
        if fault.status:
            self.answer(fault.status, fault.body, fault.headers)
        elif fault.html:
            self.answer(200, HTML, {"Content-Type": "text/html"})
        elif fault.then == "stall":
            self.hub.closing.wait(30)
        elif url.path == "/api/models":
            self.search(parse_qs(url.query))
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/[^/]+)?", url.path):
            if repository := self.allowed(match[1], reading_files=False):
                blobs = "blobs" in parse_qs(url.query) and not self.hub.plain_mirror
                self.answer_json(repository.summary() | repository.siblings(blobs))
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/[^/]+/?", url.path):
            if repository := self.allowed(match[1], reading_files=False):
                self.tree(repository, parse_qs(url.query))
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", url.path):
            if repository := self.allowed(match[1], reading_files=True):
                self.resolve(repository, unquote(match[3]))
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/raw/[^/]+/README.md", url.path):
            if repository := self.allowed(match[1], reading_files=True):
                self.answer(200, repository.readme.encode(), {"Content-Type": "text/plain; charset=utf-8"})
        else:
            self.refuse(404, "EntryNotFound", "Not found")

    def allowed(self, name: str, *, reading_files: bool) -> Repository | None:
        """The repository, or None after the refusal that the hub would give."""
        repository = self.hub.repositories.get(name)
        authorised = self.headers.get("Authorization") == f"Bearer {self.hub.token}"
        if "Authorization" in self.headers and not authorised:
            self.refuse(401, "", "Invalid credentials in Authorization header")
            return None
        if repository is None or (repository.private and not authorised):
            status = 404 if authorised else 401
            self.refuse(status, "RepoNotFound", "Repository not found")
            return None
        if reading_files and repository.gated and not authorised:
            self.refuse(401, "GatedRepo", f"Access to model {name} is restricted.")
            return None
        return repository

    def search(self, query: dict[str, list[str]]) -> None:
        words = query.get("search", [""])[0].lower()
        key = {"downloads": "downloads", "likes": "likes", "lastModified": "modified"}.get(
            query.get("sort", ["downloads"])[0], "downloads"
        )
        found = [one for one in self.hub.repositories.values() if words in one.name.lower() and not one.private]
        found.sort(key=lambda one: getattr(one, key), reverse=True)
        begin = int(query.get("cursor", ["0"])[0])
        limit = min(int(query.get("limit", ["1000"])[0]), self.hub.page)
        headers = {}
        if begin + limit < len(found):
            rest = "&".join(f"{name}={quote(v)}" for name, vs in query.items() if name != "cursor" for v in vs)
            headers["Link"] = f'<{self.hub.url}/api/models?{rest}&cursor={begin + limit}>; rel="next"'
        self.answer_json([one.summary() for one in found[begin : begin + limit]], headers)

    def tree(self, repository: Repository, query: dict[str, list[str]]) -> None:
        entries = repository.tree()
        begin = int(query.get("cursor", ["0"])[0])
        headers = {}
        if begin + 1000 < len(entries):
            path = f"/api/models/{repository.name}/tree/main?recursive=True&cursor={begin + 1000}"
            headers["Link"] = f'<{self.hub.url}{path}>; rel="next"'
        self.answer_json(entries[begin : begin + 1000], headers)

    def resolve(self, repository: Repository, path: str) -> None:
        content = repository.files.get(path)
        if content is None:
            self.refuse(404, "EntryNotFound", "Entry not found")
            return
        if self.hub.same_host:
            send_file(self, content)
            return
        expires = time.time() + self.hub.url_seconds
        place = f"xet-bridge-us/0123456789abcdef/{xet_hash(content)}" if repository.xet else f"{repository.name}/{path}"
        target = f"{self.hub.files_url}/{quote(place)}"
        headers = {
            "Location": f"{target}?epoch={self.hub.epoch}&expires={expires}&signature=abc",
            "ETag": f'"{content.sha256}"',
            "X-Repo-Commit": repository.commit,
            "X-Linked-Size": str(content.size),
            "X-Linked-ETag": f'"{content.sha256}"',
            "Accept-Ranges": "bytes",
        }
        if repository.xet:
            route = f"{self.hub.url}/api/models/{repository.name}/xet-read-token/{repository.commit}"
            chunks = f"https://cas-server.example.org/v1/reconstructions/{xet_hash(content)}"
            headers["X-Xet-Hash"] = xet_hash(content)
            headers["Link"] = f'<{route}>; rel="xet-auth", <{chunks}>; rel="xet-reconstruction-info"'
        self.answer(302, b"", headers)


class _FileHandler(_Handler):
    host = "files"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        expired = int(query["epoch"][0]) < self.hub.epoch or float(query["expires"][0]) < time.time()
        if expired:
            self.answer(403, b"<Error><Code>AccessDenied</Code></Error>", {"Content-Type": "application/xml"})
            return
        owner, name, path = unquote(url.path).lstrip("/").split("/", 2)
        if owner == "xet-bridge-us":  # it knows contents, and no names
            every = (content for one in self.hub.repositories.values() for content in one.files.values())
            send_file(self, next(content for content in every if xet_hash(content) == path))
            return
        send_file(self, self.hub.repositories[f"{owner}/{name}"].files[path])


def send_file(handler: _Handler, content: Content) -> None:
    """Answer with (a range of) a file, in the way that the next fault says."""
    fault = handler.hub.next_fault()
    if fault.status:
        handler.answer(fault.status, fault.body, fault.headers)
        return
    if fault.html:
        handler.answer(200, HTML, {"Content-Type": "text/html; charset=utf-8"})
        return
    begin, end, status = 0, content.size, 200
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", handler.headers.get("Range", ""))
    if asked and not fault.ignore_range:
        begin = int(asked[1])
        end = min(int(asked[2]) + 1, content.size) if asked[2] else content.size
        status = 206
        if begin >= content.size:
            handler.answer(416, b"", {"Content-Range": f"bytes */{content.size}"})
            return
    if fault.gzip and "gzip" in handler.headers.get("Accept-Encoding", ""):
        # A CDN that may compress forgets the range, as real ones do.
        body = gzip.compress(content.read(0, content.size), 1)
        handler.answer(200, body, {"Content-Encoding": "gzip", "Content-Type": "application/octet-stream"})
        return
    _send_head(handler, fault, status, begin, end, content.size)
    if handler.command != "HEAD":
        _send_body(handler, fault, content, begin, end)


def _send_head(handler: _Handler, fault: Fault, status: int, begin: int, end: int, size: int) -> None:
    handler.send_response(fault.claim_status or status)
    handler.send_header("Content-Type", "application/octet-stream")
    handler.send_header("Accept-Ranges", "bytes")
    for name, value in fault.headers.items():
        handler.send_header(name, value)
    if fault.claim_range and fault.claim_range != "none":
        handler.send_header("Content-Range", fault.claim_range)
    elif status == 206 and not fault.claim_range:
        handler.send_header("Content-Range", f"bytes {begin}-{end - 1}/{size}")
    if fault.chunked:
        handler.send_header("Transfer-Encoding", "chunked")
    else:
        length = end - begin + fault.extra
        if fault.then == "end":
            length = min(length, fault.after)
        handler.send_header("Content-Length", str(length))
    handler.end_headers()


def _send_body(handler: _Handler, fault: Fault, content: Content, begin: int, end: int) -> None:
    hub, total = handler.hub, end - begin
    stop = total if fault.after < 0 else min(total, fault.after)
    sent = 0
    while sent < stop and not hub.closing.is_set():
        length = min(BLOCK, stop - sent)
        if fault.rate:
            length = min(length, max(1, int(fault.rate / 50)))
        at = begin + sent
        data = content.read(at, at + length)
        if at <= fault.flip < at + length:
            wrong = bytearray(data)
            wrong[fault.flip - at] ^= 1
            data = bytes(wrong)
        write(handler, data, fault.chunked)
        sent += length
        with hub.lock:
            hub.sent += length
        if fault.rate:
            time.sleep(length / fault.rate)
    if fault.extra and sent == total:
        write(handler, b"x" * fault.extra, fault.chunked)
    if sent < total or fault.then == "cut":
        _break_off(handler, fault)
    if fault.chunked and not handler.close_connection:
        handler.wfile.write(b"0\r\n\r\n")


def _break_off(handler: _Handler, fault: Fault) -> None:
    handler.close_connection = fault.then != "end"
    if fault.then == "stall":
        handler.hub.closing.wait(30)
    if fault.then == "expire":
        with handler.hub.lock:
            handler.hub.epoch += 1
    if fault.then in ("cut", "expire"):
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)


def write(handler: _Handler, data: bytes, chunked: bool) -> None:
    if chunked:
        handler.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")
    else:
        handler.wfile.write(data)
