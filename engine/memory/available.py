"""How much memory this process can still take, asked before anything large is allocated."""

from __future__ import annotations

from pathlib import Path

from engine.errors import OutOfMemoryError

_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Bytes of RAM that can be had without swapping: the system's, or the control group's where that is less."""
    import psutil

    available = int(psutil.virtual_memory().available)
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        if limit != "max":
            used = int((_CGROUP / "memory.current").read_text())
            available = min(available, max(0, int(limit) - used))
    except (OSError, ValueError):
        pass  # no control group, or an older kernel's
    return available


def resident_memory() -> int:
    """Bytes of RAM that this process takes now, pages of mapped files included."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def require_memory(needed: int, purpose: str, *, freed: int = 0, remedy: str) -> None:
    """OutOfMemoryError unless `needed` bytes are there, or will be once `freed` bytes are given back."""
    available = available_memory() + freed
    if needed > available:
        raise OutOfMemoryError(
            f"{purpose} needs {format_bytes(needed)} of memory, and {format_bytes(available)} are free.",
            done="Nothing was changed.",
            remedy=remedy,
        )


def format_bytes(count: int) -> str:
    """Bytes as people read them: "512 MiB", "3.2 GiB"."""
    if count >= 1 << 30:
        return f"{count / (1 << 30):.1f} GiB"
    return f"{max(1, round(count / (1 << 20)))} MiB" if count else "0 MiB"
