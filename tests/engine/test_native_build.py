"""Kernels that are missing, broken or of another version are known before anything uses them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from engine import native_build
from engine.native_build import NativeBuildError, check_native_build, missing_names
from kernels import _cpu

STUB = """
Choice = str
TABLE: dict[int, str]
def add(a: int) -> int: ...
class Program:
    def run(self) -> None: ...
    @property
    def size(self) -> int: ...
"""


def test_this_build_fits_its_source() -> None:
    check_native_build()
    assert missing_names(_cpu, native_build.STUB.read_text(encoding="utf-8")) == []


def test_what_a_build_lacks_is_named() -> None:
    complete = SimpleNamespace(TABLE={}, add=abs, Program=type("Program", (), {"run": 0, "size": 0}))
    assert missing_names(complete, STUB) == []
    older = SimpleNamespace(TABLE={}, Program=type("Program", (), {"run": 0}))
    assert missing_names(older, STUB) == ["add", "Program.size"]
    assert missing_names(SimpleNamespace(TABLE={}, add=abs), STUB) == ["Program"]


@pytest.mark.parametrize(("bundled", "remedy"), [(False, "make run"), (True, "Install Tessera again")])
def test_a_missing_build_says_what_to_do(monkeypatch: pytest.MonkeyPatch, bundled: bool, remedy: str) -> None:
    monkeypatch.setattr(native_build, "MODULE", "kernels._gone")
    monkeypatch.setattr(native_build, "is_bundled", lambda: bundled)
    with pytest.raises(NativeBuildError, match="cannot be loaded") as caught:
        check_native_build()
    assert remedy in caught.value.remedy


def test_an_older_build_is_told_by_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_build, "missing_names", lambda *_: ["a", "b", "c", "d"])
    with pytest.raises(NativeBuildError, match=r"older than its source: they lack a, b, c …\."):
        check_native_build()
