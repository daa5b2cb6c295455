"""An engine for the tests of its thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.client import EngineClient


@pytest.fixture
def client() -> Iterator[EngineClient]:
    with EngineClient() as client:
        yield client
