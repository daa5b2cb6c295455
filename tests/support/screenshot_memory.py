"""States of the memory page worth looking at: models of published shapes, always on the same machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from PySide6.QtWidgets import QWidget

from engine.placement.hardware.catalogue import machine
from tests.support.shapes import published_shape

GiB = 1 << 30
TALL = (1120, 1480)


def memory_pages(stage: Any) -> Iterator[tuple[str, QWidget]]:
    yield "memory-moe", _open(stage, "Qwen3 30B A3B", "qwen3-30b-a3b-q4_k_m", "RTX 4070")
    page = stage.context.window.page("memory")
    page.budget.slider.setValue(4200)
    page.map.as_table.setChecked(True)
    stage.settle(0.5)
    yield "memory-table", stage.context.window
    yield "memory-large", _open(stage, "Kimi K2", "kimi-k2-q4_k_m", "RTX 5090", 1024 * GiB)
    yield "memory-dense", _open(stage, "Llama 3.1 8B", "llama-3.1-8b-q4_k_m", "RTX 3060 12GB")
    yield "memory-no-gpu", _open(stage, "Llama 3.1 8B", "llama-3.1-8b-q4_k_m", "")
    stage.has_model = False
    context = stage.start()
    context.window.show_page("memory")
    stage.settle()
    yield "memory-no-model", context.window
    stage.has_model = True


def _open(stage: Any, name: str, shape: str, gpu: str, ram: int = 64 * GiB) -> QWidget:
    context = stage.start(name=name, size=TALL)
    context.placement.read_shape = lambda _path: published_shape(shape)
    context.placement.read_machine = lambda: (machine("Ryzen 7 7700X", None, ram), True)
    context.settings.set("shown_machine", gpu)
    context.window.show_page("memory")
    stage.settle(1.2)
    return context.window
