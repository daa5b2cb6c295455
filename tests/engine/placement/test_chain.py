"""The knapsack in graph order against trying every choice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from engine.placement.chain import DeviceChain


def _seconds(choice: tuple[bool, ...], cpu: list[float], gpu: list[float], switch: float) -> float:
    path = (False, *choice, False)
    switches = sum(a != b for a, b in itertools.pairwise(path))
    return sum(g if there else c for c, g, there in zip(cpu, gpu, choice, strict=True)) + switches * switch


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("switch", [0.0, 0.3, 3.0])
def test_against_all_choices(seed: int, switch: float) -> None:
    random = np.random.default_rng(seed)
    cpu = random.uniform(0.5, 3, 9).tolist()
    gpu = random.uniform(0.05, 1, 9).tolist()
    sizes = (random.integers(1, 40, 9) * 64 * 1024).tolist()
    pinned = [True] + [False] * 8
    chain = DeviceChain(cpu, gpu, sizes, pinned, switch)
    for capacity in (0, sum(sizes) // 4, sum(sizes) // 2, sum(sizes)):
        fitting = [
            choice
            for choice in itertools.product((False, True), repeat=9)
            if not choice[0] and sum(s for s, there in zip(sizes, choice, strict=True) if there) <= capacity
        ]
        best = min(_seconds(choice, cpu, gpu, switch) for choice in fitting)
        assert chain.seconds(capacity) == pytest.approx(best)
        chosen = chain.on_gpu(capacity)
        assert chosen in fitting
        assert _seconds(chosen, cpu, gpu, switch) == pytest.approx(best)


def test_a_costly_switch_keeps_neighbours_together() -> None:
    unit = 64 * 1024
    chain = DeviceChain([1.0] * 6, [0.1] * 6, [unit] * 6, [False] * 6, 10.0)
    assert chain.on_gpu(3 * unit) == (False,) * 6
    chain = DeviceChain([1.0] * 6, [0.1] * 6, [unit] * 6, [False] * 6, 0.5)
    on_gpu = chain.on_gpu(3 * unit)
    assert sum(on_gpu) == 3
    assert sum(a != b for a, b in itertools.pairwise((False, *on_gpu, False))) == 2
