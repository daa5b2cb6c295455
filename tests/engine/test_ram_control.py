"""A RAM budget binds what runs: refused with what would fit, kept by giving up what can be spared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine import ram_control
from engine.client import EngineClient
from engine.engine import Engine
from engine.errors import ReportedError
from engine.memory.available import resident_memory
from engine.memory.kv_pool import KVPool
from engine.messages import (
    GenerationFinished,
    LoadOptions,
    PlacementRolledBack,
    RamBudgetTold,
    SetBudget,
    SetRamBudget,
)
from engine.models.graph import KVLayer
from engine.telemetry.residency import RamUse
from tests.support.engine_events import greedy, ram_of, the_next
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
MODEL = TinyModel("qwen3moe", layers=3)
GiB, MiB = 1 << 30, 1 << 20


def set_ram(client: EngineClient, budget: int | None) -> RamBudgetTold:
    client.send(SetRamBudget(budget))
    return the_next(client, RamBudgetTold)


def answer(client: EngineClient, words: str = "One two three four") -> GenerationFinished:
    finished = list(client.stream(greedy(words, 8, words)))[-1]
    assert isinstance(finished, GenerationFinished)
    return finished


def test_it_counts_weights_caches_and_scratch(client: EngineClient, tiny_models: Write) -> None:
    path = tiny_models(MODEL)
    client.load(str(path), LoadOptions(context_length=256, threads=1))
    ram = ram_of(client)
    assert 0 < ram.weights <= path.stat().st_size
    assert ram.limit is None and ram.used_state == ram.kept_state == 0 < ram.state
    answer(client)
    assert 0 < ram_of(client).kept_state <= ram_of(client).used_state <= ram.state
    client.load(str(path), LoadOptions(context_length=1024, threads=1))
    assert ram_of(client).state > 2 * ram.state


def test_the_page_cache_is_looked_at_now_and_then_however_often_is_asked(
    client: EngineClient, tiny_models: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    now = 1e9
    monkeypatch.setattr(ram_control.PageWatch, "look", lambda _self: looks.append(now))
    monkeypatch.setattr(ram_control, "time", SimpleNamespace(monotonic=lambda: now))
    client.load(str(tiny_models(MODEL)), LoadOptions(context_length=256, threads=1))
    for _ in range(12):
        assert ram_of(client).weights
        now += 0.0625
    assert looks == [1e9, 1e9 + 0.25, 1e9 + 0.5]


def test_a_budget_that_is_too_small_is_refused_with_what_would_fit(client: EngineClient, tiny_models: Write) -> None:
    client.load(str(tiny_models(MODEL)), LoadOptions(context_length=4096, threads=1))
    needed = ram_of(client).total
    refused = set_ram(client, needed - MiB)
    assert refused.error is not None and refused.error.kind == "ModelDoesNotFitError"
    assert "of RAM" in refused.error.cause
    assert "a context of 3" in refused.error.remedy and "a budget of" in refused.error.remedy
    assert refused.ram is not None and refused.ram.limit is None and refused.ram.total == needed
    assert answer(client).error is None
    accepted = set_ram(client, needed)
    assert accepted.error is None and accepted.ram is not None and accepted.ram.limit == needed
    assert set_ram(client, MiB).ram == accepted.ram
    assert ram_of(client).limit == needed


def test_a_model_that_needs_more_is_not_loaded(client: EngineClient, tiny_models: Write) -> None:
    path, options = tiny_models(MODEL), LoadOptions(context_length=4096, threads=1)
    client.load(str(path), options)
    needed = ram_of(client).total
    for device in ("cpu", "emulated"):
        tight = replace(options, device=device, ram_budget=needed - MiB, gpu_budget=0)
        with pytest.raises(ReportedError, match=r"of RAM.*may be used.*This would fit") as caught:
            client.load(str(path), tight)
        assert caught.value.kind == "ModelDoesNotFitError"
    assert answer(client).error is None  # the one before still runs
    client.load(str(path), LoadOptions(context_length=4096, threads=1, ram_budget=needed))
    assert ram_of(client).limit == needed


def test_a_context_that_nobody_chose_keeps_within_it(client: EngineClient, tiny_models: Write) -> None:
    path = tiny_models(MODEL)
    whole = client.load(str(path), LoadOptions(threads=1))
    ram = ram_of(client)
    budget = ram.total - ram.state // 2
    info = client.load(str(path), LoadOptions(threads=1, ram_budget=budget))
    assert 512 <= info.context_length < whole.context_length
    assert any("to keep within the RAM budget" in warning for warning in info.warnings)
    assert ram_of(client).total <= budget


def test_on_two_devices_a_smaller_gpu_budget_needs_room_in_ram(client: EngineClient, tiny_models: Write) -> None:
    options = LoadOptions(context_length=4096, threads=1, device="emulated", gpu_budget=512 * MiB)
    client.load(str(tiny_models(MODEL)), options)
    there = ram_of(client)
    assert set_ram(client, there.total).error is None
    client.send(SetBudget(0))
    refused = the_next(client, PlacementRolledBack)
    assert refused.error.kind == "ModelDoesNotFitError"
    assert refused.residency.budget_bytes == 512 * MiB
    assert ram_of(client) == RamUse(**{**_fields(there), "limit": there.total})
    assert answer(client).error is None


def test_what_can_be_spared_is_given_up(tiny_models: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too much is taken until nothing is kept for later turns any more."""
    monkeypatch.setattr(ram_control, "_LOOK_SECONDS", 0.0)
    with EngineClient() as client:
        client.load(str(tiny_models(MODEL)), LoadOptions(context_length=4096, threads=1))
        first = answer(client)
        assert first.stats is not None and ram_of(client).kept_state > 0
        engine = client._engine
        monkeypatch.setattr(ram_control, "resident_memory", lambda: 1 << 50 if _keeps(engine) else 0)
        assert set_ram(client, 4 * GiB).error is None
        assert ram_of(client).kept_state == ram_of(client).used_state == 0
        again = answer(client)
        assert again.error is None and again.stats is not None and again.stats.reused_tokens == 0


def _keeps(engine: Engine) -> bool:
    backend = engine._backend
    return backend is not None and backend.ram().kept_state > 0  # type: ignore[union-attr]


def test_free_blocks_give_their_pages_back() -> None:
    pool = KVPool([KVLayer(4, 256, 256)], blocks=256)
    held = [pool.allocate() for _ in range(256)]
    before = resident_memory()
    for array in pool.layer(0):
        array[:] = 7
    full = resident_memory()
    assert full - before > 0.9 * pool.host_bytes
    for block in held[64:]:
        pool.release(block)
    pool.trim()
    assert full - resident_memory() > 0.6 * pool.host_bytes
    assert pool.used_host_bytes == pool.host_bytes // 4
    for array in pool.layer(0):
        assert np.all(array[:64] == 7)


def _fields(ram: RamUse) -> dict[str, int | None]:
    return {name: getattr(ram, name) for name in RamUse.__slots__}
