"""Readings in the window: the minute's history, the status line, and measured speeds beside predicted ones."""

from __future__ import annotations

import pytest

from app.engine_client import Arrival
from app.telemetry.history import PER_SECOND, SECONDS, ByteRate, History, TokenRate, Trace
from engine.messages import ResidencyTold
from engine.telemetry.residency import ResidencySnapshot
from engine.telemetry.snapshot import GPUReading, TelemetrySnapshot

GiB = 1 << 30


def snapshot(time: float = 0.0, gpu: GPUReading | None = None) -> TelemetrySnapshot:
    gpus = () if gpu is None else (gpu,)
    return TelemetrySnapshot(
        time, 64 * GiB, 20 * GiB, 2 * GiB, 5 * GiB, 0.5, 0.25, 3e8, gpus, "" if gpu else "No driver."
    )


def test_history_keeps_a_minute_with_gaps_where_nothing_is_told():
    history = History()
    gpu = GPUReading("card", 12 * GiB, 4 * GiB, None, None, 1e9, None)
    for tick in range(SECONDS * PER_SECOND + 40):
        history.add(snapshot(tick / 4, gpu if tick % 2 else None), None, None)
    values = history.values[Trace.VRAM]
    assert len(values) == 240
    assert set(values) == {None, 4 * GiB}
    assert set(history.values[Trace.GPU]) == {None}
    assert history.latest(Trace.RAM) == 7 * GiB


def test_token_rate_counts_the_last_second_and_falls_silent():
    rate = TokenRate()
    for tick in range(40):
        rate.add(tick / 20, 1)
    assert rate.at(1.95) == pytest.approx(20, abs=1)
    assert rate.at(10.0) is None


def test_byte_rate_follows_totals_and_falls_silent():
    rate = ByteRate()
    assert rate.at(0.0) is None
    for tick in range(9):
        rate.add(tick / 4, 1000 * tick)
    assert rate.at(2.0) == pytest.approx(4000)
    assert rate.at(60.0) is None
    rate.add(61.0, 5)  # another model counts from the start
    assert rate.at(61.0) is None


def test_own_counters_go_before_the_drivers(app):
    feed = app.context.telemetry
    feed.close()
    card = GPUReading("card", 12 * GiB, 4 * GiB, 3 * GiB, 0.5, 1.2e9, 4e7)
    feed.take(snapshot(1.0, card))
    assert feed.history.latest(Trace.RECEIVED) == 1.2e9
    for time in (2.0, 3.0):
        told = ResidencySnapshot("card", GiB, 0, bytes_to_device=int(time * 5e6), bytes_to_host=int(time * 2e6))
        feed.handle_all([Arrival(time, ResidencyTold(told))])
    feed.take(snapshot(3.0, card))
    assert feed.history.latest(Trace.RECEIVED) == pytest.approx(5e6)
    assert feed.history.latest(Trace.SENT) == pytest.approx(2e6)
    assert app.window.status.cells["link"].text() == "PCIe ↓ 5 MB/s  ↑ 2 MB/s"


def test_the_status_line_says_n_a_for_what_is_not_known(app, qtbot):
    feed, cells = app.context.telemetry, app.window.status.cells
    feed.close()
    feed.take(snapshot(1.0))
    words = {name: cell.text() for name, cell in cells.items()}
    assert words["model"] == "Scripted 1B"
    assert words["vram"] == "VRAM n/a" and words["link"] == "PCIe n/a" and words["hits"] == "hits n/a"
    assert words["ram"] == "RAM 7.0 GiB"
    feed.take(snapshot(2.0, GPUReading("card", 12 * GiB, 4 * GiB, 3 * GiB, 0.5, 1.2e9, 4e7)))
    assert cells["vram"].text() == "VRAM 4.0 GiB"
    assert cells["link"].text() == "PCIe ↓ 1.2 GB/s  ↑ 40 MB/s"


def test_the_status_line_tells_the_last_answer_and_leads_to_the_page(app, qtbot):
    app.session.send("Hello")
    qtbot.waitUntil(lambda: app.context.telemetry.last_answer is not None)
    app.context.telemetry.take(snapshot(1e9))  # long after the last token
    assert app.window.status.cells["speed"].text() == f"{app.context.telemetry.last_speed:.1f} tok/s"
    app.window.status.clicked.emit()
    assert app.window.page("memory").isVisible()


def test_a_narrow_window_keeps_what_matters_most(app, qtbot):
    app.window.resize(420, 500)
    app.context.telemetry.take(snapshot(5.0))
    status = app.window.status
    qtbot.waitUntil(lambda: not status.cells["hits"].isVisible())
    assert status.cells["speed"].isVisible()
    assert sum(c.sizeHint().width() for c in status.cells.values() if c.isVisible()) <= status.width()


def test_a_new_model_forgets_the_last_answer(app, qtbot):
    app.session.send("Hello")
    qtbot.waitUntil(lambda: app.context.telemetry.last_answer is not None)
    app.context.models.reload()
    qtbot.waitUntil(lambda: app.context.telemetry.last_answer is None)
