"""Runs the window from start to end."""

from __future__ import annotations

from pathlib import Path

from app.environment import DataFolder


def run_window(data_folder: Path | None) -> int:
    """Show the window; returns the exit status once it is closed."""
    from app.none_guard import hold_singletons

    hold_singletons()
    from PySide6.QtWidgets import QApplication, QStyleFactory

    from app.context import AppContext
    from app.crash import CrashHandler, install_qt_messages

    folder = DataFolder(data_folder) if data_folder is not None else DataFolder.default()
    folder.create()
    crash_handler = CrashHandler(folder.logs)
    crash_handler.install()
    install_qt_messages()
    QApplication.setApplicationName("Tessera")
    QApplication.setDesktopFileName("tessera")
    application = QApplication([])
    application.setStyle(QStyleFactory.create("Fusion"))
    context = AppContext(application, folder, crash_handler)
    context.window.show()
    try:
        return application.exec()
    finally:
        context.close()
        crash_handler.uninstall()
