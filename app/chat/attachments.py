"""Files that go along with a message: text, code, PDF. Free of Qt; reading may take a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.errors import FileError, UnsupportedError

MAX_BYTES = 50_000_000
MAX_CHARS = 4_000_000
_SNIFFED = 8192  # bytes that must look like text


@dataclass(frozen=True, slots=True)
class Attachment:
    name: str
    text: str
    pages: int = 0  # of a PDF


def read_attachment(path: Path) -> Attachment:
    """Raises FileError or UnsupportedError, each with the file's name."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UnsupportedError(
                f"{path.name} is {size / 1e6:.0f} MB; attachments can be {MAX_BYTES / 1e6:.0f} MB.",
                done="It was not attached.",
                remedy="Attach a part of it.",
            )
        data = path.read_bytes()
    except OSError as error:
        raise FileError(
            f"{path.name} could not be read: {error.strerror or error}.", done="It was not attached."
        ) from error
    if data.startswith(b"%PDF-"):
        return _pdf(path)
    text = _decode(data, path.name)
    return attached_text(path.name, text)


def prompt_text(attachments: Sequence[Mapping[str, Any]], message: str) -> str:
    """What the model is told: each file between marks that its text cannot end, then the message."""
    parts = []
    for attachment in attachments:
        fence = "```"
        while fence in attachment["text"]:
            fence += "`"
        parts.append(f"File “{attachment['name']}”:\n{fence}\n{attachment['text'].rstrip()}\n{fence}")
    return "\n\n".join([*parts, message])


def stored(attachments: Sequence[Attachment]) -> list[dict[str, Any]]:
    return [asdict(attachment) for attachment in attachments]


def _decode(data: bytes, name: str) -> str:
    for encoding, mark in (("utf-8-sig", b"\xef\xbb\xbf"), ("utf-16", b"\xff\xfe"), ("utf-16", b"\xfe\xff")):
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    if b"\0" in data[:_SNIFFED]:
        raise UnsupportedError(
            f"{name} is neither text nor a PDF.",
            done="It was not attached.",
            remedy="Attach text, code or a PDF with text.",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _pdf(path: Path) -> Attachment:
    from pypdf import PdfReader  # takes a quarter of a second
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(path)
        pages = [page.extract_text() for page in reader.pages]
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise FileError(
            f"The PDF {path.name} could not be read: {error or type(error).__name__}.",
            done="It was not attached.",
            remedy="Save it anew without a password, or attach its text.",
        ) from error
    text = "\n\n".join(page.strip() for page in pages)
    if not text.strip():
        raise UnsupportedError(
            f"The PDF {path.name} holds pictures of pages and no text.",
            done="It was not attached.",
            remedy="Run text recognition on it first.",
        )
    return attached_text(path.name, text, len(pages))


def attached_text(name: str, text: str, pages: int = 0) -> Attachment:
    """UnsupportedError where it is too long. Half characters in `name` or `text` are replaced: no file holds them."""
    if len(text) > MAX_CHARS:
        raise UnsupportedError(
            f"{name} holds {len(text):,} characters; attachments can hold {MAX_CHARS:,}.",
            done="It was not attached.",
            remedy="Attach a part of it.",
        )
    return Attachment(_whole(name), _whole(text), pages)


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
