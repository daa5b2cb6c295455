"""Which blocks are prefetched: those with which the step ends first, by the pipeline of copies and products."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations
from random import Random

import pytest

from engine.placement.costs import Workload
from engine.placement.hardware.catalogue import machine
from engine.placement.hardware.profile import Link
from engine.placement.items import ItemKind
from engine.placement.prefetch import MOST_DEPTH, choose_prefetch, is_prefetchable, prefetched_seconds
from engine.placement.simulator import Simulator
from engine.placement.step_times import Choice, ItemTimes, StepTimes
from tests.support.shapes import dense_shape

MACHINE = machine("Ryzen 7 5800X", "RTX 4090", ram_bytes=1 << 40)
DEPTHS = range(1, MOST_DEPTH + 1)


def random_times(random: Random, layers: int, depth: int = 1) -> tuple[StepTimes, Choice, list[int]]:
    """Blocks of 4 ms on the CPU, more or less, beside a GPU and a link of any speed; some lie on the GPU, which has
    buffers for `depth` others."""
    shape = dense_shape(layers)
    size = max(item.bytes for item in StepTimes(shape, MACHINE, Workload()).model.items[1:-1])
    rate = size / random.uniform(0.5e-3, 20e-3)
    link = Link(rate, rate, rate, latency=10e-6, switch_seconds=random.uniform(0, 50e-6))
    times = StepTimes(shape, replace(MACHINE, link=link), Workload(prompt=32))
    fast, slow = random.uniform(0.05, 1.5), random.uniform(2, 6)
    gpu, cpu = ([1e-3 * ms * random.uniform(0.8, 1.2) for _ in times.model.items] for ms in (fast, slow))
    times.prefill = times.decode = ItemTimes(cpu, cpu, gpu)  # over what the rates of MACHINE would say
    share = random.choice((1.0, 0.7))
    on_gpu = [item.kind is not ItemKind.EMBEDDING for item in times.model.items]
    for index, item in enumerate(times.model.items):
        if item.kind is ItemKind.FEED_FORWARD and random.random() < share:
            on_gpu[index] = False
    in_ram = [i for i, item in enumerate(times.model.items) if is_prefetchable(item) and not on_gpu[i]]
    return times, Choice(tuple(on_gpu), (), prefetch_depth=depth), in_ram


@pytest.mark.parametrize("decode", [False, True], ids=["prompt", "decode"])
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("seed", range(12))
def test_no_other_set_of_blocks_is_better(seed: int, depth: int, decode: bool) -> None:
    times, choice, in_ram = random_times(Random(seed), 7, depth)
    chosen = choose_prefetch(times, choice, decode=decode)
    sets = chain.from_iterable(combinations(in_ram, count) for count in range(len(in_ram) + 1))
    least = min(prefetched_seconds(times, choice, set(some), decode=decode) for some in sets)
    assert chosen <= set(in_ram)
    assert prefetched_seconds(times, choice, chosen, decode=decode) <= 1.002 * least


@pytest.mark.parametrize("decode", [False, True], ids=["prompt", "decode"])
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("seed", range(6))
def test_no_even_spread_of_many_blocks_is_better(seed: int, depth: int, decode: bool) -> None:
    times, choice, in_ram = random_times(Random(100 + seed), 60, depth)
    spreads = [
        {i for at, i in enumerate(in_ram, phase) if (at + 1) * count // len(in_ram) > at * count // len(in_ram)}
        for count in range(len(in_ram) + 1)
        for phase in range(0, len(in_ram), 7)
    ]
    least = min(prefetched_seconds(times, choice, some, decode=decode) for some in spreads)
    chosen = choose_prefetch(times, choice, decode=decode)
    assert prefetched_seconds(times, choice, chosen, decode=decode) <= 1.005 * least


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("seed", range(8))
def test_the_simulator_runs_what_was_predicted(seed: int, depth: int) -> None:
    times, choice, _ = random_times(Random(200 + seed), 16, depth)
    run = Simulator(times).run(choice, tokens=1)
    for decode, seconds in ((False, run.prefill.seconds), (True, run.decode.seconds)):
        chosen = choose_prefetch(times, choice, decode=decode)
        assert seconds == pytest.approx(prefetched_seconds(times, choice, chosen, decode=decode), rel=1e-9)


def test_copies_take_their_share_of_ram_in_decode() -> None:
    """Where RAM is no faster than the link, a copy beside the CPU stops it for as long as it lasts."""
    random = Random(5)
    times, choice, in_ram = random_times(random, layers=16)
    assert times.hardware.link is not None
    narrow = replace(times.hardware, cpu=replace(times.hardware.cpu, bandwidth=times.hardware.link.to_gpu))
    free = prefetched_seconds(times, choice, in_ram[1::2], decode=True)
    times.hardware = narrow
    assert prefetched_seconds(times, choice, in_ram[1::2], decode=True) > 1.05 * free
    run = Simulator(times).run(choice, tokens=1)
    chosen = choose_prefetch(times, choice, decode=True)
    assert run.decode.seconds == pytest.approx(prefetched_seconds(times, choice, chosen, decode=True), rel=1e-9)
