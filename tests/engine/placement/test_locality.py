"""The locality model against the published hit rates, in closed form and by drawing and caching."""

from __future__ import annotations

import numpy as np
import pytest

from engine.placement.locality import (
    PROMOTED_SHARE,
    RoutingGenerator,
    chances_from_heat,
    recent_hit_rates,
    recent_hits,
    static_hit_rates,
    static_hits,
    use_chances,
)

# Published, of 512 experts: (slots, hit rate of recent use); a static top-32 list on other text
_RECENT = [(64, 0.67), (128, 0.81)]
_STATIC_32 = 0.10


@pytest.mark.parametrize(("slots", "published"), _RECENT)
def test_closed_form_reproduces_recent_use(slots: int, published: float) -> None:
    assert recent_hit_rates(use_chances(512, 10))[slots] == pytest.approx(published, abs=0.03)


@pytest.mark.parametrize(("slots", "published"), _RECENT)
def test_drawn_routing_through_a_real_cache_reproduces_recent_use(slots: int, published: float) -> None:
    routing = RoutingGenerator(512, 10, seed=3).text(1500)
    assert recent_hits(routing, slots) == pytest.approx(published, abs=0.05)


def test_static_list_of_another_text() -> None:
    assert static_hit_rates(512, 10)[32] == pytest.approx(_STATIC_32, abs=0.02)
    covered = []
    for seed in range(12):
        generator = RoutingGenerator(512, 10, seed)
        hottest = np.bincount(generator.text(600).ravel(), minlength=512).argsort()[::-1][:32]
        covered.append(static_hits(hottest.tolist(), generator.text(600)))
    assert np.mean(covered) == pytest.approx(_STATIC_32, abs=0.03)


@pytest.mark.parametrize(("experts", "used"), [(8, 2), (32, 4), (128, 8), (256, 8), (384, 8), (512, 10), (4, 4)])
def test_hit_rates_rise_from_nothing_to_everything(experts: int, used: int) -> None:
    for rates in (recent_hit_rates(use_chances(experts, used)), static_hit_rates(experts, used)):
        assert len(rates) == experts + 1
        assert rates[0] == 0
        assert rates[-1] == pytest.approx(1, abs=1e-3)
        assert (np.diff(rates) >= 0).all()


def test_chances_sum_to_the_experts_used() -> None:
    assert sum(use_chances(128, 8)) == pytest.approx(8)
    assert sum(chances_from_heat([100.0] * 3 + [0.0] * 61, 4)) == pytest.approx(4)


def test_even_heat_gives_the_share_of_slots() -> None:
    rates = recent_hit_rates(chances_from_heat([50.0] * 64, 4))
    assert rates[16] == pytest.approx(0.25, abs=0.02)


def test_recorded_heat_that_is_skewed_gives_more_hits_than_even_heat() -> None:
    skewed = recent_hit_rates(chances_from_heat([1000.0 / (i + 1) for i in range(64)], 4))
    assert skewed[16] > 0.5


def test_promotions_with_hysteresis_need_few_copies_and_keep_the_hit_rate() -> None:
    """The adaptive policy itself: decayed use counts, an expert replaces a resident only when clearly hotter."""
    routing = RoutingGenerator(128, 8, seed=5).text(1200)
    slots, decay, margin = 32, 0.99, 1.5
    counts, resident = np.zeros(128), set(range(slots))
    hits = misses = promotions = 0
    for number, row in enumerate(routing):
        counts *= decay
        counts[row] += 1
        for expert in row.tolist():
            if expert in resident:
                hits += number >= 300
                continue
            misses += number >= 300
            coldest = min(resident, key=lambda e: counts[e])
            if counts[expert] > margin * counts[coldest] + 1:
                resident.remove(coldest)
                resident.add(expert)
                promotions += number >= 300
    assert promotions / misses <= PROMOTED_SHARE
    assert hits / (hits + misses) >= recent_hit_rates(use_chances(128, 8))[slots] - 0.03
