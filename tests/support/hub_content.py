"""What the fake hub holds: repositories, their files, and bytes that are cheap to make and never the same twice."""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

COMMIT = "c0ffee" + "0" * 34


class Content(Protocol):
    """Bytes that can be read from anywhere."""

    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str: ...
    def read(self, begin: int, end: int) -> bytes: ...


@dataclass(frozen=True)
class Bytes:
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    @functools.cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def read(self, begin: int, end: int) -> bytes:
        return self.data[begin:end]


@functools.cache
def _noise(seed: int) -> bytes:
    return random.Random(seed).randbytes(1_000_003)  # a prime length: no alignment repeats


@dataclass(frozen=True)
class Noise:
    """A GGUF-like file of any size: the magic, then noise in which every block of a megabyte is different."""

    size: int
    seed: int = 1

    def blocks(self) -> Iterator[bytes]:
        for begin in range(0, self.size, 1 << 20):
            yield self.read(begin, min(self.size, begin + (1 << 20)))

    @functools.cached_property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        for block in self.blocks():
            digest.update(block)
        return digest.hexdigest()

    def read(self, begin: int, end: int) -> bytes:
        end = min(end, self.size)
        parts = [b"GGUF"[begin : min(end, 4)]] if begin < 4 else []
        place = max(begin, 4)
        noise = _noise(self.seed)
        while place < end:
            at = place % len(noise)
            length = min(end - place, len(noise) - at)
            parts.append(noise[at : at + length])
            place += length
        return b"".join(parts)


def xet_hash(content: Content) -> str:
    """Another hash than the file's SHA-256, as real ones are (they are Merkle trees over chunks)."""
    return hashlib.blake2b(content.sha256.encode(), digest_size=32).hexdigest()


@dataclass
class Repository:
    """A model repository; `gated` and `private` ask for a token, `disabled` never answers."""

    name: str
    files: dict[str, Content] = field(default_factory=dict)
    gated: str | bool = False
    private: bool = False
    readme: str = "# A model\n"
    downloads: int = 100
    likes: int = 10
    modified: str = "2026-01-02T03:04:05.000Z"
    tags: list[str] = field(default_factory=lambda: ["gguf"])
    license: str = "apache-2.0"
    gguf: dict[str, Any] | None = None
    commit: str = COMMIT
    xet: bool = False

    def summary(self) -> dict[str, Any]:
        return {
            "_id": hashlib.md5(self.name.encode(), usedforsecurity=False).hexdigest()[:24],
            "id": self.name,
            "modelId": self.name,
            "author": self.name.split("/")[0],
            "sha": self.commit,
            "private": self.private,
            "gated": self.gated,
            "downloads": self.downloads,
            "likes": self.likes,
            "lastModified": self.modified,
            "createdAt": self.modified,
            "tags": [*self.tags, f"license:{self.license}"],
            "pipeline_tag": "text-generation",
            "gguf": self.gguf,
            "cardData": {"license": self.license},
        }

    def siblings(self, blobs: bool) -> dict[str, Any]:
        """The files as the model info names them: with sizes and checksums only when asked for."""
        entries = []
        for entry in self.tree():
            one = {"rfilename": entry["path"]}
            if blobs:
                one |= {"size": entry["size"], "blobId": entry["oid"]}
                if lfs := entry.get("lfs"):
                    one["lfs"] = {"sha256": lfs["oid"], "size": lfs["size"], "pointerSize": lfs["pointerSize"]}
            entries.append(one)
        return {"siblings": entries}

    def tree(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        for path, content in self.files.items():
            entry: dict[str, Any] = {"type": "file", "path": path, "size": content.size, "oid": "b" * 40}
            if path.endswith(".gguf") or ".gguf." in path or path.endswith(".dat"):
                entry["lfs"] = {"oid": content.sha256, "size": content.size, "pointerSize": 135}
                if self.xet:
                    entry["xetHash"] = xet_hash(content)
            entries.append(entry)
        return entries
