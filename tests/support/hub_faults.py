"""How the fake hub misbehaves: one `Fault` describes one answer of the file server."""

from __future__ import annotations

from dataclasses import dataclass, field

HTML = b"<!DOCTYPE html><html><body>Please sign in to the company network.</body></html>"


@dataclass(frozen=True)
class Fault:
    """One answer. The default one is sound.

    `status` answers with that status and no file. `after` is the number of body bytes that are sent before
    `then` happens: "cut" closes the connection, "stall" falls silent, "expire" closes it and makes every signed
    URL given out so far invalid, "end" ends the answer early as if the file were over.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    ignore_range: bool = False  # 200 and the whole file
    claim_range: str = ""  # Content-Range as it stands; "none" leaves it out
    claim_status: int = 0  # another status than the sound one, with the sound body
    gzip: bool = False
    html: bool = False
    chunked: bool = False  # no Content-Length
    extra: int = 0  # bytes too many
    flip: int = -1  # offset in the file of one wrong byte
    after: int = -1
    then: str = ""
    rate: float = 0.0  # bytes per second


SOUND = Fault()
