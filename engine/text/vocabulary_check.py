"""A vocabulary's first load happens in a child process, because llama.cpp aborts its process on some files.

The result is remembered per header hash and llama-cpp-python version, so that a known file costs only the hash.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

import engine.errors
from engine.child_process import child_command
from engine.errors import FormatError
from engine.gguf.shard import Shard
from engine.hub.folders import cache_folder
from engine.text.llama_library import library_version
from engine.text.vocabulary_child import error_as_dict

_CHECK_VERSION = 1  # raise when the child checks more than before
_TIMEOUT_SECONDS = 120.0


def check_vocabulary(path: Path, *, folder: Path | None = None) -> None:
    """Return when `path`'s vocabulary loads without harm; raise what the child found otherwise.

    `folder` keeps the remembered results (default: in the user's cache folder).
    """
    record = (folder or cache_folder() / "vocabularies") / f"{_fingerprint(path)}.json"
    error = _remembered(record)
    if error is None:
        error = _run_child(path)
        _remember(record, error)
    if error:
        kind = getattr(engine.errors, error["kind"], FormatError)
        raise kind(error["cause"], done=error["done"], remedy=error["remedy"])


def _fingerprint(path: Path) -> str:
    """A hash of the header, which is all that a vocabulary load reads. The name counts: messages hold it."""
    shard = Shard(path)
    try:
        header = shard.bytes_at(0, shard.header.data_offset)
    finally:
        shard.close()
    seed = f"{_CHECK_VERSION} {library_version()} {path.name}\n"
    return hashlib.blake2b(seed.encode("utf-8", "surrogateescape") + header, digest_size=20).hexdigest()


def _remembered(record: Path) -> dict[str, str] | None:
    """The stored error, {} for a sound vocabulary, None when this file is new here."""
    try:
        value = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    fields = {"kind", "cause", "done", "remedy"}
    return value if isinstance(value, dict) and set(value) in (set(), fields) else None


def _remember(record: Path, error: dict[str, str]) -> None:
    """Best effort: without a cache the check merely runs again."""
    with contextlib.suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=record.parent, delete=False, encoding="utf-8") as file:
            json.dump(error, file)
        Path(file.name).replace(record)


def _run_child(path: Path) -> dict[str, str]:
    command = child_command("engine.text.vocabulary_child", os.fspath(path))
    try:
        child = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
            env={"GGML_NO_BACKTRACE": "1", **os.environ},  # no debugger for a process that is expected to die
        )
    except subprocess.TimeoutExpired:
        return error_as_dict(_died(path, f"it did not finish in {_TIMEOUT_SECONDS:.0f} s", ""))
    if child.returncode == 0:
        return {}
    if child.returncode == 1 and child.stdout.startswith(b"{"):
        found: dict[str, str] = json.loads(child.stdout)
        return found
    cause = f"exit code {child.returncode}"
    if child.returncode < 0:
        with contextlib.suppress(ValueError):
            cause = signal.Signals(-child.returncode).name
    return error_as_dict(_died(path, cause, child.stderr.decode("utf-8", "replace")))


def _died(path: Path, cause: str, output: str) -> FormatError:
    failed = [line.strip() for line in output.splitlines() if "GGML_ASSERT" in line or "error" in line.lower()]
    detail = f"; {failed[0][-200:]}" if failed else ""
    return FormatError(
        f"llama.cpp cannot load the vocabulary of {path.name} ({cause}{detail}).",
        done="It was tried in a process of its own, so nothing else was affected.",
        remedy="Download the file again, or choose another conversion of this model.",
    )
