"""The log as it may be shown to others: without paths, addresses or secrets. Free of Qt."""

from __future__ import annotations

import re
from pathlib import Path

TAIL_BYTES = 256 << 10

# A path's characters, and how it goes on after a blank.
_PLAIN = r"[^\s:;,\"'“”()<>]"
_AFTER_BLANK = r"(?: [^/\\:;,\"'“”()<>\n]*(?:[/\\]" + _PLAIN + r"*|\.gguf\b))"

# In order. What is between quotes may hold blanks; elsewhere a path ends at one.
_RULES = (
    (re.compile(r"\b(?:hf|ghp|github_pat|sk|xox[a-z])[_-][A-Za-z0-9_-]{8,}"), "<token>"),
    (re.compile(r"(?i)\b(authorization|x-api-key|cookie|set-cookie|password|passwd|token|secret|api[_-]?key)"
                r"(\"?\s*[:=]\s*)(?:bearer\s+|basic\s+)?[^\s,;\"']+"), r"\1\2<secret>"),
    (re.compile(r"(?i)\bbearer\s+[A-Za-z0-9._~+/=-]+"), "Bearer <secret>"),
    (re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s\"'“”<>]+"), "<address>"),
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"), "<address>"),
    (re.compile(r"(?<=[\"'“])(?:/|~/|[A-Za-z]:[\\/]|\\\\)[^\"'”\n]*(?=[\"'”])"), "<path>"),
    (re.compile(r"(?<![\w<>/])(?:~?/|[A-Za-z]:[\\/]|\\\\)" + _PLAIN + "+" + _AFTER_BLANK + "*"), "<path>"),
)  # fmt: skip
_OWN_CODE = re.compile(r'File "[^"\n]*?((?:app|engine|kernels)/[^"\n]+\.pyc?)"')


def without_personal(text: str, home: Path | None = None) -> str:
    """`text` with every path, address and secret replaced by what it was; the program's own files keep their names."""
    own: list[str] = []

    def keep(found: re.Match[str]) -> str:
        own.append(found.group(1))
        return f"File \N{SECTION SIGN}{len(own) - 1}\N{SECTION SIGN}"

    text = _OWN_CODE.sub(keep, text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    user = (home or Path.home()).name
    if len(user) > 2 and user != "root":
        text = re.sub(rf"\b{re.escape(user)}\b", "<user>", text)
    return re.sub(r"File \u00a7(\d+)\u00a7", lambda found: f'File "{own[int(found.group(1))]}"', text)


def read_tail(path: Path, limit: int = TAIL_BYTES) -> str:
    """The end of a log, from the beginning of a line on; empty where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - limit))
            data = file.read()
    except OSError:
        return ""
    if size > limit:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")
