"""An answer over the cuda device, its budget changed meanwhile; the card is the stand-in driver's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.client import EngineClient
from engine.messages import (
    ErrorInfo,
    Event,
    Generate,
    GenerationFinished,
    LoadOptions,
    PlacementChanged,
    SetBudget,
    TokenEvent,
)
from engine.runtime.devices.cuda.find import find_card
from kernels.cuda.host import library_path
from tests.support.engine_events import greedy, text_of, until
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


class LosableLibrary:
    """The stand-in's functions, all of which fail while the card is lost, as an illegal address makes them."""

    def __init__(self, native: Any) -> None:
        self._native, self.is_lost = native, False

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._native, name)
        if name == "cuGetErrorString":
            return function
        return lambda *args: 719 if self.is_lost else function(*args)


def answer_of(client: EngineClient, name: str) -> tuple[str, ErrorInfo | None]:
    events: list[Event] = []
    client.send(Generate(greedy(name, TOKENS)))
    events += until(client, GenerationFinished)
    return text_of(events), events[-1].error


def test_a_card_that_fails_ends_the_answer_and_nothing_else(
    client: EngineClient, tiny_models: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told as such; the next answer is right where it was for once, and another load where the card is lost."""
    path = str(tiny_models(MODEL))
    driver = find_card(library_path()).driver
    assert driver is not None
    library = LosableLibrary(driver.library)
    monkeypatch.setattr(driver, "library", library)
    on_cpu = LoadOptions(context_length=64, threads=1)
    on_card = LoadOptions(context_length=64, threads=1, device="cuda", gpu_budget=PLENTY)
    client.load(path, on_cpu)
    expected = answer_of(client, "well")
    for is_back in (True, False):
        assert client.load(path, on_card).device
        library.is_lost = True
        said, error = answer_of(client, "lost")
        assert said == "" and error is not None and error.kind == "DeviceFailedError"
        assert error.cause.startswith("The GPU failed in the middle of a step: ") and error.done and error.remedy
        library.is_lost = not is_back
        if is_back:
            assert answer_of(client, "again") == expected
    assert not client.load(path, on_cpu).device and answer_of(client, "without") == expected
    library.is_lost = False
    set_card()  # what the lost context held went with it


@pytest.mark.parametrize("kind", ["cuda", "auto"])
def test_an_answer_while_the_budget_changes(client: EngineClient, tiny_models: Write, kind: str) -> None:
    path = str(tiny_models(MODEL))
    client.load(path, LoadOptions(context_length=64, threads=1))
    expected = text_of(list(client.stream(greedy("cpu", TOKENS))))
    info = client.load(path, LoadOptions(context_length=64, threads=1, device=kind, gpu_budget=PLENTY))
    assert info.device == "Stand-in" and charged() > 0
    client.send(Generate(greedy("moving", TOKENS)))
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
