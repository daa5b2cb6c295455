"""An answer over the cuda device, its budget changed meanwhile; the card is the stand-in driver's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.client import EngineClient
from engine.messages import Generate, GenerationFinished, LoadOptions, PlacementChanged, SetBudget, TokenEvent
from engine.runtime.devices.cuda.find import find_card
from kernels.cuda.host import library_path
from tests.engine.test_budget import request, text_of, until
from tests.support.stand_in_card import charged, no_compiler, set_card
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
MODEL = TinyModel("qwen3moe", layers=1, feed_forward=256, experts=4)
PLENTY = 1 << 30
TOKENS = 8


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineClient]:
    set_card()
    monkeypatch.setattr("engine.runtime.devices.open.find_card", lambda: find_card(library_path()))
    monkeypatch.setattr("engine.runtime.devices.open.cache_folder", lambda: tmp_path)
    with no_compiler(), EngineClient() as client:
        yield client
    assert charged() == 0


@pytest.mark.parametrize("kind", ["cuda", "auto"])
def test_an_answer_while_the_budget_changes(client: EngineClient, tiny_models: Write, kind: str) -> None:
    path = str(tiny_models(MODEL))
    client.load(path, LoadOptions(context_length=64, threads=1))
    expected = text_of(list(client.stream(request("cpu", TOKENS))))
    info = client.load(path, LoadOptions(context_length=64, threads=1, device=kind, gpu_budget=PLENTY))
    assert info.device == "Stand-in" and charged() > 0
    client.send(Generate(request("moving", TOKENS)))
    events = []
    for budget in (0, PLENTY):
        events += until(client, TokenEvent)
        client.send(SetBudget(budget))
        residency = None
        while residency is None or residency.budget_bytes != budget:
            events += until(client, PlacementChanged)
            residency = events[-1].residency
        assert (residency.used_bytes == 0) == (budget == 0) and residency.used_bytes <= budget
    if not any(isinstance(event, GenerationFinished) for event in events):
        events += until(client, GenerationFinished)
    assert text_of(events) == expected
