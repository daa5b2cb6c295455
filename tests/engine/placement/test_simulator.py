"""The discrete-event run: dependencies hold, lanes do one thing at a time, and it agrees with the closed form."""

from __future__ import annotations

from itertools import pairwise

import pytest

from engine.placement.budget import Budget, GiB
from engine.placement.hardware.catalogue import machine
from engine.placement.planner import Planner
from engine.placement.simulator import ANSWER, Lane, Timeline, simulate
from tests.support.shapes import published_shape

DESKTOP = machine("Ryzen 7 5800X", "RTX 4090", ram_bytes=1 << 40)
LAPTOP = machine("Core i7-11800H", "RTX 3060 Laptop 6GB", ram_bytes=1 << 40)
CASES = [
    ("qwen3-14b-q4_k_m", DESKTOP, 6),
    ("qwen3-14b-q4_k_m", DESKTOP, 0),
    ("qwen3-30b-a3b-q4_k_m", LAPTOP, 5),
    ("gpt-oss-120b-mxfp4", DESKTOP, 20),
    ("deepseek-v3-q4_k_m", DESKTOP, 12),
]


@pytest.mark.parametrize(("stem", "hardware", "gib"), CASES)
def test_agrees_with_the_closed_form(stem: str, hardware: object, gib: int) -> None:
    planner = Planner(published_shape(stem), hardware)  # type: ignore[arg-type]
    made = planner.plan(Budget(gib * GiB))
    run = simulate(made, planner.times, tokens=48)
    assert run.speeds.decode == pytest.approx(made.predicted.decode, rel=0.05)
    assert run.speeds.prefill == pytest.approx(made.predicted.prefill, rel=0.05)
    if made.predicted.hit_rate:
        assert run.speeds.hit_rate == pytest.approx(made.predicted.hit_rate, abs=0.03)


def test_nothing_passes_through_a_card_without_room_for_buffers() -> None:
    """What is predicted of prompts takes no copy for hidden that no buffer is there for."""
    planner = Planner(published_shape("glm-z1-9b-f16"), LAPTOP)
    made = planner.plan(Budget(planner.overhead + 4 * planner.buffer_bytes - 1))
    assert made.uses_gpu and not made.prefetch_depth
    run = simulate(made, planner.times)
    assert made.predicted.prefill == pytest.approx(run.speeds.prefill, rel=0.02)
    assert not any("prefetched" in task.name for task in run.prefill.tasks)


def test_what_is_copied_back_behind_a_prompt_counts() -> None:
    planner = Planner(published_shape("glm-z1-9b-f16"), LAPTOP)
    made = planner.plan(Budget(6 * GiB))
    run, link = simulate(made, planner.times), planner.hardware.link
    assert link is not None and made.lent
    copied = sum(link.latency + item.bytes / link.to_gpu for item in planner.items if item.key in made.lent)
    assert 1 / run.speeds.decode == pytest.approx(1 / made.predicted.decode + copied / ANSWER, rel=1e-6)


def test_a_lane_does_one_task_at_a_time_and_tasks_wait_for_what_they_need() -> None:
    planner = Planner(published_shape("qwen3-30b-a3b-q4_k_m"), LAPTOP)
    run = simulate(planner.plan(Budget(5 * GiB)), planner.times, tokens=2)
    for lane in Lane:
        tasks = [task for task in run.decode.tasks if task.lane is lane]
        assert all(a.end <= b.start + 1e-12 for a, b in pairwise(tasks))
    misses = [t for t in run.decode.tasks if t.name.startswith("misses 7")]
    routers = [t for t in run.decode.tasks if t.name == "router and shared experts 7"]
    after = [t for t in run.decode.tasks if t.name == "attention 8"]
    assert len(routers) == len(after) == 2
    for miss in misses:
        assert any(router.end <= miss.start for router in routers)
        assert any(miss.end <= attention.start for attention in after)


def test_hits_and_misses_overlap() -> None:
    planner = Planner(published_shape("qwen3-30b-a3b-q4_k_m"), LAPTOP)
    run = simulate(planner.plan(Budget(5 * GiB)), planner.times, tokens=8)
    pairs = [
        (hit, miss)
        for hit in run.decode.tasks
        for miss in run.decode.tasks
        if hit.name == "hits 3" and miss.name == "misses 3"
    ]
    assert any(hit.start < miss.end and miss.start < hit.end for hit, miss in pairs)


def test_everything_on_the_gpu_leaves_the_cpu_idle() -> None:
    planner = Planner(published_shape("qwen3-30b-a3b-q4_k_m"), DESKTOP)
    run = simulate(planner.plan(Budget(23 * GiB)), planner.times, tokens=4)
    assert run.speeds.hit_rate == 1
    assert run.utilisation()["CPU"] < 0.01
    assert run.utilisation()["GPU"] > 0.9


def test_same_seed_same_run() -> None:
    planner = Planner(published_shape("gpt-oss-20b-mxfp4"), LAPTOP)
    made = planner.plan(Budget(5 * GiB))
    first, second = (simulate(made, planner.times, seed=4) for _ in range(2))
    assert first.decode.tasks == second.decode.tasks


def test_timeline_waits_for_lane_and_dependencies() -> None:
    line = Timeline()
    first = line.add(Lane.CPU, "a", 2.0)
    other = line.add(Lane.GPU, "b", 1.0)
    both = line.add(Lane.GPU, "c", 1.0, first, other)
    assert (first, other, both) == (2.0, 1.0, 3.0)
    assert line.add(Lane.CPU, "d", 1.0, 0.5) == 3.0
    assert line.busy(Lane.LINK) == 0.0
    assert line.busy(Lane.CPU) == pytest.approx(1.0)
