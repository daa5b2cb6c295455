"""Dialogs and menus of the library: named, reached with Tab or the arrows, left with Escape."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from tests.app.library.test_downloads_page import start_downloads, wait_for_progress
from tests.app.library.test_models_page import put
from tests.support.accessibility import walk_dialog, walk_lists, walk_menu


def with_model(order: str) -> Callable:
    """Presses a button of the drawer."""

    def prepare(library, qtbot) -> Callable:
        page = library.tab("models")
        page.table.select(put(library, "Alpha-Q8_0.gguf", qtbot))
        button = page.drawer.buttons[order]
        button.setFocus()
        return lambda: QTest.keyClick(button, Qt.Key.Key_Space)

    return prepare


def in_models(run: Callable) -> Callable:
    def prepare(library, qtbot) -> Callable:
        page = library.tab("models")
        page.field.setFocus()
        return lambda: run(page)

    return prepare


def hub_access(library, qtbot) -> Callable:
    library.tab("discover").field.setFocus()
    return library.page.open_hub_dialog


def cancel_download(library, qtbot) -> Callable:
    page = library.tab("downloads")
    (first,) = start_downloads(library, "alpha")
    button = wait_for_progress(page, first, qtbot).cancel
    button.setFocus()
    return lambda: QTest.keyClick(button, Qt.Key.Key_Space)


DIALOGS: dict[str, Callable] = {
    "library/download_row:_press": cancel_download,
    "library/hub_dialog:HubDialog": hub_access,
    "library/models_page:_delete": with_model("delete"),
    "library/models_page:_rename": with_model("rename"),
    "library/models_page:_verify": with_model("verify"),
    "library/models_page:add_files": in_models(lambda page: page.add_files([page.table.current().path])),
    "library/models_page:choose_files": in_models(lambda page: page.choose_files()),
    "library/models_page:choose_folder": in_models(lambda page: page.choose_folder()),
    "library/models_page:choose_new_folder": in_models(lambda page: page.choose_new_folder()),
}
MENUS = ("library/models_page:_more_button",)


@pytest.mark.parametrize("place", DIALOGS)
def test_dialogs(library, place, qtbot):
    open_it = DIALOGS[place](library, qtbot)
    assert walk_dialog(library.app.window, qtbot, open_it) == []


def test_the_menu_of_my_models(library, qtbot):
    library.app.window.activateWindow()
    qtbot.waitUntil(library.app.window.isActiveWindow)
    button = library.tab("models").more
    button.setFocus()
    assert walk_menu(library.app.window, qtbot, lambda: QTest.keyClick(button, Qt.Key.Key_Space)) == []


@pytest.mark.parametrize("tab", ["models", "discover", "downloads"])
def test_drop_down_lists(library, tab, qtbot):
    library.tab(tab)
    library.app.window.activateWindow()
    qtbot.waitUntil(library.app.window.isActiveWindow)
    assert walk_lists(library.app.window, qtbot) == []
