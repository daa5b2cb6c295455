"""What the sanitizers' selection of tests leaves out, and what it must not."""

from __future__ import annotations

from itertools import product

from tests.support.all_pairs import covering

CASES = {
    f"{name}-{tier}-{tokens}-{machine}": {"name": name, "tier": tier, "tokens": tokens, "machine": machine}
    for name, tier, tokens, machine in product("abcdefgh", ("scalar", "avx2"), "1259", ("up", "down", "random"))
}


def test_all_pairs_meet_and_few_cases_do_it() -> None:
    kept = [CASES[name] for name in covering(CASES)]
    for one, two in (("name", "tier"), ("name", "tokens"), ("tier", "tokens")):
        assert {(c[one], c[two]) for c in kept} == {(c[one], c[two]) for c in CASES.values()}
    assert {c["machine"] for c in kept} == {"up", "down", "random"}
    assert len(kept) < len(CASES) / 4  # 32 would be the fewest of 192


def test_tests_with_one_parameter_or_none_all_run() -> None:
    cases = {"none": {}, "one": {"width": "1"}, "two": {"width": "2"}}
    assert covering(cases) == set(cases)
