"""What the owner pins is where it is pinned, or a clear refusal; everything else is planned around it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.placement.budget import Budget
from engine.placement.hardware.catalogue import machine
from engine.placement.items import Device, ItemKind, model_items
from engine.placement.pins import Pin, PinError, Pins
from engine.placement.planner import Planner
from tests.support.shapes import published_shape

GiB = 1 << 30
SHAPE = published_shape("qwen3-30b-a3b-q4_k_m")
DENSE = published_shape("llama-3.1-8b-q4_k_m")
HARDWARE = machine("Ryzen 7 7700X", "RTX 4070", 64 * GiB)
MODEL = model_items(SHAPE)
ITEMS = [item.key for item in MODEL.items if item.kind is not ItemKind.EMBEDDING]


def planned(budget: int, *pins: Pin, shape=SHAPE):
    return Planner(shape, HARDWARE, pins=Pins.of(pins)).plan(Budget(budget))


def test_without_pins_nothing_changes() -> None:
    assert planned(6 * GiB) == Planner(SHAPE, HARDWARE).plan(Budget(6 * GiB))


@settings(deadline=None, max_examples=25)
@given(st.dictionaries(st.sampled_from(ITEMS), st.booleans(), max_size=8), st.integers(2, 11))
def test_items_are_where_they_are_pinned(wanted: dict[str, bool], budget: int) -> None:
    try:
        plan = planned(budget * GiB, *(Pin(key, -1, there) for key, there in wanted.items()))
    except PinError as error:
        assert "more than a budget" in error.cause
        return
    devices = {placed.item.key: placed.device for placed in plan.items}
    assert all((devices[key] is Device.GPU) is there for key, there in wanted.items())
    assert plan.gpu.total <= budget * GiB
    assert all("pinned by you" in p.reason for p in plan.items if p.item.key in wanted)


@settings(deadline=None, max_examples=25)
@given(st.sets(st.tuples(st.integers(0, 47), st.integers(0, 127), st.booleans()), max_size=12))
def test_experts_are_where_they_are_pinned(wanted: set[tuple[int, int, bool]]) -> None:
    once = {(layer, expert): there for layer, expert, there in wanted}
    pins = [Pin(f"blk.{layer}.experts", expert, there) for (layer, expert), there in once.items()]
    plan = planned(8 * GiB, *pins)
    residents = {placed.bank.key: placed for placed in plan.experts}
    for pin in pins:
        placed = residents[pin.key]
        assert (pin.expert in placed.resident) is pin.on_gpu
        assert len(placed.resident) == placed.slots


def test_experts_bring_their_router() -> None:
    tight = 2 * GiB
    pinned = planned(tight, Pin("blk.40.experts", 7))
    assert {p.item.key: p.device for p in pinned.items}["blk.40.ffn"] is Device.GPU
    assert pinned.experts[40].slots >= 1


def test_what_finds_no_room_is_said_in_numbers() -> None:
    with pytest.raises(PinError, match=r"needs [\d.]+ [GM]iB more than a budget of 1.0 GiB") as caught:
        planned(1 * GiB, *(Pin("blk.3.experts", expert) for expert in range(128)), *(Pin(key) for key in ITEMS))
    assert caught.value.remedy


def test_contradictions_are_refused() -> None:
    with pytest.raises(PinError, match="at once"):
        Pins.of([Pin("blk.0.attn", -1, True), Pin("blk.0.attn", -1, False)])
    with pytest.raises(PinError, match="router"):
        planned(8 * GiB, Pin("blk.0.experts", 1), Pin("blk.0.ffn", -1, False))


def test_a_dense_model_is_pinned_the_same_way() -> None:
    plan = planned(3 * GiB, Pin("blk.31.ffn"), Pin("blk.0.attn", -1, False), shape=DENSE)
    devices = {placed.item.key: placed.device for placed in plan.items}
    assert devices["blk.31.ffn"] is Device.GPU and devices["blk.0.attn"] is Device.CPU


def test_a_pin_is_taken_back() -> None:
    pins = Pins().with_pin("a", -1, True).with_pin("b", 3, False).with_pin("a", -1, False)
    assert pins.item("a") is False and pins.experts("b", on_gpu=False) == {3}
    assert not pins.with_pin("a", -1, None).with_pin("b", 3, None)
