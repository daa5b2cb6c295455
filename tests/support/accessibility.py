"""What a person without mouse or sight meets: names, Tab, arrows, Escape, and where the keyboard is afterwards."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialog,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)
from shiboken6 import isValid

import app

CONTROLS = (QAbstractButton, QLineEdit, QTextEdit, QPlainTextEdit, QComboBox, QAbstractSpinBox)
_LOOKS, _LOOK_MS = 400, 10  # for a dialog that opens


def name_of(widget: QWidget) -> str:
    """As screen readers are told: its own, its words, or those of the label that belongs to it."""
    text = widget.text() if isinstance(widget, QAbstractButton) else ""
    if named := widget.accessibleName() or text:
        return named
    interface = QAccessible.queryAccessibleInterface(widget)
    return str(interface.text(QAccessible.Text.Name)) if interface is not None else ""


def is_part(widget: QWidget) -> bool:
    """A part of another control: the line of a spin box, Qt's own buttons."""
    holders = QAbstractSpinBox | QComboBox | QLineEdit
    return isinstance(widget.parent(), holders) or widget.objectName().startswith("qt_")


def is_reached_by_arrows(widget: QWidget) -> bool:
    """One of several exclusive buttons: Tab reaches the chosen one, the arrows the others."""
    return isinstance(widget, QAbstractButton) and widget.group() is not None and not widget.isChecked()


def takes_tab(widget: QWidget) -> bool:
    return widget.isEnabled() and bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus)


def parts(window: QWidget) -> list[QWidget]:
    return [
        widget
        for widget in window.findChildren(QWidget)
        if widget.window() is window and widget.isVisible() and not is_part(widget)
    ]


def unnamed(window: QWidget) -> list[str]:
    return [
        f"{type(widget).__name__} {widget.objectName()} in {type(widget.parent()).__name__}"
        for widget in parts(window)
        if (isinstance(widget, CONTROLS) or takes_tab(widget)) and not name_of(widget)
    ]


def missed(window: QWidget, qtbot) -> list[str]:
    """Controls that Tab does not come by."""
    widgets = parts(window)
    wanted = {
        widget
        for widget in widgets
        if widget.isEnabled()
        and (isinstance(widget, CONTROLS) or takes_tab(widget))
        and not is_reached_by_arrows(widget)
    }
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    seen: set[QWidget] = set()
    for _ in range(2 * len(widgets)):
        window.focusNextChild()
        focused = QApplication.focusWidget()
        while focused is not None:  # a spin box hands the focus to its line
            seen.add(focused)
            focused = focused.parentWidget()
    return [f"{type(widget).__name__} {name_of(widget)}" for widget in wanted - seen]


def walk_dialog(window: QWidget, qtbot, open_it: Callable[[], object]) -> list[str]:
    """What is wrong with the dialog that `open_it` opens, whether that returns at once or when the dialog is closed."""
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    before = QApplication.focusWidget()
    wrong: list[str] = [] if before is not None else ["nothing had the keyboard before"]
    seen: list[QDialog] = []

    def look(left: int = _LOOKS) -> None:
        dialog = QApplication.activeModalWidget() or QApplication.activePopupWidget()
        if not isinstance(dialog, QDialog):
            if left:
                QTimer.singleShot(_LOOK_MS, lambda: look(left - 1))
            return
        seen.append(dialog)
        try:
            wrong.extend(_what_is_wrong(dialog, qtbot))
        finally:
            if dialog.isVisible():
                wrong.append("Escape does not close it")
                dialog.reject()

    QTimer.singleShot(0, look)
    open_it()
    qtbot.waitUntil(lambda: bool(seen) and not (isValid(seen[0]) and seen[0].isVisible()))
    window.activateWindow()  # as a window manager does; there is none here
    qtbot.waitUntil(window.isActiveWindow)
    if QApplication.focusWidget() is not before:
        wrong.append(f"the keyboard went from {before} to {QApplication.focusWidget()}")
    return wrong


def _what_is_wrong(dialog: QDialog, qtbot) -> list[str]:
    """Closes it, too, if Escape does."""
    wrong = [] if dialog.windowTitle() or dialog.accessibleName() else ["it has no title"]
    wrong += [f"no name: {words}" for words in unnamed(dialog)]
    wrong += [f"Tab misses {words}" for words in missed(dialog, qtbot)]
    QTest.keyClick(QApplication.focusWidget() or dialog, Qt.Key.Key_Escape)
    return wrong


def walk_menu(window: QWidget, qtbot, open_it: Callable[[], object]) -> list[str]:
    """What is wrong with the menu that `open_it` opens: the arrows come by every line, Escape leaves it."""
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    before = QApplication.focusWidget()
    assert before is not None
    QTimer.singleShot(0, open_it)  # the menu of a button returns when it is closed
    qtbot.waitUntil(lambda: isinstance(QApplication.activePopupWidget(), QMenu))
    menu = QApplication.activePopupWidget()
    assert isinstance(menu, QMenu)
    wrong = _lines_missed(menu)
    QTest.keyClick(menu, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: QApplication.activePopupWidget() is None)
    if QApplication.focusWidget() is not before:
        wrong.append(f"the keyboard went from {before} to {QApplication.focusWidget()}")
    return wrong


def _lines_missed(menu: QMenu) -> list[str]:
    lines = [action for action in menu.actions() if not action.isSeparator() and action.isVisible()]
    wrong = [] if lines else ["it is empty"]
    wrong += ["a line without words" for action in lines if not action.text()]
    seen = []
    for _ in range(len(lines) + 1):
        QTest.keyClick(menu, Qt.Key.Key_Down)
        seen.append(menu.activeAction())
        submenu = menu.activeAction().menu() if menu.activeAction() is not None else None
        if isinstance(submenu, QMenu):
            QTest.keyClick(menu, Qt.Key.Key_Right)
            wrong += _lines_missed(submenu) if submenu.isVisible() else ["a submenu does not open"]
            QTest.keyClick(submenu, Qt.Key.Key_Left)
    return wrong + [f"the arrows miss {action.text()}" for action in lines if action.isEnabled() and action not in seen]


def walk_lists(window: QWidget, qtbot) -> list[str]:
    """The same of every drop-down list of a window."""
    wrong = []
    for box in window.findChildren(QComboBox):
        if not (box.isVisible() and box.isEnabled()):
            continue
        box.setFocus()
        QTest.keyClick(box, Qt.Key.Key_Space)
        name = name_of(box)
        if not box.view().isVisible():
            wrong.append(f"{name} does not open")
            continue
        wrong += [f"{name}: line {row} has no words" for row in range(box.count()) if not box.itemText(row)]
        QTest.keyClick(box.view(), Qt.Key.Key_Escape)
        qtbot.waitUntil(lambda box=box: not box.view().isVisible())
        if QApplication.focusWidget() is not box:
            wrong.append(f"{name} does not keep the keyboard")
    return wrong


# --- what there is to be walked ---------------------------------------------------------------------------------

_ASKING = {"QFileDialog", "QInputDialog", "QMessageBox"}


def opened_in_source() -> set[str]:
    """Every place of the source where a dialog or a menu is made, as "folder/module:function" (or class)."""
    root = Path(app.__file__).parent
    found = set()
    for path in sorted(root.rglob("*.py")):
        module = path.relative_to(root).with_suffix("").as_posix()
        found |= {f"{module}:{name}" for name in _made_in(ast.parse(path.read_text(encoding="utf-8")))}
    return found


def _made_in(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            if any(isinstance(base, ast.Name) and base.id == "QDialog" for base in node.bases):
                yield node.name
            yield from (part.name for part in node.body if isinstance(part, ast.FunctionDef) and _asks(part))
        elif isinstance(node, ast.FunctionDef) and _asks(node):
            yield node.name


def _asks(function: ast.FunctionDef) -> bool:
    return any(map(_makes, ast.walk(function)))


def _makes(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return function.value.id in _ASKING
    return isinstance(function, ast.Name) and function.id in {"QMenu", *_ASKING}
