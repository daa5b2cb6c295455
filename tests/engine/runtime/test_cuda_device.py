"""The cuda device over the stand-in driver: placements, budgets, failures of the driver's, pinned memory."""

from __future__ import annotations

import platform
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from engine.runtime.devices.cuda.copies import PINNED_CAP, PINNED_CAP_WSL, pinned_cap
from engine.runtime.migration import MigrationFailedError, migrate
from engine.runtime.placement import Placement
from kernels.cuda.driver import Driver
from kernels.cuda.kernel_set import LaunchError
from tests.support.captured_steps import MODELS, Write
from tests.support.hybrid_model import HybridModel, Open, banks_of, items_of, random_placement
from tests.support.logit_bounds import bounds
from tests.support.native_model import Logits, NativeModel
from tests.support.stand_in_card import CONTEXT_BYTES, calls, charged, fail_allocation, open_card, set_card
from tests.support.tiny_models import TinyModel

TOKENS = np.random.default_rng(2).integers(0, 256, 16).tolist()
PROMPT = 10


@pytest.fixture(scope="module", params=list(MODELS))
def shape(request: pytest.FixtureRequest) -> TinyModel:
    return MODELS[request.param]


@pytest.fixture(scope="module")
def path(shape: TinyModel, tiny_models: Write) -> Path:
    return tiny_models(shape)


@pytest.fixture(scope="module")
def reference(path: Path) -> Logits:
    return NativeModel(path).logits(TOKENS)


@pytest.fixture
def model(path: Path, open_on_card: Open) -> HybridModel:
    return open_on_card(path)


class Conversation:
    """Goes through TOKENS, a prompt and then one by one; every row must be near the reference's."""

    def __init__(self, model: HybridModel, shape: TinyModel, reference: Logits) -> None:
        self.model, self.reference, self.limit = model, reference, bounds(reference, "Q8_0", shape.layers)
        self.state = model.new_state()
        self.say(PROMPT)

    def say(self, count: int = 1) -> None:
        if self.state.length + count > len(TOKENS):
            self.state.truncate(PROMPT - 1)
        begin = self.state.length
        rows = self.model.extend(self.state, TOKENS[begin : begin + count])
        assert self.limit.allow(rows - self.reference[begin : begin + count])


def everything(model: HybridModel) -> Placement:
    items = frozenset(item for item in items_of(model.graph) if item != "embedding")
    return Placement(items, banks_of(model.graph))


def some(model: HybridModel, slots: int = 2) -> Placement:
    return Placement(everything(model).on_device, dict.fromkeys(banks_of(model.graph), slots))


def consistent(model: HybridModel) -> None:
    """What is in effect is what is there, and what is counted is what the driver charges."""
    residency, placement = model.executor.residency, model.executor.placement
    assert set(residency.items) == set(placement.on_device)
    assert {b: len(m.table.experts) for b, m in residency.banks.items()} == {
        b: n for b, n in placement.slots.items() if n
    }
    assert charged() == model.device.memory.used <= model.device.memory.limit


def test_everything_on_the_card(model: HybridModel, shape: TinyModel, reference: Logits) -> None:
    talk = Conversation(model, shape, reference)
    assert charged() == 0, "no context without need"
    model.place(everything(model))
    consistent(model)
    assert charged() > CONTEXT_BYTES
    talk.say()
    talk.say(3)


@pytest.mark.parametrize("seed", range(3))
def test_placements_that_change_in_mid_conversation(
    model: HybridModel, shape: TinyModel, reference: Logits, seed: int
) -> None:
    random, talk = Random(seed), Conversation(model, shape, reference)
    for _ in range(3):
        target = random_placement(model.graph, random)
        for _ in migrate(model.executor, target, model.device.memory.limit):
            talk.say()
        assert model.executor.placement == target
        consistent(model)
        talk.say()


def test_no_budget_ends_the_context(model: HybridModel, shape: TinyModel, reference: Logits) -> None:
    talk = Conversation(model, shape, reference)
    model.place(everything(model))
    talk.say()
    model.place(Placement(), limit=0)
    assert charged() == 0 == model.device.memory.used
    talk.say()
    model.place(some(model), limit=1 << 30)
    consistent(model)
    talk.say()
    talk.say(2)


def test_memory_never_exceeds_the_larger_budget(model: HybridModel, shape: TinyModel, reference: Logits) -> None:
    talk = Conversation(model, shape, reference)
    model.place(everything(model))
    full = model.device.memory.used
    half = Placement(frozenset(items_of(model.graph)[1:3]))
    model.place(half, limit=full)
    small = model.device.memory.used + (2 << 20)
    model.place(everything(model), limit=full + (8 << 20))
    for _ in migrate(model.executor, half, small):
        talk.say()
    assert charged() <= small == model.device.memory.limit
    talk.say()


@pytest.mark.parametrize("seed", range(6))
def test_any_allocation_of_the_drivers_may_fail(
    model: HybridModel, shape: TinyModel, reference: Logits, seed: int
) -> None:
    random, talk = Random(seed), Conversation(model, shape, reference)
    if seed % 2:
        model.place(some(model))
    before = model.executor.placement
    fail_allocation(random.randint(1, 12))
    try:
        for _ in migrate(model.executor, random_placement(model.graph, random), model.device.memory.limit):
            talk.say()
    except MigrationFailedError as error:
        assert (model.executor.placement == before) is error.restored
    fail_allocation(0)
    consistent(model)
    talk.say(2)


def test_a_card_without_room_leaves_the_cpu(model: HybridModel, shape: TinyModel, reference: Logits) -> None:
    talk = Conversation(model, shape, reference)
    set_card(total=64 << 20)
    with pytest.raises(MigrationFailedError, match="GPU could not be opened"):
        model.place(everything(model))
    assert charged() == 0 and model.executor.placement == Placement()
    talk.say()


@pytest.mark.parametrize("pinned", [0, 1 << 20])
def test_little_pinned_memory_is_enough(
    path: Path, shape: TinyModel, reference: Logits, tmp_path: Path, pinned: int
) -> None:
    set_card(pinned=pinned)
    model = HybridModel(path, context=64, device=open_card(tmp_path))
    talk = Conversation(model, shape, reference)
    model.place(some(model))
    talk.say()
    assert bool(model.device.notes) is (pinned == 0)
    model.close()
    assert charged() == 0
    set_card()


@pytest.mark.parametrize(
    ("system", "release", "cap"),
    [
        ("Linux", "6.1.0-13-amd64", PINNED_CAP),
        ("Linux", "5.15.153.1-microsoft-standard-WSL2", PINNED_CAP_WSL),
        ("Windows", "10", PINNED_CAP_WSL),
    ],
)
def test_systems_that_share_what_they_pin_are_asked_for_less(
    monkeypatch: pytest.MonkeyPatch, system: str, release: str, cap: int
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "release", lambda: release)
    assert pinned_cap() == cap


@pytest.mark.parametrize("cap", [0, 600 << 10])
def test_no_more_is_pinned_than_the_cap(
    path: Path, shape: TinyModel, reference: Logits, tmp_path: Path, cap: int
) -> None:
    """The rest is copied from and to memory that is not pinned."""
    device = open_card(tmp_path)
    device.pinned.cap = cap
    model = HybridModel(path, context=64, device=device)
    talk, most = Conversation(model, shape, reference), 0
    for placement in (some(model), everything(model), some(model, 1)):
        model.place(placement)
        talk.say(2)
        most = max(most, device.pinned.used)
    assert 0 < most <= cap or most == cap == 0
    assert bool(device.notes) is (cap == 0)
    model.close()
    assert device.pinned.used == charged() == 0


def test_promotions_reach_the_cards_tables(tiny_models: Write, tmp_path: Path) -> None:
    shape = MODELS["experts"]
    path = tiny_models(shape)
    reference = NativeModel(path).logits(TOKENS)
    model = HybridModel(path, context=64, device=open_card(tmp_path))
    model.place(some(model, 1))
    for _ in range(2):
        talk = Conversation(model, shape, reference)
        for _ in range(len(TOKENS) - PROMPT):
            talk.say()
            model.executor.promoter.finish()
        talk.state.release()
    assert model.executor.promoter.promoted > 0
    model.close()
    assert calls("cuMemCreate") > 0


@pytest.mark.parametrize("most", [1 << 38, 1 << 20])
def test_systems_that_give_few_addresses(
    model: HybridModel, shape: TinyModel, reference: Logits, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    real = Driver.make

    def make(self: Driver, function: str, *args: Any) -> int:
        if function == "cuMemAddressReserve" and args[0] > most:
            raise LaunchError("out of memory (2)")
        return real(self, function, *args)

    monkeypatch.setattr(Driver, "make", make)
    talk = Conversation(model, shape, reference)
    if most < 1 << 36:
        with pytest.raises(MigrationFailedError, match="could not be opened"):
            model.place(some(model))
        assert charged() == 0
    else:
        model.place(some(model))
        consistent(model)
    talk.say(2)
