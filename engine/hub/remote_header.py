"""The header of a file on the hub, read by Range: a few megabytes instead of many gigabytes, and cached.

A header's length is not known beforehand, so the answer is read only as far as needed and then hung up on.
"""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path

import httpx2

from engine.errors import FileError, FormatError
from engine.gguf.header import Header, parse_header
from engine.hub.connection import Connection, stoppable, translate
from engine.hub.errors import ProtocolError, StoppedError
from engine.hub.journal import Source
from engine.hub.ranged import open_range

FIRST = 1 << 20
LARGEST = 64 << 20  # five times the largest header known


def remote_header(connection: Connection, source: Source, cache: Path, stop: threading.Event | None = None) -> Header:
    """The parsed header, from the cache folder if it was read before: no request then."""
    kept = cache / f"{_cache_name(source)}.header"
    if kept.is_file():
        try:
            if (header := _parse(kept, source)) is not None:
                return header
        except (FileError, OSError):
            kept.unlink(missing_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    scratch = kept.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    try:
        with scratch.open("wb", buffering=0) as file, stoppable(stop):
            header = _read(connection, source, scratch, file, stop)
        scratch.replace(kept)
        return header
    except (httpx2.HTTPError, OSError) as error:
        raise translate(error, connection, source.repository) from error
    finally:
        scratch.unlink(missing_ok=True)


def _read(connection: Connection, source: Source, path: Path, file: object, stop: threading.Event | None) -> Header:
    """Append to `file` until what is there is a whole header."""
    enough, length = FIRST, 0
    with open_range(connection, source, 0, min(LARGEST, source.size)) as read:
        for block in read.blocks():
            if stop is not None and stop.is_set():
                raise StoppedError
            if length == 0 and not block.startswith(b"GGUF"[: len(block)]):
                raise ProtocolError(f"{source.path} on the hub is no GGUF file.")
            file.write(block)  # type: ignore[attr-defined]
            length += len(block)
            if length >= min(enough, source.size):
                if (header := _parse(path, source)) is not None:
                    return header
                enough = length + length // 4  # the reader looks ahead by up to the header's own length
    raise FormatError(f"{source.path}: the header has no end within {LARGEST >> 20} MiB.")


def _parse(path: Path, source: Source) -> Header | None:
    """The header, or None when `path` does not reach far enough.

    The reader is told the size of the whole file, so places of tensors are checked as in the file itself. That the
    copy ends early is, to the reader, a file that shrinks: a plain FileError and none of its subclasses.
    """
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        return parse_header(fd, source.size, source.path.rsplit("/", 1)[-1])
    except FileError as error:
        if type(error) is FileError:
            return None
        raise
    finally:
        os.close(fd)


def _cache_name(source: Source) -> str:
    key = source.sha256 or f"{source.repository}\n{source.revision}\n{source.path}\n{source.size}"
    return hashlib.sha256(key.encode()).hexdigest()[:40]
