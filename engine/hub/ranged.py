"""Reading a range of a hub file, believing nothing that the answer does not prove.

huggingface_hub's own download writes to a fresh temporary file per process and deletes it on failure, so it
cannot resume after a kill; nor can it be paused, throttled, or stopped before a wrong answer reaches the disk.
Hence our own reads, over the same HTTP client. Repositories in Xet storage answer these reads as well: the hub
redirects them to a bridge that serves ranges, as it does for every client that does not speak Xet.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from urllib.parse import quote

import httpcore2
import httpx2

from engine.hub.connection import READ_BYTES, Connection, same_origin, status_error
from engine.hub.errors import ChangedError, HubError, NotFoundError, ProtocolError, ServerError
from engine.hub.journal import Source

MAX_REDIRECTS = 8
SEGMENT = 8 << 30  # one request asks for no more: content networks refuse ranges of more than about 50 GB
_CONTENT_RANGE = re.compile(r"^bytes (\d+)-(\d+)/(\d+|\*)$")
_SHA256 = re.compile(r"^[0-9a-f]{64}$")


class LinkExpiredError(HubError):
    """The file host refuses a link that the hub has just signed, or signed a while ago."""


class RangeRead:
    """An open answer that delivers bytes `begin` to `end` of the file; `abort` ends it from another thread."""

    def __init__(self, response: httpx2.Response, skip: int, begin: int, end: int) -> None:
        self._response, self._skip, self.begin, self.end = response, skip, begin, end

    def blocks(self) -> Iterator[bytes]:
        """The bytes, never one more than `end` allows. Raises httpx2 errors when the connection breaks."""
        skip, left = self._skip, self.end - self.begin
        for block in self._raw_blocks(skip + left):
            if skip:
                dropped = min(skip, len(block))
                skip -= dropped
                block = block[dropped:]
            if len(block) > left:
                block = block[:left]
            left -= len(block)
            if block:
                yield block
            if not left:
                return

    def _raw_blocks(self, length: int) -> Iterator[bytes]:
        """The body, read from the connection itself after the first block.

        The client copies every byte three times on its way through its parser, which has nothing to parse in a
        body of known length; without it a fast download takes half the processor time. The first block is all that
        the parser holds.
        """
        response = self._response
        blocks = response.iter_raw()
        first = next(blocks, b"")
        yield first
        left = length - len(first)
        stream = response.extensions.get("network_stream")
        headers = response.headers
        known_length = "Content-Length" in headers and "Transfer-Encoding" not in headers
        if stream is None or not known_length or response.http_version != "HTTP/1.1":
            yield from blocks
            return
        seconds = response.request.extensions.get("timeout", {}).get("read")
        yield from _joined(stream, left, seconds)

    def abort(self) -> None:
        stream = self._response.extensions.get("network_stream")
        connected = stream.get_extra_info("socket") if stream is not None else None
        if isinstance(connected, socket.socket):
            with contextlib.suppress(OSError):
                # Not SSLSocket.shutdown, which drops the TLS state that the reading thread is using.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _joined(stream: httpcore2.NetworkStream, left: int, seconds: float | None) -> Iterator[bytes]:
    """What `stream` delivers, as blocks of up to READ_BYTES; nothing is held back while more has to be waited for.

    A TLS connection gives 16 KiB at a time, and to write and hash each for itself takes longer than to read it.
    """
    pieces: list[bytes] = []
    count = 0
    while left > 0:
        try:
            piece = stream.read(min(left, READ_BYTES - count), timeout=seconds)
            if not piece:
                raise httpcore2.ReadError("the connection was closed early")
        except (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError) as error:
            if pieces:
                yield b"".join(pieces)
            raise httpx2.ReadError(str(error)) from error
        pieces.append(piece)
        count += len(piece)
        left -= len(piece)
        if count >= READ_BYTES or not left or not stream.get_extra_info("is_readable"):
            yield b"".join(pieces)
            pieces, count = [], 0


def file_url(connection: Connection, source: Source) -> httpx2.URL:
    path = quote(source.path)
    if not source.revision:  # a plain file server
        return httpx2.URL(f"{connection.settings.endpoint}/{source.repository}/{path}")
    return httpx2.URL(f"{connection.settings.endpoint}/{source.repository}/resolve/{source.revision}/{path}")


@contextlib.contextmanager
def open_range(connection: Connection, source: Source, begin: int, end: int) -> Iterator[RangeRead]:
    """Ask the hub for bytes `begin` to `end`, and follow it to wherever they are.

    The hub is asked every time: its links to the file host are signed and expire. Raises HubError.
    """
    end = min(end, begin + SEGMENT)
    url = file_url(connection, source)
    for _ in range(MAX_REDIRECTS):
        headers = connection.headers(url) | {"Range": f"bytes={begin}-{end - 1}"}
        request = connection.client.build_request("GET", url, headers=headers)
        response = connection.client.send(request, stream=True, follow_redirects=False)
        with contextlib.closing(response):
            if response.has_redirect_location:
                url = _redirected(response, url, source)
                continue
            yield _checked(connection, response, source, begin, end)
            return
    raise ProtocolError("The hub redirects in a circle.", remedy="Check the address under Settings, Network.")


def _redirected(response: httpx2.Response, url: httpx2.URL, source: Source) -> httpx2.URL:
    linked_size = response.headers.get("X-Linked-Size", "")
    linked_hash = response.headers.get("X-Linked-ETag", "").removeprefix("W/").strip('"')
    if linked_size.isdigit() and int(linked_size) != source.size:
        raise _changed(source)
    if source.sha256 and _SHA256.match(linked_hash) and linked_hash != source.sha256:
        raise _changed(source)
    target = url.join(response.headers["Location"])
    if target.scheme not in ("http", "https") or (url.scheme == "https" and target.scheme == "http"):
        raise ProtocolError(f"The hub redirects to {target.scheme}://, which is not safe.")
    return target


def _checked(connection: Connection, response: httpx2.Response, source: Source, begin: int, end: int) -> RangeRead:
    """The answer as a RangeRead, or the error that it deserves."""
    status = response.status_code
    if status >= 400:
        raise _refusal(connection, response, source)
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml"):
        raise ProtocolError(
            "A web page came instead of the file; probably a proxy or a network that wants you to sign in.",
            remedy="Open any page in a browser to sign in, then resume.",
        )
    if response.headers.get("Content-Encoding", "identity").lower() not in ("", "identity"):
        raise ProtocolError("The server compressed the file although it was told not to.")
    content_range = response.headers.get("Content-Range", "")
    if status == 206:
        last = _check_range(content_range, source, begin, end)
        _check_length(response, last + 1 - begin)
        return RangeRead(response, 0, begin, last + 1)
    if status != 200 or content_range:
        raise ProtocolError(f"The server's answer contradicts itself (status {status}, range {content_range!r}).")
    _check_length(response, source.size)
    return RangeRead(response, begin, begin, source.size)  # it ignores ranges: the beginning is read and dropped


def _check_range(content_range: str, source: Source, begin: int, end: int) -> int:
    match = _CONTENT_RANGE.match(content_range)
    if match is None:
        raise ProtocolError("The server sent a part of the file and did not say which one.")
    first, last, total = int(match[1]), int(match[2]), match[3]
    if total != "*" and int(total) != source.size:
        raise _changed(source)
    if first != begin or not begin <= last < end:
        raise ProtocolError(f"The server sent bytes {first} to {last} when asked for {begin} to {end - 1}.")
    return last


def _check_length(response: httpx2.Response, expected: int) -> None:
    length = response.headers.get("Content-Length", "")
    if length.isdigit() and int(length) != expected:
        raise ProtocolError(f"The server announced {length} bytes where {expected} were due.")


def _refusal(connection: Connection, response: httpx2.Response, source: Source) -> HubError:
    status, endpoint = response.status_code, connection.settings.endpoint
    if status == 416:
        total = response.headers.get("Content-Range", "").rpartition("/")[2]
        if total.isdigit() and int(total) != source.size:
            return _changed(source)
        return ProtocolError("The server says that the file has no such part.")
    if not same_origin(response.url, connection.origin):
        if status in (400, 401, 403, 404, 410):
            return LinkExpiredError(f"The file host refused the hub's link (status {status}).")
        return ServerError(f"The file host refused the request (status {status}).")
    if status == 404:
        return NotFoundError(f"{source.repository} no longer holds {source.path}.", remedy="Open the repository again.")
    return status_error(response, source.repository, endpoint)


def _changed(source: Source) -> ChangedError:
    return ChangedError(
        f"{source.path} has changed on the hub since this download began.",
        remedy="Cancel it, open the repository again and download the new file.",
    )
