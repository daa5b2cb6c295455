"""Rounds interleave, drop what the machine disturbed, and compare within a round only."""

from __future__ import annotations

import math

import pytest

from engine.benchmark.rounds import Comparison, Measure, Turn, best_threads, best_variant, compare


class FixedSpeed:
    """A worker whose prefill takes `seconds`, and which notes when it ran."""

    def __init__(self, label: str, seconds: float, log: list[str]) -> None:
        self.label, self.seconds, self.log = label, seconds, log

    def prefill(self, tokens: int) -> float:
        self.log.append(self.label)
        return self.seconds

    def fill(self, depth: int) -> None:
        raise AssertionError("prefill needs no filled cache")


MEASURE = Measure("prefill", 100)


def test_order_alternates_and_ratio_is_ours_to_theirs() -> None:
    log: list[str] = []
    workers = [FixedSpeed("a", 1.0, log), FixedSpeed("b", 2.0, log)]
    result = compare(workers, MEASURE, rounds=2, probe=lambda: 10.0)
    assert log == ["a", "b", "a", "b", "b", "a"]  # a warm-up each, then A B, then B A
    assert result.ratio("a", "b") == 2.0
    assert result.speed("b") == 50.0
    assert result.dropped == 0


def test_turns_with_unsteady_bandwidth_are_dropped_and_tried_again() -> None:
    probes = iter([10.0, 20.0, 10.0, 10.5])
    result = compare([FixedSpeed("a", 1.0, [])], MEASURE, rounds=1, probe=lambda: next(probes))
    assert result.dropped == 1
    assert [turn.bandwidth for turn in result.turns] == [10.25]


def test_rounds_in_which_one_is_missing_do_not_count() -> None:
    turns = (
        Turn("a", MEASURE, 0, 30.0, 1.0),
        Turn("b", MEASURE, 1, 10.0, 1.0),
        Turn("a", MEASURE, 2, 20.0, 1.0),
        Turn("b", MEASURE, 2, 10.0, 1.0),
    )
    comparison = Comparison(MEASURE, turns, 0)
    assert comparison.ratio("a", "b") == 2.0
    assert math.isnan(Comparison(MEASURE, turns[:2], 0).ratio("a", "b"))


def test_roofline_share_uses_the_turns_own_bandwidth() -> None:
    turns = (Turn("a", MEASURE, 0, 10.0, 100.0), Turn("a", MEASURE, 1, 20.0, 200.0))
    assert Comparison(MEASURE, turns, 0).roofline_share("a", 5.0) == pytest.approx(0.5)


def test_fastest_variant_is_chosen() -> None:
    fast, slow = FixedSpeed("fast", 1.0, []), FixedSpeed("slow", 3.0, [])
    assert best_variant([slow, fast], MEASURE) is fast


class ThreadedSpeed(FixedSpeed):
    """Fastest with two threads."""

    def use_threads(self, count: int) -> None:
        self.seconds = abs(count - 2) + 1.0


def test_fastest_thread_count_is_chosen() -> None:
    log: list[str] = []
    assert best_threads(ThreadedSpeed("peer", 1.0, log), MEASURE, (1, 2, 4)) == 2
    assert len(log) == 6
    assert best_threads(FixedSpeed("ours", 1.0, log), MEASURE, (3,)) == 3
    assert len(log) == 6
