"""What is told of the device is what is there: at every step, byte for byte, while budgets change at random."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

from engine.messages import Event, GenerationFinished, GenerationRequest, LoadOptions, PlacementChanged, SamplingParams
from engine.native import NativeBackend
from engine.native_loading import load_native
from tests.support.tiny_models import TinyModel

BUDGETS = (0, 24 << 20, 30 << 20, 36 << 20, 512 << 20)


def check(backend: NativeBackend) -> None:
    assert backend.control is not None
    told, executor = backend.residency(), backend.control.executor
    residency, weights, memory = executor.residency, executor.weights, executor.device.memory
    assert told is not None
    assert told.used_bytes == memory.used <= told.budget_bytes == memory.limit
    assert {item.name for item in told.items if item.on_device} == set(residency.items)
    for item in residency.items:
        for name, there in residency.item_weights(item).items():
            assert np.array_equal(there, np.frombuffer(weights.buffer(name), np.uint8)), name
    for bank in told.banks:
        found = residency.banks.get(bank.name)
        experts = found.table.experts if found is not None else np.empty(0, np.int32)
        assert set(bank.residents) == set(experts[experts >= 0].tolist())
        assert bank.slots == len(experts)
        if found is None:
            continue
        for name, region in found.regions.items():
            size, file = found.expert_bytes[name], np.frombuffer(weights.buffer(name), np.uint8)
            for slot, expert in enumerate(experts.tolist()):
                if expert >= 0:
                    there = region.view(slot * size, (slot + 1) * size)
                    assert np.array_equal(there, file[expert * size : (expert + 1) * size]), (name, expert)


def test_at_every_step(tiny_models: Callable[[TinyModel], Path], soak: bool) -> None:
    events: list[Event] = []
    options = LoadOptions(context_length=256, threads=1, device="emulated", gpu_budget=BUDGETS[-1])
    path = tiny_models(TinyModel("qwen3moe", layers=3))
    backend = load_native(path, options, events.append, lambda _fraction, _stage: None)
    random, answers = Random(5), 0
    for _ in range(4000 if soak else 250):
        if random.random() < 0.1:
            backend.set_budget(random.choice(BUDGETS))
        if not backend.session.sequences:
            answers += 1
            prompt = f"{answers} two three four"
            request = GenerationRequest(prompt, (), SamplingParams(temperature=0.0), max_tokens=12, raw_prompt=prompt)
            backend.generate(request, 0.0)
        backend.step(lambda: False)
        check(backend)
    backend.close()
    assert sum(isinstance(event, PlacementChanged) for event in events) >= 10
    ended = [event for event in events if isinstance(event, GenerationFinished)]
    assert len(ended) >= 5 and all(event.error is None for event in ended)
