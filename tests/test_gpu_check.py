"""`make gpu-check` over the stand-in driver, with tiny models in this process: what it measures, writes and says."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from engine.benchmark.contestant import Setup
from engine.benchmark.native_answerer import NativeAnswerer
from engine.benchmark.native_contestant import NativeContestant
from engine.errors import EngineError
from engine.placement.hardware.card import with_datasheet
from engine.placement.hardware.catalogue import machine
from engine.placement.hardware.profile import HardwareProfile
from engine.runtime.devices.cuda.find import FoundCard, find_card
from kernels.cuda.host import library_path
from tests import gpu_check
from tests.support.logit_bounds import Bounds
from tests.support.stand_in_card import charged, no_compiler, set_card
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
MODEL = TinyModel("qwen3moe", "Q8_0", layers=1, feed_forward=256, experts=4)


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FoundCard]:
    set_card()
    found = find_card(library_path())
    monkeypatch.setattr("engine.runtime.devices.open.find_card", lambda: found)
    monkeypatch.setattr("engine.runtime.devices.open.cache_folder", lambda: tmp_path)
    monkeypatch.setattr(gpu_check, "TINY", (MODEL,))
    with no_compiler():
        yield found
    assert charged() == 0


def options(folder: Path, *more: str) -> argparse.Namespace:
    small = ["--rounds", "1", "--prompt", "12", "--decode", "3", "--threads", "1", "--folder", str(folder)]
    return gpu_check.arguments().parse_args([*small, *more])


def here(system: str, setup: Setup, role: str) -> Any:
    """Our own engine in this process; the peer as a double that never computes."""
    if system == "tessera":
        return NativeContestant(setup) if role == "steps" else NativeAnswerer(setup)
    return Peer(setup)


def no_compiling(capability: int, threads: int) -> float:
    return 0.0


def machine_of(card: FoundCard) -> Callable[[], HardwareProfile]:
    assert card.facts is not None
    return lambda: replace(with_datasheet(machine("Ryzen 7 5800X"), card.facts), card_measured=("some",))


class Peer:
    layers: ClassVar[list[int]] = []

    def __init__(self, setup: Setup) -> None:
        self.layers.append(setup.gpu_layers)

    def prefill(self, tokens: int) -> float:
        return tokens / 100

    def fill(self, depth: int) -> None:
        """Nothing."""

    def decode(self, tokens: int) -> float:
        if self.layers[-1] == 3:
            raise EngineError("The peer gave up.")
        return tokens / 10

    def first_token(self) -> float:
        return 0.5

    def close(self) -> None:
        """Nothing."""


def test_a_table_with_all_shares(card: FoundCard, tiny_models: Write, tmp_path: Path, capsys: Any) -> None:
    path = str(tiny_models(MODEL))
    Peer.layers = []
    code = gpu_check.check(
        options(tmp_path, path), card, here, lambda _: "12 passed in 1s", lambda _: 2, no_compiling, machine_of(card)
    )
    report = (tmp_path / "gpu-check.md").read_text()
    assert code == 0, report
    found = json.loads((tmp_path / "gpu-check.json").read_text())
    assert found["kernels"] == "12 passed in 1s" and found["numbers"] == [] and found["card"]["name"] == "Stand-in"
    ours = [row for row in found["rows"] if row["system"] == "tessera"]
    assert [row["share"] for row in ours] == list(gpu_check.SHARES)
    assert all(row["prefill"] > 0 and row["decode"] > 0 and row["ttft"] > 0 and row["start"] > 0 for row in ours)
    budgets = [row["budget"] for row in ours]
    assert budgets == sorted(budgets) and Peer.layers[::2] == [0, 1, 2, 2]
    assert all(min(row["predicted"]) > 0 for row in ours) and report.count(" predicted)") == 8
    assert "Memory 296 GB/s" in report and found["machine"]["card_measured"] == ["some"]
    assert "| llama.cpp | 100.0 | 10.0 | 220 | 0.50 |" in report and report.count("| tessera |") == 4
    assert report.strip() in capsys.readouterr().out


def test_what_fails_is_in_the_table_and_the_exit_code(card: FoundCard, tiny_models: Write, tmp_path: Path) -> None:
    path = str(tiny_models(MODEL))
    set_card(total=1 << 30)
    arguments = options(tmp_path, path)
    assert (
        gpu_check.check(
            arguments, card, here, lambda _: "FAILED, 1 failed", lambda _: 0, no_compiling, machine_of(card)
        )
        == 1
    )
    assert "Kernel tests: FAILED, 1 failed." in (tmp_path / "gpu-check.md").read_text()
    rows = list(gpu_check.measure(path, arguments, here, 3, room=0))
    assert {row.problem for row in rows if row.system == "tessera"} == {"more than the card has"}
    assert [row.problem for row in rows if row.system == "llama.cpp"][-1] == "The peer gave up."


def test_what_breaks_off_leaves_the_rest(card: FoundCard, tiny_models: Write, tmp_path: Path, monkeypatch: Any) -> None:
    """Compiling, the tests, the logits, the probe and one of two models raise; the other model is measured."""

    def fails(*_: object) -> Any:
        raise RuntimeError("the card fell off")

    monkeypatch.setattr(gpu_check, "check_numbers", fails)
    arguments = options(tmp_path, str(tmp_path / "missing.gguf"), str(tiny_models(MODEL)))
    assert gpu_check.check(arguments, card, here, fails, lambda _: 0, fails, fails) == 1
    report, found = (tmp_path / "gpu-check.md").read_text(), json.loads((tmp_path / "gpu-check.json").read_text())
    parts = [problem.partition(":")[0] for problem in found["problems"]]
    assert parts == ["Compiling", "Kernel tests", "Logits", "The probe", "missing"]
    assert all(problem in report for problem in found["problems"]) and report.count("the card fell off") == 4
    assert [row["share"] for row in found["rows"] if row["decode"] > 0] == list(gpu_check.SHARES)


def test_a_table_after_each_budget(card: FoundCard, tiny_models: Write, tmp_path: Path) -> None:
    """Whoever pulls the plug at the third budget has two rows in both files."""
    budgets: list[Any] = []

    def pulled(system: str, setup: Setup, role: str) -> Any:
        budgets.append(setup.device)
        if len(set(budgets)) == 3:
            raise KeyboardInterrupt
        return here(system, setup, role)

    arguments = options(tmp_path, str(tiny_models(MODEL)))
    with pytest.raises(KeyboardInterrupt):
        gpu_check.check(arguments, card, pulled, lambda _: "3 passed", lambda _: 0, no_compiling, machine_of(card))
    assert (tmp_path / "gpu-check.md").read_text().count("| tessera |") == 2
    assert len(json.loads((tmp_path / "gpu-check.json").read_text())["rows"]) == 2


def test_it_is_prepared_without_a_card(tmp_path: Path, capsys: Any) -> None:
    asked: list[int] = []
    compiler = lambda capability, threads: asked.append(capability) or 2.0  # noqa: E731
    assert gpu_check.check(options(tmp_path, "--prepare", "89"), FoundCard(reason="None."), compiler=compiler) == 0
    assert asked == [89] and "kernels for sm_89 compiled in 2 s" in capsys.readouterr().out


def test_the_time_is_kept(card: FoundCard, tiny_models: Write, tmp_path: Path) -> None:
    arguments = options(tmp_path, str(tiny_models(MODEL)), "--minutes", "0.001")
    given: list[float | None] = []
    tests = lambda patience: given.append(patience) or "3 passed"  # noqa: E731
    assert gpu_check.check(arguments, card, here, tests, lambda _: 2, no_compiling, machine_of(card)) == 1
    assert given[0] is not None and given[0] <= 0.03
    assert (tmp_path / "gpu-check.md").read_text().count("the time was up") == 8


def test_kernel_tests_that_take_too_long_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check, "KERNEL_TESTS", ("-c", "import time; time.sleep(60)"))
    assert gpu_check.run_kernel_tests(0.2) == "FAILED, not done after 0 s"
    monkeypatch.setattr(gpu_check, "KERNEL_TESTS", ("-c", "print('7 passed')"))
    assert gpu_check.run_kernel_tests() == "7 passed"


def test_wrong_numbers_are_named(card: FoundCard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_check.NativeModel, "logits", lambda self, tokens: 0.0)
    monkeypatch.setattr(gpu_check, "bounds", lambda *_: Bounds(1e-9, 1e-9, 0.0, 0.0))
    (problem,) = gpu_check.check_numbers(tmp_path)
    assert problem.startswith("qwen3moe: rms ")


def test_without_a_card_it_says_so(tmp_path: Path, capsys: Any) -> None:
    missing = FoundCard(reason="There is no NVIDIA driver.", remedy="With an NVIDIA GPU, install it from nvidia.com.")
    assert gpu_check.check(options(tmp_path), missing) == 1
    said = capsys.readouterr().err
    assert said == f"No NVIDIA GPU was checked. {missing.reason} {missing.remedy}\n"
    assert not list(tmp_path.iterdir())
