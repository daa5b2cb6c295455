"""Rival strategies, and the published rows that the simulation is judged by."""

from __future__ import annotations

import statistics

import pytest

from engine.placement.budget import Budget, GiB
from engine.placement.costs import Workload
from engine.placement.hardware.catalogue import machine
from engine.placement.rivals import Rivals
from tests.bench.published import EXACT, comparisons, published_rows
from tests.support.shapes import moe_shape, published_shape

DESKTOP = machine("Ryzen 7 5800X", "RTX 4090", ram_bytes=1 << 40)


def test_llama_cpp_rows_are_met_within_a_fifth_at_the_median() -> None:
    judged = [row for row in published_rows() if row.use == "judged"]
    assert len(judged) >= 10
    assert statistics.median(abs(row.error or 0.0) for row in judged) <= 0.20


def test_our_plan_against_the_rivals_on_the_published_eight() -> None:
    published = {row.model: row.decode for row in published_rows() if row.system == "ATSInfer"}
    rows = list(comparisons())
    assert len(rows) == 8
    counted = 0
    for found in rows:
        assert found.ours >= found.best_rival.speeds.decode * 0.999, found.row.model
        if abs(found.row.error or 1.0) <= EXACT:
            counted += 1
            assert found.ours >= 1.3 * found.best_llama_cpp.speeds.decode, found.row.model
        if found.bound is not None:
            assert found.ours >= 0.95 * found.bound, found.row.model
            continue
        assert found.ours >= published[found.row.model], found.row.model
        assert found.without_locality > found.best_llama_cpp.speeds.decode, found.row.model
    assert counted == 8


def test_best_settings_keep_the_budget() -> None:
    rivals = Rivals(published_shape("qwen3-30b-a3b-q4_k_m"), DESKTOP, Workload(), Budget(8 * GiB))
    found = rivals.all()
    assert {r.strategy for r in found} == {
        "llama.cpp",
        "static hot list",
        "fetch on miss",
        "per-operator knapsack",
    }
    for rival in found:
        assert rival.gpu_bytes <= 8 * GiB
        assert rival.speeds.decode > 0 and rival.speeds.prefill > 0


def test_experts_on_the_cpu_beat_whole_layers_on_a_small_card() -> None:
    rivals = Rivals(published_shape("gpt-oss-120b-mxfp4"), DESKTOP, Workload(), Budget(12 * GiB))
    layers, experts = rivals.whole_layers(), rivals.expert_layers(first=True)
    assert layers and experts
    assert experts.speeds.decode > layers.speeds.decode
    assert rivals.best_llama_cpp().speeds.decode >= experts.speeds.decode


def test_llama_cpp_reads_prompts_with_weights_copied_to_the_card() -> None:
    rivals = Rivals(published_shape("qwen3-14b-q4_k_m"), DESKTOP, Workload(), Budget(4 * GiB))
    few, all_on_cpu = rivals.whole_layers(1), rivals.whole_layers(0)
    assert few and all_on_cpu
    assert few.speeds.prefill > 2 * all_on_cpu.speeds.prefill
    assert few.speeds.decode < 1.2 * all_on_cpu.speeds.decode


def test_without_a_gpu_only_the_cpu_remains() -> None:
    rivals = Rivals(moe_shape(), machine("Ryzen 7 5800X"), Workload(), Budget(0))
    assert [(r.strategy, r.setting, r.gpu_bytes) for r in rivals.all()] == [("llama.cpp", "-ngl 0", 0)]


def test_a_budget_too_small_for_a_strategy_leaves_it_out() -> None:
    rivals = Rivals(published_shape("deepseek-v3-q4_k_m"), DESKTOP, Workload(), Budget(2 * GiB))
    assert rivals.static_hot_list() is None
    assert rivals.all_experts_on_cpu() is None
    assert rivals.whole_layers() is not None


@pytest.mark.parametrize("layers", [0, 5, 48])
def test_a_named_setting_is_taken_as_it_stands(layers: int) -> None:
    rivals = Rivals(published_shape("qwen3-30b-a3b-q4_k_m"), DESKTOP, Workload(), Budget(20 * GiB))
    found = rivals.expert_layers(first=True, layers=layers)
    assert found is not None and found.setting == f"--n-cpu-moe {layers} (first layers)"
