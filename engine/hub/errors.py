"""What can go wrong between this machine and the hub, each fit to be shown."""

from __future__ import annotations

from engine.errors import EngineError, FileError


class HubError(EngineError):
    """The hub, or the way to it, did not do what was asked."""


class OfflineError(HubError):
    """Offline mode is on."""

    def __init__(self) -> None:
        super().__init__(
            "Offline mode is on, so nothing was asked of the network.",
            remedy="Switch it off under Settings, Privacy (or unset HF_HUB_OFFLINE) to search and download.",
        )


class UnreachableError(HubError):
    """No answer: name resolution, connection, proxy, TLS or time-out. `permanent` ones do not pass by waiting."""

    def __init__(self, endpoint: str, reason: str, permanent: bool = False) -> None:
        self.permanent = permanent
        super().__init__(
            f"{endpoint} cannot be reached: {reason}.",
            remedy="Check the network, and the address, proxy and certificates under Settings, Network.",
        )


class GatedError(HubError):
    """The licence has to be accepted on the repository's page, and a token given."""

    def __init__(self, repository: str, endpoint: str) -> None:
        self.page = f"{endpoint}/{repository}"
        super().__init__(
            f"{repository} is gated: its owners ask everybody to accept their terms first.",
            remedy=f"Accept them on {self.page}, then enter an access token: the key under Library, Discover.",
        )


class NotFoundError(HubError):
    """No such repository, revision or file; or a private one and no token for it."""


class TokenRefusedError(HubError):
    """The hub does not accept the token."""

    def __init__(self) -> None:
        super().__init__(
            "The hub refused the access token: it is wrong, expired or may not read this.",
            remedy="Enter a new one: the key under Library, Discover.",
        )


class RateLimitedError(HubError):
    """Too many requests; `retry_after` seconds until the next one is welcome."""

    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(
            f"The hub asks to wait {_duration(retry_after)} before the next request.",
            remedy="An access token raises the limit: the key under Library, Discover.",
        )


class ServerError(HubError):
    """A 5xx answer, or one that makes no sense; worth another try."""


class ProtocolError(HubError):
    """An answer that would have damaged the file: a wrong range, a web page, a compressed body."""


class ChangedError(HubError):
    """The file on the hub is no longer the one that the download began with."""


class DiskFullError(FileError):
    """`shortfall` bytes are missing on the target's volume."""

    def __init__(self, folder: str, shortfall: int) -> None:
        self.shortfall = shortfall
        super().__init__(
            f"{folder} needs {disk_text(shortfall)} more free space.",
            done="Nothing was deleted; what is already here stays.",
            remedy="Free some space or choose another models folder, then resume.",
        )


class VerificationError(FileError):
    """A file's SHA-256 is not the one that the hub names."""

    def __init__(self, name: str, expected: str, found: str) -> None:
        super().__init__(
            f"{name} is damaged: its SHA-256 is {found[:12]}…, and the hub says {expected[:12]}….",
            done="It was not added to your models.",
            remedy="Download it again.",
        )


class BusyError(FileError):
    """Another window or program holds the file."""


class StoppedError(Exception):
    """The owner paused or cancelled; not an error to be shown."""


def disk_text(size: float) -> str:
    """Room on a disk, in the decimal units of files: 3.2 GB."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.1f} {unit}" if unit == "GB" else f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def size_text(size: float) -> str:
    """An amount of memory, in its binary units: 3.2 GiB."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
