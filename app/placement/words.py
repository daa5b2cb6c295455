"""Sizes and speeds as the memory page writes them. Free of Qt."""

from __future__ import annotations

from app.translation import tr

GiB, MiB = 1 << 30, 1 << 20


def not_known() -> str:
    """What stands where the system tells nothing."""
    return tr("n/a")


def gib(size: int | float | None) -> str:
    """ "3.2 GiB"; small sizes in MiB; "n/a" where nothing is known."""
    if size is None:
        return not_known()
    if size >= 100 * GiB:
        return f"{size / GiB:.0f} GiB"
    if size >= GiB:
        return f"{size / GiB:.1f} GiB"
    if size >= MiB or not size:
        return f"{size / MiB:.0f} MiB" if size >= 10 * MiB or not size else f"{size / MiB:.1f} MiB"
    return f"{size / 1024:.0f} KiB" if size >= 1024 else f"{size:.0f} B"


def rate(bytes_per_second: float | None) -> str:
    """ "1.2 GB/s", "340 MB/s", "0 MB/s": decimal, as links and disks are sold."""
    if bytes_per_second is None:
        return not_known()
    if bytes_per_second >= 1e9:
        return f"{bytes_per_second / 1e9:.1f} GB/s"
    return f"{bytes_per_second / 1e6:.0f} MB/s"


def speed(tokens_per_second: float | None) -> str:
    """A number with two or three digits that count."""
    if tokens_per_second is None:
        return not_known()
    if tokens_per_second >= 100:
        return f"{tokens_per_second:,.0f}"
    return f"{tokens_per_second:.1f}" if tokens_per_second >= 1 else f"{tokens_per_second:.2f}"


def speed_words(tokens_per_second: float | None) -> str:
    return tr("{speed} tok/s", speed=speed(tokens_per_second))


def percent(share: float | None) -> str:
    return not_known() if share is None else f"{share * 100:.0f} %"
