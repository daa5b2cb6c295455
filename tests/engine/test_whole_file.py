"""Files that are written whole or not at all, and the trace that is one of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.runtime.trace import check_trace, write_trace
from engine.whole_file import write_whole


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_file_is_replaced_in_one_step(tmp_path):
    path = tmp_path / "a.txt"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two" and names(tmp_path) == ["a.txt"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "there" / "file")
    write_whole(link, b"text")
    assert link.is_symlink() and (tmp_path / "there" / "file").read_bytes() == b"text"


def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"text")
    assert os.read(reader, 9) == b"text" and names(tmp_path) == ["pipe"]
    os.close(reader)


@pytest.mark.parametrize("existed", [False, True])
def test_a_trace_that_fails_leaves_nothing_of_itself(tmp_path, monkeypatch, existed):
    path = tmp_path / "trace.json"
    if existed:
        path.write_text("before")

    def full(draft: Path, data: bytes) -> int:
        with draft.open("wb") as file:
            file.write(data[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EngineError, match="No space left on device"):
        write_trace([], path)
    assert names(tmp_path) == (["trace.json"] if existed else [])
    assert not existed or path.read_text() == "before"


def test_looking_whether_a_trace_can_be_written_leaves_nothing(tmp_path):
    check_trace(str(tmp_path / "trace.json"))
    assert not names(tmp_path)
    (tmp_path / "trace.json").write_text("before")
    check_trace(str(tmp_path / "trace.json"))
    assert (tmp_path / "trace.json").read_text() == "before" and len(names(tmp_path)) == 1
    for nowhere in (tmp_path / "none" / "trace.json", tmp_path):
        with pytest.raises(EngineError, match="No trace can be written"):
            check_trace(str(nowhere))
