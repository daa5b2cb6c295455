"""A model's file is cut, or written over, under a conversation: the answer ends with an error, the engine lives on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.client import EngineClient
from engine.errors import ReportedError
from engine.messages import LoadOptions
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]


@pytest.fixture
def model(tiny_models: Write, tmp_path: Path) -> Path:
    return Path(shutil.copy(tiny_models(TinyModel("qwen3")), tmp_path / "m.gguf"))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def write_over(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(-4096, os.SEEK_END)
        file.write(bytes(4096))
    os.utime(path)


@pytest.mark.parametrize("harm", [cut, write_over])
def test_the_answer_ends_and_the_engine_lives(client: EngineClient, model: Path, harm: Callable[[Path], None]) -> None:
    whole = model.read_bytes()
    client.load(str(model), LoadOptions(threads=2))
    before = client.answer("Hello", max_tokens=4)
    harm(model)
    for _ in range(2):
        with pytest.raises(ReportedError, match=r"m\.gguf was c.* while in use"):
            client.answer("Hello again", max_tokens=4)
    model.write_bytes(whole)
    client.load(str(model), LoadOptions(threads=2))
    assert client.answer("Hello", max_tokens=4) == before
