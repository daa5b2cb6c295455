"""A vocabulary's first load happens in a child process, because llama.cpp aborts its process on some files.

The result is remembered per header hash and llama-cpp-python version, so that a known file costs only the hash. What
may be otherwise next time is not: a process that took too long, was killed by others, or found no file any more.
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
from engine.errors import EngineError, FormatError
from engine.gguf import GGUFFile
from engine.hub.folders import cache_folder
from engine.text.llama_library import library_version
from engine.text.vocabulary_child import error_as_dict

_CHECK_VERSION = 2  # raise when the child checks more than before
_TIMEOUT_SECONDS = 120.0
_LASTING = ("FormatError", "UnsupportedError")  # of what a child finds: they follow from the header
_OWN_SIGNALS = ("SIGABRT", "SIGSEGV", "SIGILL", "SIGFPE")  # by which a process ends itself
_WINDOWS_ABORT, _WINDOWS_EXCEPTIONS = 3, 0x80000000  # exit code of abort(); exceptions end with their NTSTATUS


def check_vocabulary(gguf: GGUFFile, *, folder: Path | None = None) -> None:
    """Return when `gguf`'s vocabulary loads without harm; raise what the child found otherwise.

    `folder` keeps the remembered results (default: in the user's cache folder).
    """
    record = _record(gguf, folder)
    error = _remembered(record)
    if error is None:
        error, is_lasting = _run_child(gguf.path)
        if is_lasting:
            _remember(record, error)
    _raise(error)


def is_checked(gguf: GGUFFile, *, folder: Path | None = None) -> bool:
    """Whether `gguf`'s vocabulary is known to load without harm. Raises what was found where it is known not to."""
    error = _remembered(_record(gguf, folder))
    _raise(error or {})
    return error is not None


def _raise(error: dict[str, str]) -> None:
    if error:
        kind = getattr(engine.errors, error["kind"], FormatError)
        raise kind(error["cause"], done=error["done"], remedy=error["remedy"])


def _record(gguf: GGUFFile, folder: Path | None) -> Path:
    return (folder or cache_folder() / "vocabularies") / f"{_fingerprint(gguf)}.json"


def _fingerprint(gguf: GGUFFile) -> str:
    """A hash of the header, which is all that a vocabulary load reads. The name counts: messages hold it."""
    seed = f"{_CHECK_VERSION} {library_version()} {gguf.path.name}\n"
    found = hashlib.blake2b(seed.encode("utf-8", "surrogateescape"), digest_size=20)
    found.update(gguf.header)
    return found.hexdigest()


def _remembered(record: Path) -> dict[str, str] | None:
    """The stored error, {} for a sound vocabulary, None when this file is new here."""
    try:
        value = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
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


def _run_child(path: Path) -> tuple[dict[str, str], bool]:
    """What it found ({}: all is well), and whether it would find the same in the same file again."""
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
        return error_as_dict(_stopped(path, f"it did not finish in {_TIMEOUT_SECONDS:.0f} s")), False
    if child.returncode == 0:
        return {}, True
    if child.returncode == 1 and child.stdout.startswith(b"{"):
        found: dict[str, str] = json.loads(child.stdout)
        return found, found["kind"] in _LASTING
    cause = f"exit code {child.returncode}"
    if child.returncode < 0:
        with contextlib.suppress(ValueError):
            cause = signal.Signals(-child.returncode).name
    if cause not in _OWN_SIGNALS and not (
        os.name == "nt" and (child.returncode == _WINDOWS_ABORT or child.returncode >= _WINDOWS_EXCEPTIONS)
    ):
        return error_as_dict(_stopped(path, cause)), False
    return error_as_dict(_died(path, cause, child.stderr.decode("utf-8", "replace"))), True


def _stopped(path: Path, cause: str) -> EngineError:
    return EngineError(
        f"The vocabulary of {path.name} could not be checked ({cause}).",
        done="The model was not loaded.",
        remedy="Close other programs, and load it again.",
    )


def _died(path: Path, cause: str, output: str) -> FormatError:
    failed = [line.strip() for line in output.splitlines() if "GGML_ASSERT" in line or "error" in line.lower()]
    detail = f"; {failed[0][-200:]}" if failed else ""
    return FormatError(
        f"llama.cpp cannot load the vocabulary of {path.name} ({cause}{detail}).",
        done="It was tried in a process of its own, so nothing else was affected.",
        remedy="Download the file again, or choose another conversion of this model.",
    )
