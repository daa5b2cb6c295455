"""Menus that are made when they are asked for."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QMenu, QWidget


def open_menu(menu: QMenu, at: QPoint) -> None:
    """Show it at a point of the screen; once it is closed it is gone, and not one of its parent's children for good."""
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    menu.popup(at)


def open_below(menu: QMenu, button: QWidget) -> None:
    open_menu(menu, button.mapToGlobal(button.rect().bottomLeft()))
