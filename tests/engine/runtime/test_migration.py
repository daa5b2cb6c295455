"""Budgets and placements that change in mid-conversation, and every allocation that may fail meanwhile."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from engine.errors import OutOfMemoryError
from engine.memory.kv_pool import KVPool
from engine.memory.weight_store import WeightStore
from engine.models.graph import Attention
from engine.runtime.devices import DeviceMemory, DeviceMemoryError
from engine.runtime.migration import MigrationFailedError, migrate
from engine.runtime.placement import Placement
from engine.runtime.residency import PART_BYTES
from tests.support.hybrid_model import PLENTY, HybridModel, banks_of, everything, items_of, random_placement
from tests.support.native_model import Logits, NativeModel
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
TOKENS = np.random.default_rng(8).integers(0, 512, 48).tolist()
NOTHING = Placement()
STAGING = 4 << 20  # two placements' staging is there at once while one takes over from the other


@pytest.fixture(scope="module")
def path(tiny_models: Write) -> Path:
    return tiny_models(TinyModel("qwen3moe", layers=3))


@pytest.fixture(scope="module")
def reference(path: Path) -> Logits:
    return NativeModel(path).logits(TOKENS)


@pytest.fixture
def model(path: Path) -> Iterator[HybridModel]:
    model = HybridModel(path)
    yield model
    model.close()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


class Conversation:
    """Goes through TOKENS one by one; every row must be the reference's."""

    def __init__(self, model: HybridModel, reference: Logits) -> None:
        self.model, self.reference = model, reference
        self.state = model.new_state()
        self.say(33)

    def say(self, count: int = 1) -> None:
        begin = self.state.length
        rows = self.model.extend(self.state, TOKENS[begin : begin + count])
        bound = 1e-3 * self.reference.std()
        assert np.abs(rows - self.reference[begin : begin + count]).max() <= bound
        if self.state.length == len(TOKENS):
            self.state.truncate(33)


def consistent(model: HybridModel) -> None:
    """What is in effect is what lies in the device's memory, and nothing else does."""
    residency, placement = model.executor.residency, model.executor.placement
    assert set(residency.items) == set(placement.on_device)
    assert {b: len(m.table.experts) for b, m in residency.banks.items()} == {
        b: n for b, n in placement.slots.items() if n
    }
    held = sum(m.charged for m in (*residency.items.values(), *residency.banks.values()))
    assert model.device.memory.used - model.executor.workspace_charged == held
    assert model.device.memory.used <= model.device.memory.limit


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_between_steps_of_a_conversation(model: HybridModel, reference: Logits, seed: int) -> None:
    random, talk = Random(seed), Conversation(model, reference)
    for _ in range(5):
        target = random_placement(model.graph, random)
        for _ in migrate(model.executor, target, model.device.memory.limit):
            talk.say()
        assert model.executor.placement == target
        consistent(model)
        talk.say()


def test_experts_that_come_over_the_link_change_in_the_middle_of_a_prompt(path: Path) -> None:
    tokens = TOKENS[:40] * 3
    model, reference = HybridModel(path), NativeModel(path).logits(tokens)
    state, banks = model.new_state(), banks_of(model.graph)
    for part, (slots, streamed) in enumerate([(2, 3), (3, 5), (2, 0)]):
        some = dict.fromkeys(banks, streamed) if streamed else {}
        model.place(Placement(everything(model.graph).on_device, dict.fromkeys(banks, slots), some))
        rows = model.extend(state, tokens[40 * part : 40 * part + 40])
        assert np.abs(rows - reference[40 * part : 40 * part + 40]).max() <= 1e-3 * reference.std()
    state.release()
    model.close()


@pytest.mark.parametrize("seed", range(12))
def test_any_allocation_may_fail(model: HybridModel, reference: Logits, seed: int) -> None:
    """One or two allocations on the way fail; the conversation never notices."""
    random, talk = Random(seed), Conversation(model, reference)
    model.place(random_placement(model.graph, random))
    before = model.executor.placement
    fails = {random.randint(1, 25), random.randint(1, 40)}
    calls = 0

    def refuse(_size: int, purpose: str) -> None:
        nonlocal calls
        calls += 1
        if calls in fails:
            raise DeviceMemoryError(f"{purpose}: refused by the test.")

    model.device.memory.on_charge = refuse
    try:
        for _ in migrate(model.executor, random_placement(model.graph, random), model.device.memory.limit):
            talk.say()
    except MigrationFailedError as error:
        assert (model.executor.placement == before) is error.restored
        assert "refused by the test" in error.cause
    model.device.memory.on_charge = lambda size, purpose: None
    consistent(model)
    talk.say(2)


def test_caches_that_cannot_come_home_stay(
    model: HybridModel, reference: Logits, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = Conversation(model, reference)
    model.place(everything(model.graph))

    def refuse(self: KVPool, index: int) -> None:
        raise OutOfMemoryError("no RAM")

    with monkeypatch.context() as patch:
        patch.setattr(KVPool, "move_layer_home", refuse)
        with pytest.raises(MigrationFailedError, match="no RAM") as failure:
            model.place(NOTHING)
    assert failure.value.restored and model.executor.placement == everything(model.graph)
    talk.say()
    model.place(NOTHING)
    talk.say()


def test_no_budget_gives_everything_back(model: HybridModel, reference: Logits) -> None:
    talk = Conversation(model, reference)
    model.place(everything(model.graph))
    talk.say()
    assert model.device.memory.used > 0
    model.place(NOTHING, limit=0)
    assert model.device.memory.used == 0 == model.device.memory.limit
    talk.say()


def test_memory_never_exceeds_the_larger_budget(model: HybridModel) -> None:
    model.place(everything(model.graph))
    full = model.device.memory.used + STAGING
    half = Placement(frozenset(items_of(model.graph)[:4]), {})
    model.place(half)
    small = model.device.memory.used + STAGING
    for old, new, limit in ((everything(model.graph), half, small), (half, everything(model.graph), full)):
        model.place(old, limit=full)
        model.device.memory.peak = 0
        for _ in migrate(model.executor, new, limit):
            assert model.device.memory.used <= full
        assert model.device.memory.peak <= full
        assert model.device.memory.used <= limit == model.device.memory.limit


def test_loading_takes_no_more_than_what_stays(model: HybridModel) -> None:
    """Weights are written where they stay, so that nothing has to be there twice meanwhile."""
    model.place(everything(model.graph))
    assert model.device.memory.peak == model.device.memory.used > 0


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="tells resident memory on Linux only")
@pytest.mark.parametrize(("layers", "feed_forward"), [(8, 8192), (1, 65536)], ids=["many items", "a large one"])
def test_loading_leaves_one_part_in_ram_at_most(
    tiny_models: Write, monkeypatch: pytest.MonkeyPatch, layers: int, feed_forward: int
) -> None:
    """What has been copied is given up in RAM before the next part of an item is: none is there twice as a whole."""
    model = HybridModel(tiny_models(TinyModel("llama", "Q8_0", layers=layers, feed_forward=feed_forward)))
    begin, beyond, release_pages = _resident(), [0], WeightStore.release_pages

    def release(*args: Any) -> None:
        beyond.append(_resident() - begin - model.device.memory.used)
        release_pages(*args)

    monkeypatch.setattr(WeightStore, "release_pages", release)
    model.place(everything(model.graph))
    whole = sum(model.executor.residency.item_bytes(item) for item in items_of(model.graph))
    assert max(beyond) <= PART_BYTES + (8 << 20) < whole // 2
    model.close()


def test_a_large_item_comes_over_many_steps(model: HybridModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation goes on between its parts, and waits for none longer than for one of them."""
    monkeypatch.setattr("engine.runtime.residency.PART_BYTES", 64 << 10)
    monkeypatch.setattr("engine.runtime.migration.STEP_BYTES", 128 << 10)
    items = frozenset(items_of(model.graph)) - {"embedding"}
    done = [0] + [step.done_bytes for step in migrate(model.executor, Placement(items), PLENTY)]
    largest = max(model.executor.residency.item_bytes(item) for item in items)
    assert max(after - before for before, after in pairwise(done)) <= (192 << 10) < largest
    assert done[-1] == sum(model.executor.residency.item_bytes(item) for item in items)


def test_a_load_that_is_left_in_the_middle_of_an_item_gives_everything_back(
    model: HybridModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.runtime.residency.PART_BYTES", 64 << 10)
    monkeypatch.setattr("engine.runtime.migration.STEP_BYTES", 64 << 10)
    before = model.device.memory.used
    migration = migrate(model.executor, everything(model.graph), PLENTY)
    next(migration)
    assert model.device.memory.used > before
    migration.close()
    assert model.device.memory.used == before and not model.executor.residency.items


def test_a_layers_cache_moves_with_its_attention(model: HybridModel, reference: Logits) -> None:
    """In the same transaction, in mid-conversation; until it is done, the cache is where it was."""
    talk, pool = Conversation(model, reference), model.pool
    layers = {op.item: op.layer for op in model.graph.ops if isinstance(op, Attention)}
    moved: set[int] = set()
    for items in ({"blk.1.attn"}, {"blk.0.attn", "blk.1.attn", "blk.2.ffn"}, {"blk.2.attn"}, set[str]()):
        target = Placement(frozenset(items))
        for _ in migrate(model.executor, target, model.device.memory.limit):
            assert {layer for layer in layers.values() if pool.is_moved(layer)} <= moved
            talk.say()
        moved = {layers[item] for item in items if item in layers}
        assert {layer for layer in layers.values() if pool.is_moved(layer)} == moved
        for layer in moved:
            memory = model.executor.residency.items[f"blk.{layer}.attn"].kv[layer]
            for cells, region in zip(pool.layer(layer), memory, strict=True):
                assert np.shares_memory(cells, region.view())
        talk.say()


def test_a_budget_too_small_for_the_plan_is_rolled_back(model: HybridModel, reference: Logits) -> None:
    talk = Conversation(model, reference)
    some = Placement(frozenset({"blk.0.attn"}), {"blk.1.experts": 3})
    model.place(some)
    before = model.device.memory.limit
    with pytest.raises(MigrationFailedError) as failure:
        model.place(everything(model.graph), limit=model.device.memory.used + 100_000)
    assert failure.value.restored and failure.value.remedy
    assert model.executor.placement == some and model.device.memory.limit == before
    talk.say()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="tells resident memory on Linux only")
def test_what_is_given_up_goes_back_to_the_system() -> None:
    memory = DeviceMemory(1 << 30)
    region = memory.allocate(64 << 20, "weights")
    region.view()[:] = 1
    full = _resident()
    region.release()
    assert full - _resident() > 60 << 20


def test_regions_grow_in_place_and_give_back() -> None:
    memory = DeviceMemory(100_000, granularity=4096)
    region = memory.reserve(1 << 20, "slots")
    assert memory.used == 0
    region.resize(5000)
    region.view()[:] = 7
    region.resize(90_000)
    assert memory.used == 90_112 and (region.view(0, 5000) == 7).all()
    with pytest.raises(DeviceMemoryError, match="slots"):
        region.resize(100_001)
    assert region.size == 90_000 and memory.used == 90_112
    region.view()[:] = 9
    region.resize(4096)
    assert memory.used == 4096 and memory.peak == 90_112
    region.resize(20_000)
    assert (region.view(0, 4096) == 9).all()
    assert not region.view(4096).any(), "memory that was given up comes back empty"
    with pytest.raises(ValueError, match="outside"):
        region.view(0, 20_001)
