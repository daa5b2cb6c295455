"""Keys and values in 8 bits, from the option to the answer: half the memory, wherever the layers lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.client import EngineClient
from engine.gguf import GGUFFile
from engine.messages import (
    Event,
    Generate,
    GenerationFinished,
    LoadOptions,
    PlacementChanged,
    SetBudget,
    TokenEvent,
)
from engine.placement.shape import ModelShape
from engine.placement.state import VALUE_BYTES
from tests.support.engine_events import greedy, ram_of, text_of, until
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
MODEL = TinyModel("qwen3moe", layers=3)
ODD = TinyModel("llama", head_dim=48)  # of which a block of 32 is no part
PLENTY = 64 << 20


def test_they_take_17_of_32_parts(client: EngineClient, tiny_models: Write) -> None:
    held = {}
    for kv_type in VALUE_BYTES:
        options = LoadOptions(context_length=512, threads=1, kv_type=kv_type)
        assert client.load(str(tiny_models(MODEL)), options).kv_type == kv_type
        held[kv_type] = ram_of(client).state
        assert text_of(list(client.stream(greedy(kv_type))))
    assert held["q8_0"] * 32 == held["f16"] * 17


def test_heads_that_do_not_fit_8_bits_are_kept_in_16(client: EngineClient, tiny_models: Write) -> None:
    info = client.load(str(tiny_models(ODD)), LoadOptions(context_length=256, threads=1, kv_type="q8_0"))
    assert info.kv_type == "f16"
    with GGUFFile.open(tiny_models(ODD)) as gguf:
        assert ModelShape.from_gguf(gguf).value_bytes("q8_0") == VALUE_BYTES["f16"]  # as plans count them
    assert any("heads of 48 numbers do not fit 8 bits" in warning for warning in info.warnings)
    assert text_of(list(client.stream(greedy("odd"))))


def test_they_move_with_their_layers(client: EngineClient, tiny_models: Write) -> None:
    path = str(tiny_models(MODEL))
    client.load(path, LoadOptions(context_length=256, threads=1, kv_type="q8_0"))
    expected = text_of(list(client.stream(greedy("cpu"))))
    options = LoadOptions(context_length=256, threads=1, kv_type="q8_0", device="emulated", gpu_budget=PLENTY)
    assert client.load(path, options).kv_type == "q8_0"
    client.send(Generate(greedy("moving")))
    events: list[Event] = []
    for budget in (0, PLENTY, 0, PLENTY):
        events += until(client, TokenEvent)
        client.send(SetBudget(budget))
        events += until(client, PlacementChanged)
    if not any(isinstance(event, GenerationFinished) for event in events):
        events += until(client, GenerationFinished)
    assert text_of(events) == expected


@pytest.mark.parametrize("model", [MODEL, ODD])
def test_the_compatibility_engine_keeps_them_so_too(client: EngineClient, tiny_models: Write, model: TinyModel) -> None:
    options = LoadOptions(context_length=256, threads=1, kv_type="q8_0", engine="compatibility")
    assert client.load(str(tiny_models(model)), options).kv_type == ("q8_0" if model is MODEL else "f16")
    assert text_of(list(client.stream(greedy("compatible"))))
