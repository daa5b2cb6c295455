"""Runs the window from start to end."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from app.environment import DataFolder


def run_window(data_folder: Path | None) -> int:
    """Show the window; returns the exit status once it is closed."""
    from app.none_guard import hold_singletons

    hold_singletons()
    from PySide6.QtWidgets import QApplication, QStyleFactory

    from app.context import AppContext
    from app.crash import CrashHandler, install_qt_messages
    from app.single_instance import SingleInstance

    QApplication.setApplicationName("Tessera")
    QApplication.setDesktopFileName("tessera")
    application = QApplication([])
    folder = DataFolder(data_folder) if data_folder is not None else DataFolder.default()
    try:
        folder.create()
    except OSError as error:
        _tell_no_folder(folder, error)
        return 1
    instance = SingleInstance(folder)
    if not instance.acquire():
        shown = instance.call_the_first()
        print(
            "Tessera is running already" + (": its window was brought to the front." if shown else "."), file=sys.stderr
        )
        return 0 if shown else 1
    crash_handler = CrashHandler(folder.logs)
    crash_handler.install()
    install_qt_messages()
    application.setStyle(QStyleFactory.create("Fusion"))
    context = AppContext(application, folder, crash_handler)
    context.window.first_painted.connect(lambda: instance.listen(context.window.bring_to_front))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's handler would wait for Qt; all that was said is stored
    context.window.show()
    try:
        return application.exec()
    finally:
        context.close()
        instance.release()
        crash_handler.uninstall()


def _tell_no_folder(folder: DataFolder, error: OSError) -> None:
    """In a window too: whoever started from an icon sees no terminal."""
    from PySide6.QtCore import Qt
    from PySide6.QtWidgets import QMessageBox

    from app.translation import tr

    text = tr("The folder {path} cannot be used: {error}.", path=folder.root, error=error.strerror or error)
    remedy = tr("Check the free space and the permissions of {path}.", path=folder.root.parent)
    print(text, remedy, file=sys.stderr, flush=True)
    box = QMessageBox(QMessageBox.Icon.Critical, "Tessera", text)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setInformativeText(remedy)
    box.exec()
