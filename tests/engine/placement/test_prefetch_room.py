"""Room for weights that pass through the GPU's memory: kept where it pays, and never at the cost of a larger budget."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from engine.placement.budget import Budget, GiB, MiB
from engine.placement.hardware.catalogue import machine
from engine.placement.plan import Mode
from engine.placement.planner import Planner
from engine.placement.prefetch import MOST_DEPTH, buffer_bytes, choose_prefetch, prefetched_seconds
from engine.placement.prefetch_room import PrefetchRoom
from engine.placement.simulator import choice_of, simulate
from engine.placement.step_times import Choice
from tests.engine.placement.test_prefetch_choice import random_times
from tests.support.shapes import published_shape

DESKTOP = machine("Ryzen 7 5800X", "RTX 4090", ram_bytes=1 << 40)
LAPTOP = machine("Core i7-11800H", "RTX 3060 Laptop 6GB", ram_bytes=1 << 40)
ITEM = 100 * MiB
ALL = 6000 * MiB


def random_room(seed: int, slowed: float = 1.0) -> PrefetchRoom:
    """`slowed`: how many times as long copies take."""
    times, _, _ = random_times(Random(seed), layers=16)
    assert times.hardware.link is not None
    link = replace(times.hardware.link, to_gpu=times.hardware.link.to_gpu / slowed)
    times.hardware = replace(times.hardware, link=link)
    everything = [item.bytes > 0 and item.layer >= 0 for item in times.model.items]
    return PrefetchRoom(times, everything, ITEM, ALL, (True, False))


@pytest.mark.parametrize("seed", range(12))
def test_more_room_never_holds_less(seed: int) -> None:
    room = random_room(seed)
    sizes = sorted(
        {*range(0, ALL + 2 * ITEM, 7 * MiB), *(size + d for size in range(0, ALL, ITEM) for d in (-1, 0, 1))}
    )
    assert all(fewer <= more for fewer, more in pairwise(map(room.capacity, sizes)))
    for size in sizes:
        depth = room.depth(size)
        assert 0 <= depth <= MOST_DEPTH and room.capacity(size) + depth * ITEM <= size
        assert 4 * depth * ITEM <= max(0, size), "a quarter of the room at most"
        assert depth == 0 or size < ALL, "nothing passes through where everything fits"


def test_each_number_of_buffers_is_best_somewhere() -> None:
    assert {random_room(seed).paying(16) for seed in range(4)} == set(range(1, MOST_DEPTH + 1))
    assert random_room(0, slowed=1000).paying(16) == 0


@pytest.mark.parametrize("decode", [False, True], ids=["prompt", "decode"])
@pytest.mark.parametrize("seed", range(12))
def test_buffers_pay_for_the_items_that_they_put_into_ram(seed: int, decode: bool) -> None:
    """With half of the blocks left in RAM, and one more for each that buffers hold, a step ends as early as with any
    other number of them; but for what blocks that are not alike, and not evenly spread, make of it."""
    times, _, _ = random_times(Random(seed), layers=32)
    items = times.model.items
    blocks = [index for index, item in enumerate(items) if item.kind.value == "feed-forward"]
    everything = [item.layer >= 0 for item in items]
    room = PrefetchRoom(times, everything, buffer_bytes(items), sum(item.bytes for item in items), [decode])

    def seconds(depth: int) -> float:
        count = len(blocks) // 2 + depth
        left = {block for at, block in enumerate(blocks) if (at + 1) * count // 32 > at * count // 32}
        choice = Choice(tuple(there and i not in left for i, there in enumerate(everything)), (), 0.0, depth)
        chosen = choose_prefetch(times, choice, decode=decode)
        return prefetched_seconds(times, choice, chosen, decode=decode)

    each = [seconds(depth) for depth in range(MOST_DEPTH + 1)]
    assert each[room.paying(len(blocks) // 2)] <= 1.1 * min(each)


@pytest.mark.parametrize("mode", Mode)
def test_plans_say_what_they_keep(mode: Mode) -> None:
    planner = Planner(published_shape("qwen3-14b-q4_k_m"), DESKTOP, mode=mode)
    depths = set()
    for gib in range(0, 16):
        made = planner.plan(Budget(gib * GiB))
        depth = made.prefetch_depth
        depths.add(depth)
        assert choice_of(made).prefetch_depth == depth
        if mode is not Mode.LEAST_MEMORY and made.uses_gpu:
            assert depth == planner.prefetch_depth(made.gpu_budget)
        assert made.gpu.overhead == (planner.overhead + depth * planner.buffer_bytes if made.uses_gpu else 0)
        assert any(f" {depth} × " in note and "under way" in note for note in made.notes) == (depth > 0)
    assert len(depths) >= 2


def test_without_buffers_nothing_is_kept_and_nothing_simulated() -> None:
    shape = published_shape("qwen3-14b-q4_k_m")
    with_buffers, without = (Planner(shape, LAPTOP, prefetch=prefetch) for prefetch in (True, False))
    made = without.plan(Budget(6 * GiB))
    assert made.prefetch_depth == 0 and made.gpu.overhead == without.overhead
    run, other = (simulate(planner.plan(Budget(6 * GiB)), planner.times).speeds for planner in (without, with_buffers))
    assert run.decode == pytest.approx(made.predicted.decode)
    assert other.prefill > 1.3 * run.prefill, "prompts are what buffers are for"
