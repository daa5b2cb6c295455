"""The memory page of a running application, for models of published shapes on machines of the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from app.placement.placement_page import PlacementPage
from engine.placement.hardware.catalogue import machine
from tests.support.shapes import published_shape

GiB = 1 << 30


@dataclass
class Opened:
    app: Any
    page: PlacementPage

    @property
    def controller(self):
        return self.app.context.placement

    @property
    def answer(self):
        return self.controller.answer


@pytest.fixture
def open_memory(start: Callable[..., Any], qtbot) -> Callable[..., Opened]:
    def make(shape: str = "qwen3-30b-a3b-q4_k_m", gpu: str = "RTX 4070", ram: int = 64 * GiB) -> Opened:
        app = start()
        controller = app.context.placement
        controller.read_shape = lambda _path: published_shape(shape)
        controller.read_machine = lambda: (machine("Ryzen 7 7700X", None, ram), True)
        app.context.settings.set("shown_machine", gpu)
        app.window.show_page("memory")
        page = app.window.page("memory")
        qtbot.waitUntil(lambda: page.traces.isVisible() and not page.is_under_way)
        return Opened(app, page)

    return make


@pytest.fixture
def memory(open_memory: Callable[..., Opened]) -> Opened:
    return open_memory()
