"""Room for weights that pass through the GPU's memory: kept where it pays, and never at the cost of a larger budget."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from engine.placement.budget import Budget, GiB, MiB
from engine.placement.chain import DeviceChain
from engine.placement.explain import LENT
from engine.placement.hardware.catalogue import machine
from engine.placement.items import Device, ItemKind
from engine.placement.plan import Mode
from engine.placement.planner import Planner
from engine.placement.predict import predict
from engine.placement.prefetch import (
    MOST_DEPTH,
    buffer_bytes,
    choose_prefetch,
    is_prefetchable,
    lendable,
    prefetched_seconds,
)
from engine.placement.prefetch_room import PrefetchRoom
from engine.placement.simulator import Simulator, choice_of
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
    return PrefetchRoom(times, everything, ITEM, ALL)


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
    room = PrefetchRoom(times, everything, buffer_bytes(items), sum(item.bytes for item in items), decode=decode)

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
        if mode is not Mode.LEAST_MEMORY:
            assert choice_of(made) == replace(planner.choose(made.gpu_budget), seconds=0.0)
        assert made.gpu.overhead == (planner.overhead + depth * planner.buffer_bytes if made.uses_gpu else 0)
        assert any(f" {depth} × " in note and "under way" in note for note in made.notes) == (depth > 0)
        assert len(made.lent) == (0 if mode is Mode.PREFILL else depth)
        told = [placed for placed in made.items if placed.reason == LENT]
        assert {placed.item.key for placed in told} == made.lent
        assert all(placed.device is Device.CPU for placed in told)
    assert len(depths) >= 2


def test_buffers_cost_decode_nothing_and_make_prompts_fast() -> None:
    planner = Planner(published_shape("qwen3-14b-q4_k_m"), LAPTOP)
    choice = planner.choose(6 * GiB)
    alone = choice.keeping(choice.lent)
    size = sum(size for size, there in zip(planner.sizes, alone.on_gpu, strict=True) if there)
    assert choice.lent and not alone.prefetch_depth and planner.overhead + size <= 6 * GiB
    chain = DeviceChain(
        planner.times.decode.cpu,
        planner.times.decode.gpu,
        planner.sizes,
        [item.kind is ItemKind.EMBEDDING for item in planner.items],
        planner.times.switch_seconds(decode=True),
    )
    assert alone.on_gpu == chain.on_gpu(6 * GiB - planner.overhead), "as if prompts needed no room"
    run, other = (Simulator(planner.times).run(made).speeds for made in (choice, alone))
    assert run.prefill > 1.3 * other.prefill
    assert other.decode == pytest.approx(planner.times.speeds(choice).decode)
    assert run.decode > 0.99 * other.decode
    made, work = planner.plan(Budget(6 * GiB)), planner.work
    there = {placed.item.key for placed in made.items if placed.device is Device.GPU}
    told = predict(
        planner.shape,
        LAPTOP,
        prompt=work.prompt,
        depth=work.depth,
        on_gpu=there,
        prefetch_depth=made.prefetch_depth,
        lent=made.lent,
    )
    assert told == made.predicted, "beside an answer as in the plan"


def test_blocks_that_are_lent_their_room_are_of_one_size() -> None:
    """Those whose room holds most of the others; what does not fit into it does not pass through."""
    times, choice, in_ram = random_times(Random(1), layers=8)
    items = list(times.model.items)
    blocks = [index for index, item in enumerate(items) if is_prefetchable(item)]

    def resized(index: int, first: float, last: float) -> None:
        *before, down = items[index].matrices
        before = [replace(matrix, bytes=int(matrix.bytes * first)) for matrix in before]
        matrices = (*before, replace(down, bytes=int(down.bytes * last)))
        more = sum(m.bytes for m in matrices) - sum(m.bytes for m in items[index].matrices)
        items[index] = replace(items[index], matrices=matrices, bytes=items[index].bytes + more)

    resized(blocks[0], 2, 1)
    resized(blocks[1], 1, 2)
    resized(blocks[2], 0.5, 0.5)
    assert lendable(items, [index in blocks[1:6] for index in range(len(items))]) == blocks[1:2]
    assert lendable(items, [index in blocks[2:6] for index in range(len(items))]) == blocks[3:6]
    assert lendable(items, [False] * len(items)) == []
    times.model = replace(times.model, items=tuple(items))
    away = tuple(there and index not in blocks for index, there in enumerate(choice.on_gpu))
    lent = Choice(away, (), prefetch_depth=1, lent=frozenset(blocks[3:4]))
    assert in_ram and not choose_prefetch(times, lent, decode=False) & set(blocks[:2])


def test_without_ram_for_their_copies_no_blocks_are_lent() -> None:
    shape, budget = published_shape("qwen3-14b-q4_k_m"), Budget(6 * GiB)
    made = Planner(shape, LAPTOP).plan(budget)
    short = LAPTOP.with_ram(made.ram.total - 1 + 2 * GiB)
    other = Planner(shape, short).plan(budget)
    assert made.lent and not other.lent and not other.prefetch_depth
    assert other.gpu.total == made.gpu.total and other.ram.total < made.ram.total
