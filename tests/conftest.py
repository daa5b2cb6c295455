"""Fixtures and options of the whole suite."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the long forms of the seeded soak and fuzz tests")


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--soak"))


@pytest.fixture(scope="session")
def starter_model() -> Path:
    """SmolLM2-135M-Instruct, as `make run` installs it. A missing file fails: nothing is skipped."""
    from engine.hub.starter import ensure_starter_model

    return ensure_starter_model()
