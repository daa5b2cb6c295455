"""Measuring this machine: on request with progress, and by itself where the stored rates are wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.background import Background, MainThread
from app.placement.own_machine import CALM_SNAPSHOTS, QUIET_SNAPSHOTS, OwnMachine, _is_outdated, _learn_types
from engine.placement.hardware import store
from engine.placement.hardware.catalogue import machine
from engine.telemetry.gpus import GPUReport
from engine.telemetry.snapshot import TelemetrySnapshot

CALM = TelemetrySnapshot(0.0, 1 << 34, 1 << 30, 0, 0, cpu_load=0.02, own_cpu=0.01, disk_read=0.0)


@pytest.fixture
def own(qapp, tmp_path):
    thread = MainThread()
    made = OwnMachine(tmp_path, Background(thread), thread, lambda: False, lambda: made.loaded)
    made.loaded = ""
    made.told = []
    made.take_measurement = lambda _folder, progress: progress(0.5, "memory bandwidth")
    made.is_outdated = lambda _folder: True
    made.progressed.connect(lambda: made.told.append((made.is_measuring, made.fraction, made.stage)))
    yield made
    thread.close()


def test_measuring_tells_how_far_it_is(own, qtbot):
    with qtbot.waitSignal(own.measured):
        own.measure()
        own.measure()  # one at a time
    assert own.told == [(True, 0.0, ""), (True, 0.5, "memory bandwidth"), (False, 0.5, "memory bandwidth")]


def test_nothing_is_measured_beside_an_answer(own, qtbot):
    own._is_busy = lambda: True
    own.measure()
    assert own.told == []


def test_a_second_look_waits_for_a_long_quiet_moment(own, qtbot):
    looks = []
    own.is_outdated = lambda _folder: bool(looks.append(1))
    for _ in range(QUIET_SNAPSHOTS - 1):
        own.watch(CALM)
    own.watch(replace(CALM, cpu_load=0.6))  # somebody works: from the start again
    for _ in range(QUIET_SNAPSHOTS - 1):
        own.watch(CALM)
    qtbot.wait(20)
    assert looks == []
    for _ in range(3 * QUIET_SNAPSHOTS):
        own.watch(CALM)
    qtbot.waitUntil(lambda: looks == [1])
    assert not own.is_measuring


def test_outdated_rates_are_measured_again_by_themselves(own, qtbot):
    with qtbot.waitSignal(own.measured):
        for _ in range(QUIET_SNAPSHOTS):
            own.watch(CALM)


def test_types_of_a_loaded_model_are_learnt_once_in_a_quiet_moment(own, qtbot):
    learnt, told = [], []
    own.learn_types = lambda _folder, path: bool(learnt.append(path)) or path == "new.gguf"
    own.measured.connect(lambda: told.append(len(learnt)))
    for _ in range(2 * CALM_SNAPSHOTS):
        own.watch(CALM)  # no model is loaded
    own.loaded = "known.gguf"
    own._is_busy = lambda: True
    for _ in range(2 * CALM_SNAPSHOTS):
        own.watch(CALM)  # it answers
    qtbot.wait(20)
    assert learnt == []
    own._is_busy = lambda: False
    for _ in range(3 * CALM_SNAPSHOTS):
        own.watch(CALM)
    qtbot.waitUntil(lambda: learnt == ["known.gguf"])
    own.loaded = "new.gguf"
    for _ in range(CALM_SNAPSHOTS):
        own.watch(CALM)
    qtbot.waitUntil(lambda: told == [2])
    assert learnt == ["known.gguf", "new.gguf"]


def test_a_file_that_is_gone_teaches_nothing(tmp_path):
    assert not _learn_types(tmp_path, str(tmp_path / "gone.gguf"))


def test_rates_measured_beside_others_are_outdated(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "read_gpus", lambda: GPUReport((), "", ""))
    monkeypatch.setattr("engine.runtime.threads.default_threads", lambda: 2)
    monkeypatch.setattr("engine.placement.hardware.probe.is_outdated", lambda _cpu: False)
    assert not _is_outdated(tmp_path)  # nothing was measured: nothing is outdated
    path = store._path(tmp_path, 2, "auto", store.read_gpus())
    profile = replace(machine("Ryzen 7 5800X"), source="measured")
    store.save(profile, path)
    assert not _is_outdated(tmp_path)
    store.save(replace(profile, others_load=0.6), path)
    assert _is_outdated(tmp_path)


def test_the_page_shows_progress_and_plans_anew(open_memory, qtbot):
    memory = open_memory(gpu="")
    page, controller = memory.page, memory.controller
    assert page.subtitle.button.text() == "Measure again"
    before = memory.answer
    faster = replace(
        before.outlook.hardware, cpu=replace(before.outlook.hardware.cpu, bandwidth=400e9), others_load=0.5
    )
    controller.read_machine = lambda: (faster, True)
    words = []
    page.subtitle.bar.setAccessibleName("")
    controller.own_machine.take_measurement = lambda _folder, progress: progress(0.4, "products of Q4_K")
    controller.own_machine.progressed.connect(lambda: words.append(page.subtitle.words.text()))
    page.subtitle.button.click()
    qtbot.waitUntil(lambda: memory.answer is not before and memory.answer.outlook.hardware is faster)
    assert "Measuring this machine: products of Q4_K" in words
    assert "while other programs were busy" in page.subtitle.words.text()
    assert not page.subtitle.bar.isVisible()
