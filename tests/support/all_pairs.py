"""All-pairs selection of parametrised tests: for runs in which every test costs ten times as much (sanitizers)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from zlib import crc32

import pytest

Case = Mapping[str, str]  # parameters and their values
Pair = tuple[tuple[str, str], ...]  # two parameters with their values; or one
ORDER = "machine"  # the order of CUDA threads: each at least once, but not with every other value


def select_all_pairs(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Of every test so many cases that each two values of two parameters meet at least once, in the order given."""
    cases: dict[str, dict[str, Case]] = defaultdict(dict)
    for item in items:
        cases[item.nodeid.partition("[")[0]][item.nodeid] = _parameters(item)
    kept = {name for some in cases.values() for name in covering(some)}
    return [item for item in items if item.nodeid in kept]


def covering(cases: Mapping[str, Case]) -> set[str]:
    """Names of cases in which every pair that occurs in `cases` occurs; greedy, so few but not the fewest."""
    # From a fixed shuffle, so that the values of a parameter take turns among those of the others.
    pairs = {name: _pairs(cases[name]) for name in sorted(cases, key=lambda name: crc32(name.encode()))}
    missing = set().union(*pairs.values())
    kept = {name for name, own in pairs.items() if not own}  # without parameters
    while missing:
        best = max(pairs, key=lambda name: len(pairs[name] & missing))
        kept.add(best)
        missing -= pairs[best]
    return kept


def _parameters(item: pytest.Item) -> Case:
    if not (isinstance(item, pytest.Function) and hasattr(item, "callspec")):
        return {}
    return {name: repr(value) for name, value in item.callspec.params.items()}


def _pairs(case: Case) -> set[Pair]:
    singles: set[Pair] = {(value,) for value in case.items()}
    return singles | set(combinations([value for value in case.items() if value[0] != ORDER], 2))
