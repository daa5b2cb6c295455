"""The first load of a vocabulary happens where an abort does no harm, and only once per file."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineError, FormatError, UnsupportedError
from engine.gguf import GGUFFile
from engine.text import vocabulary_check
from engine.text.tokenizer import Tokenizer
from tests.support.vocabularies import CONTROL, bpe_vocabulary, spm_vocabulary


class CountingRun:
    """subprocess.run, and how often it was called."""

    def __init__(self) -> None:
        self.calls = 0
        self._run = subprocess.run

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.calls += 1
        return self._run(*args, **options)


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> CountingRun:
    counting = CountingRun()
    monkeypatch.setattr(vocabulary_check.subprocess, "run", counting)
    return counting


def check(path: Path, *, folder: Path) -> None:
    with GGUFFile.open(path) as gguf:
        vocabulary_check.check_vocabulary(gguf, folder=folder)


def is_checked(path: Path, *, folder: Path) -> bool:
    with GGUFFile.open(path) as gguf:
        return vocabulary_check.is_checked(gguf, folder=folder)


def aborting(folder: Path) -> Path:
    """llama.cpp asserts that no token occurs twice, and ends its process where one does."""
    return spm_vocabulary([("<|twice|>", CONTROL), ("<|twice|>", CONTROL)]).write(folder / "twice.gguf")


def test_a_sound_file_is_checked_once(tmp_path: Path, children: CountingRun) -> None:
    path, cache = spm_vocabulary().write(tmp_path / "sound.gguf"), tmp_path / "cache"
    assert not is_checked(path, folder=cache)
    check(path, folder=cache)
    assert is_checked(path, folder=cache)
    check(path, folder=cache)
    assert children.calls == 1
    assert len(list(cache.iterdir())) == 1


def test_an_abort_is_an_error_and_is_remembered(tmp_path: Path, children: CountingRun) -> None:
    path, cache = aborting(tmp_path), tmp_path / "cache"
    for _ in range(2):
        with pytest.raises(FormatError, match=r"twice\.gguf \(SIGABRT; .*GGML_ASSERT") as caught:
            check(path, folder=cache)
        assert caught.value.remedy
    with pytest.raises(FormatError, match="SIGABRT"):
        is_checked(path, folder=cache)
    assert children.calls == 1


def test_loading_goes_through_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary_check, "cache_folder", lambda: tmp_path / "cache")
    with pytest.raises(FormatError, match="SIGABRT"):
        Tokenizer.load(aborting(tmp_path))
    good = Tokenizer.load(spm_vocabulary().write(tmp_path / "sound.gguf"))
    assert good.encode("Hello")


def test_errors_keep_their_kind(tmp_path: Path) -> None:
    path = bpe_vocabulary(pre="from-the-future").write(tmp_path / "new.gguf")
    with pytest.raises(UnsupportedError, match="from-the-future"):
        check(path, folder=tmp_path / "cache")


def test_a_changed_file_is_checked_again(tmp_path: Path, children: CountingRun) -> None:
    cache = tmp_path / "cache"
    check(spm_vocabulary().write(tmp_path / "a.gguf"), folder=cache)
    check(spm_vocabulary(add_bos_token=True).write(tmp_path / "a.gguf"), folder=cache)
    assert children.calls == 2


@pytest.mark.parametrize("damage", ["", "[]", '{"kind": 1}', "\0"])
def test_a_damaged_record_is_replaced(tmp_path: Path, children: CountingRun, damage: str) -> None:
    path, cache = spm_vocabulary().write(tmp_path / "a.gguf"), tmp_path / "cache"
    check(path, folder=cache)
    (record,) = cache.iterdir()
    record.write_text(damage)
    check(path, folder=cache)
    check(path, folder=cache)
    assert children.calls == 2


def test_no_place_to_remember(tmp_path: Path, children: CountingRun) -> None:
    path = spm_vocabulary().write(tmp_path / "a.gguf")
    (tmp_path / "file").write_text("in the way")
    for _ in range(2):
        check(path, folder=tmp_path / "file" / "cache")
    assert children.calls == 2


def killed(*_arguments: Any, **_options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.CompletedProcess([], -signal.SIGKILL, b"", b"")


def without_result(*_arguments: Any, **_options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.CompletedProcess([], 1, b"", b"MemoryError")


def without_file(*_arguments: Any, **_options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.CompletedProcess([], 1, b'{"kind": "FileError", "cause": "gone", "done": "", "remedy": ""}', b"")


def too_slow(*_arguments: Any, **_options: Any) -> subprocess.CompletedProcess[bytes]:
    raise subprocess.TimeoutExpired([], 120.0)


@pytest.mark.parametrize("child", [killed, without_result, without_file, too_slow])
def test_what_says_nothing_of_the_file_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child: Any
) -> None:
    """A process that others killed, or that had no time: the same file is as good as any the next time."""
    path, cache = spm_vocabulary().write(tmp_path / "a.gguf"), tmp_path / "cache"
    with monkeypatch.context() as patch:
        patch.setattr(vocabulary_check.subprocess, "run", child)
        with pytest.raises(EngineError) as caught:
            check(path, folder=cache)
        assert not isinstance(caught.value, FormatError)
    assert not is_checked(path, folder=cache)
    check(path, folder=cache)
    assert is_checked(path, folder=cache)
