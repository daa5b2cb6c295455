"""A report of a crash, as a local text file that its owner may send or not. Holds no words of any conversation."""

from __future__ import annotations

import time
from pathlib import Path

from app.log_text import read_tail, without_personal

LOG_LINES = 200


def make_report(log_file: Path, native_log: Path, checks: list[tuple[str, str]], version: str) -> str:
    """Version, this computer, where it crashed, and the log's end; paths, addresses and secrets are taken out.

    `checks`: name and finding of each of the doctor's checks.
    """
    native = read_tail(native_log).strip() or "nothing was written"
    lines = read_tail(log_file).splitlines()[-LOG_LINES:]
    parts = [
        f"Tessera {version}, report of {time.strftime('%Y-%m-%d %H:%M')}",
        "This computer\n" + "\n".join(f"  {name}: {found}" for name, found in checks),
        "The crash\n" + native,
        f"The log's last {len(lines)} lines\n" + "\n".join(lines),
    ]
    return without_personal("\n\n".join(parts)) + "\n"
