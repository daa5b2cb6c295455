"""States of the memory page worth looking at: models of published shapes, always on the same machine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QMenu, QWidget

from app.placement import spill_watch
from app.placement.spill import spilled_bytes
from engine.messages import (
    ErrorInfo,
    MigrationProgress,
    ModelLoaded,
    PlacementRolledBack,
    RamBudgetTold,
    ResidencyTold,
    StepSpan,
    TimelineTold,
)
from engine.placement.hardware.catalogue import machine
from engine.runtime.devices.open import emulated_machine
from engine.telemetry.residency import RamUse, ResidencySnapshot
from engine.telemetry.snapshot import GPUReading, TelemetrySnapshot
from tests.support.residency import residency_of
from tests.support.scripted_engine import model_info
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
    page.map.as_table.setChecked(False)
    cells = page._cells
    for row, column in ((5, 0), (12, cells.tensor_columns + 100), (13, cells.tensor_columns + 2)):
        cell = cells.at(row, column)
        stage.context.placement.set_pin(cell.item, cell.expert, row != 13)
    stage.settle(0.8)
    page.map._open_menu(cell, page.map.view.mapToGlobal(QPoint(320, 140)))
    stage.settle(0.2)
    yield "memory-pins", stage.context.window
    menu = next(menu for menu in page.map.findChildren(QMenu) if menu.isVisible())
    yield "memory-pin-menu", menu
    menu.close()
    yield "memory-large", _open(stage, "Kimi K2", "kimi-k2-q4_k_m", "RTX 5090", 1024 * GiB)
    yield "memory-dense", _open(stage, "Llama 3.1 8B", "llama-3.1-8b-q4_k_m", "RTX 3060 12GB")
    yield "memory-no-gpu", _open(stage, "Llama 3.1 8B", "llama-3.1-8b-q4_k_m", "")
    own = stage.context.own_machine
    own.is_measuring, own.fraction, own.stage = True, 0.42, "products of Q4_K"
    own.progressed.emit()
    stage.settle(0.1)
    yield "memory-measuring", stage.context.window
    yield from _live_pages(stage)
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
    while context.placement.answer is None:  # planning takes longer on a busy machine
        stage.settle(0.1)
    stage.settle(1.2)
    return context.window


def _live_pages(stage: Any) -> Iterator[tuple[str, QWidget]]:
    """A model that runs on a device: what the engine tells, a drag, a migration, and one that was taken back."""
    window = _open(stage, "Qwen3 30B A3B", "qwen3-30b-a3b-q4_k_m", "")
    context, engine = stage.context, stage.engine
    path = context.models.info.path
    told = residency_of(published_shape("qwen3-30b-a3b-q4_k_m"), emulated_machine(), 6 * GiB)
    context.telemetry.close()
    engine.emit(ModelLoaded(replace(model_info(path, "Qwen3 30B A3B"), device="emulated (fast kernels)"), 2.0))
    ram = RamUse(13 * GiB, 3 * GiB // 2, GiB // 2, used_state=GiB // 2, kept_state=GiB // 4, on_disk=_on_disk(told))
    engine.emit(ResidencyTold(told, ram))
    stage.settle(1.0)
    for tick in range(240):
        context.telemetry._tokens.add(tick / 4, 7 + round(2 * math.sin(tick / 9)) if tick > 60 else 0)
        context.telemetry.take(_snapshot(tick))
    stage.settle(0.3)
    yield "memory-live", window
    page = window.page("memory")
    page.timeline.unfold.setChecked(True)
    stage.settle(1.0)
    simulated = page.timeline.simulation.decode.tasks
    spans = tuple(StepSpan(task.lane.value, task.name, task.start, task.end) for task in simulated)
    engine.emit(TimelineTold(spans))
    stage.settle(0.3)
    page.verticalScrollBar().setValue(page.verticalScrollBar().maximum())
    stage.settle(0.2)
    yield "memory-timeline", window
    page.timeline.unfold.setChecked(False)
    page.verticalScrollBar().setValue(0)
    page.budget.slider.setValue(9 * 1024)
    stage.settle(0.5)
    yield "memory-drag", window
    page.budget.choose(9 * GiB)
    engine.emit(MigrationProgress(9 * GiB, int(1.3 * GiB), int(3.1 * GiB), 214))
    stage.settle(0.4)
    yield "memory-moving", window
    error = ErrorInfo(
        "DeviceMemoryError",
        "The driver gave no memory for experts: out of memory.",
        "Nothing was changed.",
        "Close other programs that use the GPU, or allow less memory.",
    )
    engine.emit(PlacementRolledBack(9 * GiB, error, told))
    stage.settle(0.5)
    yield "memory-rolled-back", window
    page.budget.ram.setValue(9)
    refused = ErrorInfo(
        "ModelDoesNotFitError",
        "Qwen3 30B A3B needs 15.0 GiB of RAM, and 9.0 GiB may be used: 6.0 GiB are missing.",
        remedy="This would fit: a budget of 15.0 GiB.",
    )
    engine.emit(RamBudgetTold(9 * GiB, ram, refused))
    stage.settle(0.8)
    yield "memory-ram-refused", window
    spill_watch.spilled_bytes = lambda *_: int(1.2 * GiB)  # what WDDM does, this machine's system does not
    for tick in range(spill_watch.LOOKS):
        context.telemetry.take(_snapshot(240 + tick))
    stage.settle(0.3)
    yield "memory-spill", window
    spill_watch.spilled_bytes = spilled_bytes
    window.resize(440, 900)
    stage.settle(0.4)
    yield "memory-narrow", window


def _on_disk(told: ResidencySnapshot) -> frozenset[tuple[str, int]]:
    """The coldest experts in RAM of the last layers, as where RAM is short."""
    cold = {
        (bank.name, expert)
        for bank in told.banks[-9:]
        for expert in sorted(set(range(bank.count)) - set(bank.residents), key=lambda e, b=bank: b.heat[e])[:40]
    }
    return frozenset(cold | {("embedding", -1)})


def _snapshot(tick: int) -> TelemetrySnapshot:
    wave = math.sin(tick / 17)
    gpu = GPUReading("RTX 4070", 12 * GiB, 7 * GiB, 6 * GiB, 0.55 + 0.2 * wave, (1.1 + wave) * 4e8, 3e7)
    return TelemetrySnapshot(
        tick / 4,
        24 * GiB,
        6 * GiB,
        int((2 + 0.3 * wave) * GiB),
        int((9 + tick / 100) * GiB),
        0.4 + 0.25 * math.cos(tick / 11),
        0.3,
        max(0.0, 9e8 * math.cos(tick / 40)) if tick < 90 else 0.0,
        (gpu,),
    )
