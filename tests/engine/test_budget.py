"""SetBudget while an answer is written: the words stay the same, the memory follows, refusals have a reason."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.client import EngineClient
from engine.errors import ReportedError
from engine.messages import (
    AskResidency,
    AskTimeline,
    Event,
    Generate,
    GenerationFinished,
    LoadOptions,
    MigrationProgress,
    ModelUnloaded,
    Notice,
    PlacementChanged,
    PlacementRolledBack,
    ResidencyTold,
    SetBudget,
    SetPins,
    TimelineTold,
    TokenEvent,
    UnloadModel,
)
from engine.placement.pins import Pin
from engine.runtime.devices.cuda.find import FoundCard
from tests.support.engine_events import greedy, residency_of, text_of, the_next, until
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
MODEL = TinyModel("qwen3moe", layers=3)
PLENTY = 512 << 20
SOME = 24 << 20  # more than workspace and staging, less than the model


def load(client: EngineClient, path: Path, budget: int) -> str:
    info = client.load(str(path), LoadOptions(context_length=256, threads=1, device="emulated", gpu_budget=budget))
    return info.device


def test_budgets_change_while_an_answer_is_written(client: EngineClient, tiny_models: Write) -> None:
    path = tiny_models(MODEL)
    client.load(str(path), LoadOptions(context_length=256, threads=1))
    expected = text_of(list(client.stream(greedy("cpu"))))
    assert load(client, path, PLENTY) == "emulated (fast kernels)"
    client.send(Generate(greedy("moving")))
    events: list[Event] = []
    for budget in (0, PLENTY, SOME, 0, SOME):
        events += until(client, TokenEvent)
        client.send(SetBudget(budget))
        residency = None
        while residency is None or residency.budget_bytes != budget:
            events += until(client, PlacementChanged)
            residency = events[-1].residency
        assert residency.used_bytes <= budget
        assert (residency.used_bytes == 0) == (budget == 0)
    if not any(isinstance(event, GenerationFinished) for event in events):
        events += until(client, GenerationFinished)
    assert text_of(events) == expected
    assert any(isinstance(event, MigrationProgress) for event in events)


def test_a_device_may_be_named_with_its_memory(client: EngineClient, tiny_models: Write) -> None:
    path = tiny_models(MODEL)
    for options, budget in (({}, 64 << 20), ({"gpu_budget": 32 << 20}, 32 << 20)):
        chosen = LoadOptions(context_length=256, threads=1, device="emulated:64MiB", **options)
        assert client.load(str(path), chosen).device == "emulated (fast kernels)"
        residency = residency_of(client)
        assert residency.budget_bytes == budget
    with pytest.raises(ReportedError, match="no device called “gpu”"):
        client.load(str(path), LoadOptions(device="gpu:1GiB"))


def test_residency_is_read_back(client: EngineClient, tiny_models: Write) -> None:
    path = tiny_models(MODEL)
    load(client, path, PLENTY)
    list(client.stream(greedy("a")))
    residency = residency_of(client)
    assert {i.name for i in residency.items if not i.on_device} == {"embedding"}
    assert all(bank.slots == bank.count == len(bank.residents) for bank in residency.banks)
    held = sum(i.weight_bytes + i.state_bytes for i in residency.items if i.on_device)
    held += sum(bank.slots * bank.expert_bytes for bank in residency.banks)
    assert held <= residency.used_bytes <= residency.budget_bytes
    assert residency.measured_decode is not None and residency.predicted_decode is not None


def test_the_time_of_the_cpu_moves_nothing_off_an_emulated_device(
    client: EngineClient, tiny_models: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps take far longer than those of the card that it plays, which says nothing of a plan for that card."""
    monkeypatch.setattr("engine.runtime.pace.REPLAN_SHARE", float("inf"))
    load(client, tiny_models(MODEL), PLENTY)
    events = list(client.stream(greedy("slow")))
    assert not any(isinstance(event, PlacementChanged | MigrationProgress) for event in events)
    residency = residency_of(client)
    assert residency.used_bytes > 0 and residency.pace == ()
    assert residency.measured_decode is not None and residency.predicted_decode is not None
    assert residency.measured_decode < residency.predicted_decode / 2


def test_a_budget_that_fails_is_rolled_back_with_a_reason(client: EngineClient, tiny_models: Write) -> None:
    client.send(SetBudget(SOME))
    refusal = the_next(client, PlacementRolledBack)
    assert refusal.error.cause == "No model is loaded."
    load(client, tiny_models(MODEL), SOME)
    client.send(SetBudget(-1))
    refusal = the_next(client, PlacementRolledBack)
    assert refusal.residency.budget_bytes == SOME
    assert list(client.stream(greedy("a", 4)))[-1].error is None  # type: ignore[union-attr]


def test_a_device_that_is_not_there(client: EngineClient, tiny_models: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = FoundCard(reason="There is no NVIDIA driver.")
    monkeypatch.setattr("engine.runtime.devices.open.find_card", lambda: missing)
    for engine in ("native", "auto"):
        with pytest.raises(ReportedError, match=r"no NVIDIA driver.*run it on the processor"):
            client.load(str(tiny_models(MODEL)), LoadOptions(device="cuda", engine=engine))


def test_pinned_experts_come_and_stay(client: EngineClient, tiny_models: Write) -> None:
    load(client, tiny_models(MODEL), 36 << 20)
    residency = residency_of(client)
    bank = next(bank for bank in residency.banks if 0 < bank.slots < bank.count)
    outside = next(expert for expert in range(bank.count) if expert not in bank.residents)
    inside = bank.residents[0]
    client.send(SetPins(frozenset({Pin(bank.name, outside, True), Pin(bank.name, inside, False)})))
    until(client, PlacementChanged)
    for number in range(20):
        list(client.stream(greedy(f"{number}", 20, f"{number} two three")))
        residency = residency_of(client)
        now = next(found for found in residency.banks if found.name == bank.name).residents
        if outside in now and inside not in now:
            break
    assert outside in now and inside not in now


def test_pins_without_room_are_refused_and_the_rest_stays(client: EngineClient, tiny_models: Write) -> None:
    load(client, tiny_models(MODEL), SOME)
    client.send(SetPins(frozenset(Pin("blk.0.experts", expert, True) for expert in range(8))))
    refused = the_next(client, PlacementRolledBack)
    assert refused.error.kind == "PinError"
    assert "more than a budget" in refused.error.cause
    finished = list(client.stream(greedy("after", 4)))[-1]
    assert isinstance(finished, GenerationFinished) and finished.error is None


def test_pins_outlive_the_model(client: EngineClient, tiny_models: Write, tmp_path: Path) -> None:
    options = LoadOptions(
        context_length=256, threads=1, device="emulated", gpu_budget=36 << 20, pins_folder=str(tmp_path / "pins")
    )
    pins = frozenset({Pin("blk.0.experts", 3, True), Pin("blk.1.attn", -1, False)})
    path = str(tiny_models(MODEL))
    client.load(path, options)
    client.send(SetPins(pins))
    until(client, PlacementChanged)
    client.unload()
    client.load(path, options)
    residency = residency_of(client)
    assert residency.pins == pins
    assert "blk.1.attn" in {item.name for item in residency.items if not item.on_device}
    client.load(path, replace(options, gpu_budget=SOME))  # no room for them: loaded all the same
    residency_of(client)
    client.send(SetPins(frozenset(Pin("blk.0.experts", expert, True) for expert in range(8))))
    refused = the_next(client, PlacementRolledBack)
    assert refused.residency.pins in (pins, frozenset())


def timeline(client: EngineClient) -> TimelineTold:
    client.send(AskTimeline())
    return the_next(client, TimelineTold)


def test_steps_are_watched_once_they_are_asked_for(client: EngineClient, tiny_models: Write) -> None:
    load(client, tiny_models(MODEL), SOME)
    list(client.stream(greedy("unwatched", 4)))
    assert timeline(client) == TimelineTold()
    told = TimelineTold()
    for number in range(20):
        prompt = f"{number} nine ten eleven twelve thirteen"
        list(client.stream(greedy(f"watched {number}", 4, prompt)))
        told = timeline(client)
        if told.decode and told.prefill:
            break
    for spans in (told.decode, told.prefill):
        assert {"CPU", "GPU", "link"} == {span.lane for span in spans}
        assert all(span.begin <= span.end for span in spans)
    client.send(SetBudget(PLENTY))
    until(client, PlacementChanged)
    assert timeline(client) == TimelineTold()  # of another placement


def test_on_the_processor_alone_there_is_no_budget(client: EngineClient, tiny_models: Write) -> None:
    client.load(str(tiny_models(MODEL)), LoadOptions(threads=1))
    client.send(SetBudget(SOME))
    the_next(client, PlacementRolledBack)
    client.send(AskResidency())
    assert the_next(client, ResidencyTold).residency is None


@pytest.mark.parametrize("device", ["cpu", "emulated"])
def test_a_trace_is_written_when_the_model_goes(
    client: EngineClient, tiny_models: Write, tmp_path: Path, device: str
) -> None:
    trace = tmp_path / "trace.json"
    options = LoadOptions(context_length=256, threads=1, device=device, gpu_budget=PLENTY, trace=str(trace))
    client.load(str(tiny_models(MODEL)), options)
    list(client.stream(greedy("a", 4)))
    client.unload()
    lanes = {event["cat"] for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"}
    assert lanes == ({"CPU"} if device == "cpu" else {"CPU", "GPU", "link"})


@pytest.mark.parametrize("device", ["cpu", "emulated"])
def test_a_trace_that_finds_no_place_in_the_end_costs_nothing_else(
    client: EngineClient, tiny_models: Write, tmp_path: Path, device: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    options = LoadOptions(context_length=256, threads=1, device=device, trace=str(folder / "trace.json"))
    client.load(str(tiny_models(MODEL)), options)
    list(client.stream(greedy("a", 2)))
    shutil.rmtree(folder)
    client.send(UnloadModel())
    *_, notice, unloaded = until(client, ModelUnloaded)
    assert isinstance(notice, Notice) and "No trace can be written" in notice.text and notice.remedy
    assert isinstance(unloaded, ModelUnloaded)
    client.load(str(tiny_models(MODEL)), replace(options, trace=None))
    assert list(client.stream(greedy("b", 2)))[-1].error is None
