"""Runs the window from start to end."""

from __future__ import annotations

import gc
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app.environment import DataFolder
from app.start_error import StartError
from app.translation import tr

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication


def make_application() -> QApplication:
    gc.disable()  # the window has a collection of its own (garbage.py); during the imports it costs 8 % of the start
    from app.none_guard import hold_singletons

    hold_singletons()
    from PySide6.QtWidgets import QApplication, QStyleFactory

    QApplication.setApplicationName("Tessera")
    QApplication.setDesktopFileName("tessera")
    application = QApplication([])
    application.setStyle(QStyleFactory.create("Fusion"))
    return application


def run_window(folder: DataFolder, model: Path | None = None) -> int:
    """Show the window, with `model` if one is given; returns the exit status once it is closed."""
    application = make_application()
    from app.context import AppContext
    from app.crash import CrashHandler, install_qt_messages
    from app.data_version import bring_up_to_date
    from app.single_instance import SingleInstance

    try:
        folder.create()
    except OSError as error:
        raise _no_folder(folder, error) from error
    instance = SingleInstance(folder)
    if not instance.acquire():
        if not instance.call_the_first(model):
            raise _no_answer()
        print("Tessera is running already: its window was brought to the front.", file=sys.stderr)
        return 0
    bring_up_to_date(folder)
    is_first = not folder.settings.exists() and not folder.database.exists()
    crash_handler = CrashHandler(folder.logs)
    crash_handler.install()
    install_qt_messages()
    context = AppContext(application, folder, crash_handler)
    if model is not None:
        context.models.load(model.absolute())
    elif is_first:
        context.window.show_page("welcome")
    context.window.first_painted.connect(lambda: instance.listen(context.second_start))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's handler would wait for Qt; all that was said is stored
    context.window.show()
    try:
        return application.exec()
    finally:
        context.close()
        instance.release()
        crash_handler.uninstall()


def _no_folder(folder: DataFolder, error: OSError) -> StartError:
    return StartError(
        tr("The folder {path} cannot be used: {error}.", path=folder.root, error=error.strerror or error),
        tr("Check the free space and the permissions of {path}.", path=folder.root.parent),
    )


def _no_answer() -> StartError:
    return StartError(
        tr("Tessera is running already, but its window does not answer."),
        tr("Wait a moment, or end the process “tessera”, then start it again."),
    )
