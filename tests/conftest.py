"""Fixtures and options of the whole suite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.all_pairs import select_all_pairs

if TYPE_CHECKING:
    from tests.support.tiny_models import TinyModel


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the long forms of the seeded soak and fuzz tests")
    parser.addoption(
        "--brief",
        action="store_true",
        help="for sanitizers, under which tests take tens of times as long: of parametrised tests those cases in which "
        "each two values meet, of the starter model's texts the beginnings",
    )
    parser.addoption("--device", action="store_true", help="run the CUDA kernels' tests on an NVIDIA GPU")
    parser.addoption("--cuda-library", help="another build of the CUDA kernels for the host (sanitizers, mutations)")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--brief"):
        kept = select_all_pairs(items)
        config.hook.pytest_deselected(items=list(set(items) - set(kept)))
        items[:] = kept


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--soak"))


@pytest.fixture(scope="session")
def brief(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--brief"))


@pytest.fixture(scope="session")
def starter_model() -> Path:
    """SmolLM2-135M-Instruct, as `make run` installs it. A missing file fails: nothing is skipped."""
    from engine.hub.starter import ensure_starter_model

    return ensure_starter_model()


@pytest.fixture(scope="session")
def tiny_models(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[TinyModel], Path]:
    """Gives the path of a tiny random model, written at its first use."""
    from tests.support.tiny_models import tiny_model_factory

    folder = tmp_path_factory.mktemp("tiny_models")
    return tiny_model_factory(folder, lambda: Path(request.getfixturevalue("starter_model")))
