"""Properties of plans: within budget, never slower with more, budget used, every byte placed, reasons given."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.placement.budget import Budget, GiB, MiB, headroom_bytes, recommended_budget
from engine.placement.costs import Workload
from engine.placement.hardware.catalogue import machine
from engine.placement.items import Device, ItemKind
from engine.placement.plan import Mode, ModelDoesNotFitError
from engine.placement.planner import KEPT_SPEED, Planner, plan
from engine.runtime.pace import corrected
from tests.support.shapes import dense_shape, moe_shape, published_shape

DESKTOP = machine("Ryzen 7 5800X", "RTX 4090", ram_bytes=1 << 40)
STEMS = ["qwen3-14b-q4_k_m", "qwen3-30b-a3b-q4_k_m", "qwen3-next-80b-a3b-q4_k_m", "gpt-oss-20b-mxfp4"]
PLANNERS = {(stem, mode): Planner(published_shape(stem), DESKTOP, mode=mode) for stem in STEMS for mode in Mode}
budgets = st.integers(0, 25 * 1024).map(lambda mib: Budget(mib * MiB))


@given(st.sampled_from(STEMS), st.sampled_from(list(Mode)), budgets)
@settings(max_examples=60, deadline=None)
def test_a_plan_keeps_its_budget_and_places_every_byte(stem: str, mode: Mode, budget: Budget) -> None:
    planner = PLANNERS[stem, mode]
    made = planner.plan(budget)
    assert made.gpu.total <= budget.gpu_bytes
    assert made.gpu.total <= DESKTOP.gpu.memory_bytes if DESKTOP.gpu else False
    assert made.weight_bytes == planner.shape.weight_bytes
    assert made.gpu.state + made.ram.state == planner.shape.state_bytes(planner.work.context)
    assert all(p.reason for p in made.items) and all(e.reason for e in made.experts)


@given(st.sampled_from(STEMS), budgets, budgets)
@example("qwen3-14b-q4_k_m", Budget(1417 * MiB), Budget(1865 * MiB))
@settings(max_examples=100, deadline=None)
def test_more_budget_is_never_predicted_slower(stem: str, one: Budget, other: Budget) -> None:
    less, more = sorted([one, other], key=lambda b: b.gpu_bytes)
    decode, prefill = PLANNERS[stem, Mode.DECODE], PLANNERS[stem, Mode.PREFILL]
    assert decode.plan(more).predicted.decode >= decode.plan(less).predicted.decode * (1 - 1e-9)
    assert prefill.plan(more).predicted.prefill >= prefill.plan(less).predicted.prefill * (1 - 1e-9)


@given(st.sampled_from(STEMS), st.integers(2 * 1024, 24 * 1024))
@settings(max_examples=60, deadline=None)
def test_a_budget_is_used_when_the_model_needs_it(stem: str, mib: int) -> None:
    made = PLANNERS[stem, Mode.DECODE].plan(Budget(mib * MiB))
    whole = all(p.device is Device.GPU for p in made.items[1:]) and all(e.slots == e.bank.count for e in made.experts)
    assert whole or made.gpu.total >= 0.95 * made.gpu_budget


@given(st.sampled_from(STEMS), budgets)
@settings(max_examples=30, deadline=None)
def test_least_memory_keeps_most_of_the_speed(stem: str, budget: Budget) -> None:
    best = PLANNERS[stem, Mode.DECODE].plan(budget)
    least = PLANNERS[stem, Mode.LEAST_MEMORY].plan(budget)
    assert least.gpu.total <= best.gpu.total
    assert least.predicted.decode >= KEPT_SPEED * best.predicted.decode * (1 - 1e-9)


def test_plans_are_deterministic() -> None:
    shape = published_shape("qwen3-30b-a3b-q4_k_m")
    assert plan(shape, DESKTOP, Budget(6 * GiB)) == plan(shape, DESKTOP, Budget(6 * GiB))


def test_moe_order_of_spending() -> None:
    made = plan(published_shape("qwen3-30b-a3b-q4_k_m"), DESKTOP, Budget(6 * GiB))
    assert all(p.device is Device.GPU for p in made.items if p.item.kind is not ItemKind.EMBEDDING)
    assert max(made.slots) - min(made.slots) <= 3  # spread over the layers, not first come first served
    assert 0 < min(made.slots) < 128
    assert made.predicted.hit_rate is not None and made.predicted.hit_rate > min(made.slots) / 128


def test_recorded_heat_names_the_residents() -> None:
    shape = moe_shape(layers=2, experts=16)
    heat = [[float(i == 3) * 90 + i for i in range(16)], [float(16 - i) for i in range(16)]]
    planner = Planner(shape, DESKTOP, heat=heat)
    half = planner.overhead + sum(planner.sizes[1:]) + 16 * planner.banks[0].expert_bytes
    made = planner.plan(Budget(half + MiB))
    for experts, counts in zip(made.experts, heat, strict=True):
        assert 0 < experts.slots < 16
        hottest = sorted(range(16), key=lambda e: -counts[e])[: experts.slots]
        assert experts.resident == tuple(sorted(hottest))


# --- edges ------------------------------------------------------------------------------------------------------


def test_no_budget_is_cpu_only() -> None:
    made = plan(published_shape("qwen3-14b-q4_k_m"), DESKTOP, Budget(0))
    assert not made.uses_gpu and made.gpu.total == 0
    assert all(p.device is Device.CPU for p in made.items)


def test_a_budget_below_the_fixed_costs_leaves_the_gpu_alone() -> None:
    made = plan(published_shape("qwen3-14b-q4_k_m"), DESKTOP, Budget(300 * MiB))
    assert made.gpu.total == 0
    assert any("stays unused" in note for note in made.notes)


def test_a_budget_above_the_model_takes_what_it_needs() -> None:
    shape = published_shape("qwen3-14b-q4_k_m")
    made = plan(shape, DESKTOP, Budget(23 * GiB))
    assert made.gpu.total < 12 * GiB
    assert made.ram.weights == made.items[0].item.bytes
    assert any("nothing" in note for note in made.notes)


def test_a_budget_above_the_card_is_cut_to_the_card() -> None:
    made = plan(published_shape("llama-3.1-70b-q4_k_m"), DESKTOP, Budget(100 * GiB))
    assert made.gpu.total <= recommended_budget(DESKTOP).gpu_bytes
    assert any("more than" in note for note in made.notes)


def test_a_card_too_small_for_all_but_the_experts() -> None:
    small = machine("Core i7-11700", "RTX 3050 Laptop", ram_bytes=1 << 40)
    made = plan(published_shape("deepseek-v3-q4_k_m"), small, recommended_budget(small))
    on_gpu = [p for p in made.items if p.device is Device.GPU]
    assert 0 < len(on_gpu) < len(made.items) - 1
    assert made.gpu.total <= recommended_budget(small).gpu_bytes


def test_too_little_ram_is_refused_with_what_would_fit() -> None:
    poor = DESKTOP.with_ram(16 * GiB)
    with pytest.raises(ModelDoesNotFitError) as refused:
        plan(published_shape("llama-3.1-70b-q4_k_m"), poor, Budget(6 * GiB), Workload(context=32768))
    assert refused.value.shortfall > 10 * GiB
    assert "quantisation" in refused.value.remedy


def test_a_context_that_would_fit_is_named() -> None:
    poor = DESKTOP.with_ram(14 * GiB)
    with pytest.raises(ModelDoesNotFitError) as refused:
        plan(published_shape("qwen3-14b-q4_k_m"), poor, Budget(0), Workload(context=40960))
    assert "a context of" in refused.value.remedy
    context = int(refused.value.remedy.split("context of ")[1].split()[0])
    plan(published_shape("qwen3-14b-q4_k_m"), poor, Budget(0), Workload(context=context))
    with pytest.raises(ModelDoesNotFitError):
        plan(published_shape("qwen3-14b-q4_k_m"), poor, Budget(0), Workload(context=context + 512))


def test_two_gib_of_ram_stay_free() -> None:
    made = plan(published_shape("qwen3-14b-q4_k_m"), DESKTOP, Budget(0))
    exact = DESKTOP.with_ram(made.ram.total + 2 * GiB)
    plan(published_shape("qwen3-14b-q4_k_m"), exact, Budget(0))
    with pytest.raises(ModelDoesNotFitError):
        plan(published_shape("qwen3-14b-q4_k_m"), exact.with_ram(exact.cpu.memory_bytes - 1), Budget(0))


@pytest.mark.parametrize("free_gib", [2, 4, 6])
def test_whatever_a_probe_of_free_memory_says_the_budget_is_the_ceiling(free_gib: int) -> None:
    shape = published_shape("qwen3-30b-a3b-q4_k_m")
    proposed = recommended_budget(DESKTOP, taken_by_others=(24 - free_gib) * GiB)
    assert plan(shape, DESKTOP, proposed).gpu.total <= free_gib * GiB
    fixed = Budget(3 * GiB)
    assert plan(shape, DESKTOP, fixed).gpu.total <= 3 * GiB


def test_headroom_is_larger_with_a_display_and_on_windows() -> None:
    from dataclasses import replace

    plain = recommended_budget(DESKTOP).gpu_bytes
    display = recommended_budget(replace(DESKTOP, drives_display=True)).gpu_bytes
    windows = recommended_budget(replace(DESKTOP, platform="windows")).gpu_bytes
    assert plain > display > windows == 22 * GiB


def test_longer_contexts_count_against_the_budget() -> None:
    shape = published_shape("qwen3-14b-q4_k_m")
    short = plan(shape, DESKTOP, Budget(6 * GiB), Workload(context=2048))
    long = plan(shape, DESKTOP, Budget(6 * GiB), Workload(context=32768))
    assert long.gpu.total <= 6 * GiB
    assert long.gpu.state + long.ram.state == 16 * (short.gpu.state + short.ram.state)
    assert long.predicted.decode < short.predicted.decode


def test_the_next_gib_is_priced() -> None:
    made = plan(published_shape("qwen3-30b-a3b-q4_k_m"), DESKTOP, Budget(6 * GiB))
    more = plan(published_shape("qwen3-30b-a3b-q4_k_m"), DESKTOP, Budget(7 * GiB))
    assert f"One GiB more would give {more.predicted.decode:.1f}" in made.notes[-1]


def test_no_larger_card_is_praised_for_what_this_one_gives() -> None:
    """All that gains finds room below the largest safe budget, which is less than one GiB away."""
    shape, work = dense_shape(), Workload(context=2048)
    assert DESKTOP.gpu is not None
    whole = Planner(shape, DESKTOP, work).plan(Budget(8 * GiB)).gpu.total
    card = replace(DESKTOP, gpu=replace(DESKTOP.gpu, memory_bytes=whole + headroom_bytes(DESKTOP) + (64 << 20)))
    note = plan(shape, card, Budget(whole - (128 << 20)), work).notes[-1]
    assert note.startswith("192 MiB more would give ") and "larger card" not in note
    slow = corrected(DESKTOP, {"GPU": 200.0})
    assert plan(shape, slow, Budget(whole), work).notes[-1] == "One GiB more would buy nothing."


def test_a_small_dense_model_on_the_gpu_whole() -> None:
    made = plan(dense_shape(), DESKTOP, Budget(4 * GiB))
    assert [p.device for p in made.items] == [Device.CPU] + [Device.GPU] * (len(made.items) - 1)
