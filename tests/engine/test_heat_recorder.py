"""The use of experts outlives the process: the next start begins with those that were used most."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.client import EngineClient
from engine.messages import (
    AskResidency,
    GenerationFinished,
    GenerationRequest,
    LoadOptions,
    ResidencyTold,
    SamplingParams,
)
from engine.placement.heat import FEWEST_TOKENS
from engine.telemetry.residency import ResidencySnapshot
from tests.support.tiny_models import TinyModel

GREEDY = SamplingParams(temperature=0.0)
BUDGET = 36 << 20  # of a device that holds some of the experts


def run(path: Path, folder: Path, words: int) -> tuple[ResidencySnapshot, ResidencySnapshot]:
    """What lay where after loading, and after so many words were read."""
    options = LoadOptions(context_length=1024, threads=1, device="emulated", gpu_budget=BUDGET, heat_folder=str(folder))
    with EngineClient() as client:
        client.load(str(path), options)
        before = residency(client)
        request = GenerationRequest("a", (), GREEDY, max_tokens=2, raw_prompt="Once upon a time " * (words // 8))
        finished = list(client.stream(request))[-1]
        assert isinstance(finished, GenerationFinished) and finished.error is None and finished.stats is not None
        assert words < 100 or finished.stats.prompt_tokens > FEWEST_TOKENS
        return before, residency(client)


def residency(client: EngineClient) -> ResidencySnapshot:
    client.send(AskResidency())
    while not isinstance(event := client.next_event(timeout=60), ResidencyTold):
        pass
    assert event.residency is not None
    return event.residency


def test_the_next_start_begins_with_what_was_used_most(
    tiny_models: Callable[[TinyModel], Path], tmp_path: Path
) -> None:
    path, folder = tiny_models(TinyModel("qwen3moe", layers=3)), tmp_path / "heat"
    first, used = run(path, folder, 320)
    assert not any(any(bank.heat) for bank in first.banks)
    assert len(list(folder.glob("*.json"))) == 1
    second, _ = run(path, folder, 8)
    partly = [bank for bank in second.banks if 0 < bank.slots < bank.count]
    assert partly, "the budget holds all or none of the experts"
    for bank in partly:
        assert any(bank.heat)
        coldest_there = min(bank.heat[expert] for expert in bank.residents)
        hottest_elsewhere = max(h for expert, h in enumerate(bank.heat) if expert not in bank.residents)
        assert coldest_there >= hottest_elsewhere
    assert used.promoted >= 0


def test_nothing_is_kept_where_nobody_asks_for_it(tiny_models: Callable[[TinyModel], Path], tmp_path: Path) -> None:
    with EngineClient() as client:
        path = tiny_models(TinyModel("qwen3moe", layers=3))
        client.load(str(path), LoadOptions(threads=1, device="emulated", gpu_budget=BUDGET))
        list(client.stream(GenerationRequest("a", (), GREEDY, max_tokens=4, raw_prompt="Once")))
    assert not list(tmp_path.rglob("*.json"))


def test_a_disk_that_refuses_costs_the_record_alone(
    tiny_models: Callable[[TinyModel], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "heat").write_text("a file where the folder should be")
    _, after = run(tiny_models(TinyModel("qwen3moe", layers=3)), tmp_path / "heat", 8)
    assert any(any(bank.heat) for bank in after.banks)
