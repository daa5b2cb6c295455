"""The kernels' tests catch planted faults. A few here; with --soak, all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cuda_mutations import MUTATIONS, Mutation, survives

SHORT = ("half a warp leaves out a shuffle", "an equal logit of a later expert wins")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = [m for m in MUTATIONS if metafunc.config.getoption("--soak") or m.name in SHORT]
    metafunc.parametrize("mutation", chosen, ids=[m.name for m in chosen])


def test_a_planted_fault_is_caught(mutation: Mutation, tmp_path: Path) -> None:
    passed = survives(mutation, tmp_path)
    assert not passed, f"{mutation.name}: no test failed\n{passed}"
