"""The menu of a cell: to the GPU, in RAM, or wherever the plan puts it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import QMenu, QWidget

from app.placement.map_cells import Cell
from app.translation import tr
from engine.placement.pins import Pins


def pin_menu(cell: Cell, pins: Pins, choose: Callable[[bool | None], None], parent: QWidget) -> QMenu:
    """`choose` is called with True for the GPU, False for RAM, None for no pin."""
    menu = QMenu(parent)
    menu.addAction(cell.name).setEnabled(False)
    menu.addSeparator()
    group = QActionGroup(menu)
    now = pinned(cell, pins)
    choices = ((None, tr("Where the plan puts it")), (True, tr("Keep on the GPU")), (False, tr("Keep in RAM")))
    for value, words in choices:
        action = menu.addAction(words, lambda value=value: choose(value))
        action.setCheckable(True)
        action.setChecked(value is now)
        group.addAction(action)
        if cell.item == "embedding" and value:  # a token reads a single row of it
            action.setEnabled(False)
    return menu


def pinned(cell: Cell, pins: Pins) -> bool | None:
    """Whether a cell is pinned to the GPU, to RAM, or not at all."""
    if cell.expert < 0:
        return pins.item(cell.item)
    for there in (True, False):
        if cell.expert in pins.experts(cell.item, on_gpu=there):
            return there
    return None
