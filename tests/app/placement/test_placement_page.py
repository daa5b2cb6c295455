"""The memory page as its owner uses it: on a machine without a GPU, planning for one of the catalogue."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QMenu, QToolTip

from app.placement.budget_slider import BudgetSlider
from app.placement.map_cells import GPU, RAM, MapCells
from engine.placement.heat import RecordedHeat
from engine.placement.items import model_items

GiB, MiB = 1 << 30, 1 << 20


def drag(qtbot, slider: BudgetSlider, budget: int, *, release: bool = True) -> None:
    target = QPoint(round(slider.x_of(budget)), slider.height() // 2)
    qtbot.mousePress(slider, Qt.MouseButton.LeftButton, pos=QPoint(round(slider.x_of(slider.value() * MiB)), 100))
    qtbot.mouseMove(slider, target)
    if release:
        qtbot.mouseRelease(slider, Qt.MouseButton.LeftButton, pos=target)


def test_opens_at_the_recommended_budget_and_says_that_it_is_simulated(memory):
    page, answer = memory.page, memory.answer
    marks = answer.outlook.marks
    assert 0 < marks.minimum < marks.recommended < marks.largest_safe < marks.card
    assert answer.preview.budget == marks.recommended == page.budget.slider.value() * MiB
    assert page.simulated.isVisible()
    assert page.subtitle.words.text().endswith("processor measured here, card from its datasheet")
    assert page.budget.field.value() == pytest.approx(marks.recommended / GiB, abs=0.01)
    assert page.budget.decode.number.text() == f"{answer.preview.plan.predicted.decode:,.0f}"
    assert "predicted" in page.budget.decode.note.text()


def test_dragging_previews_and_the_last_wish_wins(memory, qtbot):
    planned = []
    memory.controller.previewed.connect(lambda: planned.append(memory.answer.preview.budget))
    slider = memory.page.budget.slider
    for budget in (2, 3, 5, 7, 4):
        slider.setValue(budget * 1024)
    qtbot.waitUntil(lambda: bool(planned) and planned[-1] == 4 * GiB)
    assert len(planned) < 5
    plan = memory.answer.preview.plan
    assert plan.gpu.total <= 4 * GiB
    assert memory.page.budget.hits.number.text() == f"{plan.predicted.hit_rate * 100:.0f} %"


def test_the_map_shows_every_byte_of_the_plan(memory, qtbot):
    page = memory.page
    page.budget.slider.setValue(4 * 1024)
    qtbot.waitUntil(lambda: memory.answer.preview.budget == 4 * GiB)
    plan, cells = memory.answer.preview.plan, page._cells
    places = cells.of_plan(plan)
    assert np.array_equal(page.map.view._places, places)
    experts = places[:, cells.tensor_columns :]
    assert [(row == GPU).sum() for row in experts[1:-1]] == list(plan.slots)
    assert ((experts[1:-1] == GPU) | (experts[1:-1] == RAM)).all()
    on_gpu = {p.item.key for p in plan.items if p.device.value == "gpu"}
    for (row, column), cell in cells.tensors.items():
        assert (places[row, column] == GPU) == (cell.item in on_gpu)


def test_tensors_of_the_map_are_those_of_the_file(memory):
    cells, shape = memory.page._cells, memory.answer.outlook.shape
    names = {cell.name for cell in cells.tensors.values()}
    stacked = {t.name for layer in shape.layers for t in layer.tensors if "_exps" in t.name}
    assert names | stacked == {t.name for layer in shape.layers for t in layer.tensors} | {t.name for t in shape.outer}
    experts = sum(bank.bytes for bank in cells.banks.values())
    assert experts + sum({c.name: c.bytes for c in cells.tensors.values()}.values()) == shape.weight_bytes


def test_mouse_drags_the_slider_to_a_place_and_snaps_to_marks(memory, qtbot):
    slider, marks = memory.page.budget.slider, memory.answer.outlook.marks
    settled = []
    memory.page.budget.settled.connect(settled.append)
    drag(qtbot, slider, 6 * GiB, release=False)
    assert slider.value() * MiB == pytest.approx(6 * GiB, abs=marks.card / 200)
    assert not settled
    drag(qtbot, slider, marks.largest_safe + GiB)
    assert settled == [marks.largest_safe // MiB * MiB]
    drag(qtbot, slider, marks.recommended + 8 * MiB)
    assert slider.value() == marks.recommended // MiB


def test_keys_and_typed_values_change_the_budget(memory, qtbot):
    card = memory.page.budget
    before = card.slider.value()
    card.slider.setFocus()
    qtbot.keyClick(card.slider, Qt.Key.Key_Left)
    assert card.slider.value() == before - 64
    qtbot.keyClick(card.slider, Qt.Key.Key_Home)
    assert card.slider.value() == 0
    card.field.setFocus()
    card.field.lineEdit().selectAll()
    qtbot.keyClicks(card.field, "5.5")
    with qtbot.waitSignal(card.settled) as settled:
        qtbot.keyClick(card.field, Qt.Key.Key_Return)
    assert settled.args == [int(5.5 * GiB)]
    qtbot.waitUntil(lambda: memory.answer.preview.budget == int(5.5 * GiB))


def test_presets_are_the_marks(memory, qtbot):
    card, marks = memory.page.budget, memory.answer.outlook.marks
    for key in ("minimum", "largest_safe", "recommended"):
        card.presets[key].click()
        assert card.slider.value() == getattr(marks, key) // MiB


def test_another_card_changes_axis_and_speeds(memory, qtbot):
    before = memory.answer
    page = memory.page
    page.machine.setCurrentIndex(page.machine.findData("RTX 5090"))
    page.machine.activated.emit(page.machine.currentIndex())
    qtbot.waitUntil(lambda: memory.answer.outlook is not before.outlook)
    assert memory.answer.outlook.marks.card == 32 * GiB
    assert memory.answer.preview.plan.predicted.decode > before.preview.plan.predicted.decode
    assert memory.app.context.settings["shown_machine"] == "RTX 5090"


def test_without_a_gpu_everything_is_in_ram_and_nothing_is_simulated(open_memory):
    opened = open_memory("llama-3.1-8b-q4_k_m", "")
    page = opened.page
    assert not page.simulated.isVisible()
    assert not page.budget.slider.isVisible()
    assert page.budget.no_gpu.isVisible()
    assert not page.bars.gpu.isVisible()
    places = page.map.view._places
    assert set(np.unique(places[1:-1])) == {RAM}


def test_a_model_too_large_for_the_ram_says_what_would_fit(open_memory):
    opened = open_memory("qwen3-235b-a22b-q4_k_m", ram=32 * GiB)
    assert opened.answer.preview.plan is None
    assert "missing" in opened.page.budget.next_words.text()
    assert opened.page.budget.decode.number.text() == "–"


def test_a_longer_context_costs_memory_and_offers_to_load_again(memory, qtbot):
    card = memory.page.budget
    before = memory.answer.preview.plan
    assert not card.reload.isVisible()
    card.context.setValue(32768)
    qtbot.waitUntil(lambda: memory.answer.outlook.work.context == 32768)
    after = memory.answer.preview.plan
    assert after.gpu.state + after.ram.state == 8 * (before.gpu.state + before.ram.state)
    assert card.reload.isVisible()
    card.reload.click()
    assert memory.app.engine.commands[-1].options.context_length == 32768


def test_hover_and_arrow_keys_tell_name_type_size_place_and_reason(memory, qtbot):
    page = memory.page
    view, cells = page.map.view, page._cells
    box = view.cell_box(1, cells.tensor_columns)
    spot = box.center().toPoint()
    QApplication.sendEvent(view.viewport(), QHelpEvent(QEvent.Type.ToolTip, spot, view.viewport().mapToGlobal(spot)))
    words = QToolTip.text()
    assert "blk.0 expert 0" in words and "MiB" in words and "GPU" in words and "slots" in words
    view.setFocus()
    qtbot.keyClick(view, Qt.Key.Key_Down)
    qtbot.keyClick(view, Qt.Key.Key_Right)
    assert "blk.0.attn_q.weight" in view.accessibleDescription()
    assert "blk.0.attn_q.weight" in page.map.facts.text()


def test_zoom_keeps_the_cell_under_the_pointer(open_memory, qtbot):
    view = open_memory("kimi-k2-q4_k_m", "RTX 5090", 1024 * GiB).page.map.view
    row, column = 30, view._cells.tensor_columns + 200
    before = view.cell_box(row, column).center()
    view.zoom_by(2, QPointF(before))
    after = view.cell_box(row, column)
    assert view.zoom == 2.0
    assert abs(after.center().x() - before.x()) < 12 and abs(after.center().y() - before.y()) < 12
    cell = view.cell_at(after.center())
    assert (cell.row, cell.column) == (row, column)


def test_the_table_says_the_same_as_the_map(memory, qtbot):
    card = memory.page.map
    card.as_table.click()
    rows, cells = card.table.rows, memory.page._cells
    assert rows.rowCount() == 48 * 128 + 48 * 9 + 3
    place_of = {rows.data(rows.index(r, 0)): rows.data(rows.index(r, 3)) for r in range(rows.rowCount())}
    places = card.view._places
    for bank in cells.banks.values():
        for expert in (0, 64, 127):
            place = places[bank.layer + 1, cells.tensor_columns + expert]
            assert place_of[f"blk.{bank.layer} expert {expert}"] == ("GPU" if place == GPU else "RAM")
    assert not card.view.isVisible() and card.table.isVisible()


def test_a_table_of_many_lines_makes_those_that_are_seen(open_memory, qtbot, monkeypatch):
    opened = open_memory("kimi-k2-q4_k_m", "RTX 5090", 1024 * GiB)
    made, at = [], MapCells.at
    monkeypatch.setattr(MapCells, "at", lambda cells, row, column: made.append((row, column)) or at(cells, row, column))
    card = opened.page.map
    card.as_table.click()
    qtbot.waitUntil(card.table.isVisible)
    rows = card.table.rows
    assert rows.rowCount() > 60 * 384
    card.table.scrollToBottom()
    card.table.viewport().repaint()
    assert len(made) < 2000
    lines, cells = card.text.lines, opened.page._cells
    wanted = {}
    for row in range(cells.rows):
        for column in range(cells.columns):
            if (cell := at(cells, row, column)) is not None:
                wanted.setdefault(cell.name, cell)
    assert [line.name for line in lines] == list(wanted)


def test_an_unreadable_model_says_so(start, qtbot):
    app = start()  # its file is no GGUF file
    app.window.show_page("memory")
    page = app.window.page("memory")
    qtbot.waitUntil(lambda: page.notice.isVisible() and "Scripted-1B" in page.notice.cause.text())
    assert not page.budget.isVisible()


def test_measured_speed_stands_beside_predicted_on_this_machine_only(open_memory, qtbot):
    opened = open_memory("llama-3.1-8b-q4_k_m", "")
    opened.app.session.send("Hello")
    feed = opened.app.context.telemetry
    qtbot.waitUntil(lambda: feed.last_answer is not None)
    note = opened.page.budget.decode.note
    qtbot.waitUntil(lambda: "measured" in note.text())
    assert f"{feed.last_answer.depth}" in note.text()
    opened.controller.set_machine("RTX 4070")
    qtbot.waitUntil(lambda: opened.answer.machine.simulated)
    assert "measured" not in note.text()


def test_a_narrow_window_needs_no_sideways_scrolling(memory, qtbot):
    memory.app.window.resize(560, 700)
    qtbot.waitUntil(lambda: memory.page.body.width() == memory.page.viewport().width() < 560)
    assert memory.page.horizontalScrollBar().maximum() == 0
    assert not memory.page.budget.presets["minimum"].isVisible()
    memory.app.window.resize(1120, 780)
    qtbot.waitUntil(lambda: memory.page.budget.presets["minimum"].isVisible())


def test_plans_go_by_what_was_recorded_of_the_experts(open_memory, qtbot):
    memory = open_memory()
    plain = memory.answer
    assert plain.outlook.recorded is None
    banks = model_items(plain.outlook.shape).banks
    row = [0.0] * 112 + [2048.0] * 16
    recorded = RecordedHeat(4096.0, {bank.key: row for bank in banks})
    memory.controller.read_heat = lambda _shape: recorded
    memory.controller.forget_machine()  # anything that needs a new forecast
    qtbot.waitUntil(lambda: memory.answer is not plain and memory.answer.outlook.recorded is not None)
    assert memory.answer.preview.plan.predicted.hit_rate > plain.preview.plan.predicted.hit_rate
    assert "about 4,096 tokens" in memory.page.map.facts.text()
    levels = memory.page.map.view._levels
    cells = memory.page._cells
    assert levels[1, cells.tensor_columns + 127] > levels[1, cells.tensor_columns]


def press(memory, cell, words: str, qtbot) -> None:
    """The cell's menu, and one of its lines."""
    view = memory.page.map.view
    before = memory.answer
    menus = set(memory.page.map.findChildren(QMenu))
    view.cell_pressed.emit(cell, QPoint(10, 10))
    (menu,) = set(memory.page.map.findChildren(QMenu)) - menus
    next(action for action in menu.actions() if action.text() == words).trigger()
    menu.close()
    qtbot.waitUntil(lambda: memory.answer is not before)


def test_pressing_a_cell_pins_it(open_memory, qtbot):
    memory = open_memory()
    cells = memory.page._cells
    expert = cells.at(41, cells.tensor_columns + 100)
    assert memory.page.map.view._places[expert.row, expert.column] == RAM
    press(memory, expert, "Keep on the GPU", qtbot)
    assert memory.page.map.view._places[expert.row, expert.column] == GPU
    assert memory.page.map.view._pinned == [(expert.row, expert.column)]
    assert "kept on the GPU by you" in memory.page.map.describe(expert)
    tensor = cells.at(5, 0)
    press(memory, tensor, "Keep in RAM", qtbot)
    assert memory.page.map.view._places[tensor.row, tensor.column] == RAM
    assert "pinned by you" in memory.page.map.describe(tensor)
    press(memory, expert, "Where the plan puts it", qtbot)
    press(memory, tensor, "Where the plan puts it", qtbot)
    assert memory.page.map.view._pinned == []


def test_a_pin_leaves_its_cells_colour_to_be_seen(open_memory, qtbot):
    memory = open_memory()
    cells, view = memory.page._cells, memory.page.map.view
    expert = cells.at(41, cells.tensor_columns + 100)
    box = view.cell_box(expert.row, expert.column).toRect()

    def colors() -> Counter[int]:
        picture = view.viewport().grab(box).toImage()
        return Counter(picture.pixel(x, y) for x in range(picture.width()) for y in range(picture.height()))

    press(memory, cells.at(41, cells.tensor_columns + 101), "Keep on the GPU", qtbot)
    ((before, pixels),) = colors().most_common(1)
    press(memory, expert, "Keep in RAM", qtbot)
    qtbot.waitUntil(lambda: len(colors()) > 1)
    assert colors()[before] >= pixels / 3


def test_pins_that_find_no_room_are_said(open_memory, qtbot):
    memory = open_memory()
    cells = memory.page._cells
    press(memory, cells.at(1, cells.tensor_columns), "Keep on the GPU", qtbot)
    memory.controller.set_budget(200 << 20)
    qtbot.waitUntil(lambda: memory.answer.preview.plan is None)
    assert "What is pinned to the GPU needs" in memory.page.budget.next_words.text()


def test_a_cell_is_pinned_by_keys_and_in_the_table(open_memory, qtbot):
    memory = open_memory()
    pressed = []
    view = memory.page.map.view
    view.cell_pressed.disconnect()
    view.cell_pressed.connect(lambda cell, _at: pressed.append(cell))
    view.setFocus()
    qtbot.keyClick(view, Qt.Key.Key_Down)
    qtbot.keyClick(view, Qt.Key.Key_Return)
    memory.page.map.as_table.click()
    table = memory.page.map.table
    table.cell_pressed.disconnect()
    table.cell_pressed.connect(lambda cell, _at: pressed.append(cell))
    table.activated.emit(table.rows.index(3, 0))
    assert [type(cell).__name__ for cell in pressed] == ["Cell", "Cell"]
    assert pressed[1] is table.rows.cell(3)
