"""Runs the window from start to end."""

from __future__ import annotations

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

    folder = DataFolder(data_folder) if data_folder is not None else DataFolder.default()
    folder.create()
    QApplication.setApplicationName("Tessera")
    QApplication.setDesktopFileName("tessera")
    application = QApplication([])
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
    context.window.show()
    try:
        return application.exec()
    finally:
        context.close()
        instance.release()
        crash_handler.uninstall()
