"""The library's pill: on the GPU, split, in RAM, or what is missing."""

from __future__ import annotations

import pytest

from engine.hub.fit import FitKind
from engine.placement.budget import Budget, GiB, recommended_budget
from engine.placement.fit import fit
from engine.placement.hardware.catalogue import machine
from tests.support.shapes import published_shape

DESKTOP = machine("Ryzen 7 5800X", "RTX 4090", ram_bytes=64 * GiB)
LAPTOP = machine("Core i7-11800H", "RTX 3060 Laptop 6GB", ram_bytes=32 * GiB)
NO_GPU = machine("Ryzen 7 5800X", ram_bytes=32 * GiB)


def test_on_the_gpu() -> None:
    found = fit(published_shape("qwen3-14b-q4_k_m"), DESKTOP)
    assert (found.kind, found.label) == (FitKind.GPU, "Runs on the GPU")
    assert "8.4 GiB of weights" in found.reason


def test_split_counts_every_expert_and_predicts() -> None:
    found = fit(published_shape("qwen3-30b-a3b-q4_k_m"), LAPTOP)
    assert found.kind is FitKind.SPLIT
    assert found.speed is not None and found.label == f"GPU + RAM: ~{found.speed:.0f} tok/s predicted"
    assert found.needed > published_shape("qwen3-30b-a3b-q4_k_m").weight_bytes
    assert "on the GPU" in found.reason and "in RAM" in found.reason


def test_in_ram() -> None:
    found = fit(published_shape("qwen3-14b-q4_k_m"), NO_GPU)
    assert found.kind is FitKind.RAM and found.label.startswith("Runs in RAM: ~")


def test_what_is_missing_is_named() -> None:
    found = fit(published_shape("gpt-oss-120b-mxfp4"), LAPTOP)
    assert found.kind is FitKind.SHORT and not found.runs
    missing = int(found.label.removeprefix("Needs ").split()[0])
    richer = LAPTOP.with_ram(LAPTOP.cpu.memory_bytes + missing * GiB)
    assert fit(published_shape("gpt-oss-120b-mxfp4"), richer).runs
    assert not fit(published_shape("gpt-oss-120b-mxfp4"), LAPTOP.with_ram(richer.cpu.memory_bytes - GiB)).runs


def test_a_longer_context_changes_the_verdict() -> None:
    shape = published_shape("qwen3-14b-q4_k_m")
    tight = NO_GPU.with_ram(14 * GiB)
    assert fit(shape, tight, context=4096).runs
    assert not fit(shape, tight, context=40960).runs


def test_keys_and_values_in_8_bits_change_the_verdict() -> None:
    shape = published_shape("qwen3-14b-q4_k_m")
    tight = NO_GPU.with_ram(14 * GiB)
    found = fit(shape, tight, context=24576, kv_type="q8_0")
    assert found.runs and "GiB of cache in 8 bits for 24576 tokens" in found.reason
    assert not fit(shape, tight, context=24576).runs


def test_what_unloading_the_model_that_runs_would_give_is_offered() -> None:
    shape = published_shape("qwen3-30b-a3b-q4_k_m")
    left = recommended_budget(DESKTOP, taken_by_others=18 * GiB)
    now = fit(shape, DESKTOP, budget=left, freed_by_unloading=16 * GiB)
    then = fit(shape, DESKTOP, budget=Budget(left.gpu_bytes + 16 * GiB))
    assert now.kind is FitKind.SPLIT and then.speed is not None
    assert f"Unloading the model that runs now would make that {then.speed:.1f}" in now.reason


@pytest.mark.parametrize("budget_gib", [0, 1, 3])
def test_over_budget_is_never_called_on_the_gpu(budget_gib: int) -> None:
    found = fit(published_shape("qwen3-14b-q4_k_m"), DESKTOP, budget=Budget(budget_gib * GiB))
    assert found.kind is not FitKind.GPU
