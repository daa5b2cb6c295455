"""What stops Tessera before there is a window: said in a dialog by whatever means there are, and written to a log.

Free of Qt, which may be just what is missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from app.environment import platform_is_chosen, wants_wayland
from app.translation import engine_text, tr

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMessageBox

# A library of the system that Qt needs: its package in each family of distributions.
_PACKAGES = {
    "libEGL.so.1": {"debian": "libegl1", "fedora": "libglvnd-egl", "arch": "libglvnd", "suse": "libglvnd"},
    "libGL.so.1": {"debian": "libgl1", "fedora": "libglvnd-glx", "arch": "libglvnd", "suse": "libglvnd"},
    "libOpenGL.so.0": {"debian": "libopengl0", "fedora": "libglvnd-opengl", "arch": "libglvnd", "suse": "libglvnd"},
    "libxcb-cursor.so.0": {
        "debian": "libxcb-cursor0",
        "fedora": "xcb-util-cursor",
        "arch": "xcb-util-cursor",
        "suse": "libxcb-cursor0",
    },
    "libxkbcommon.so.0": {
        "debian": "libxkbcommon0",
        "fedora": "libxkbcommon",
        "arch": "libxkbcommon",
        "suse": "libxkbcommon0",
    },
    "libdbus-1.so.3": {"debian": "libdbus-1-3", "fedora": "dbus-libs", "arch": "dbus", "suse": "libdbus-1-3"},
    "libfontconfig.so.1": {
        "debian": "libfontconfig1",
        "fedora": "fontconfig",
        "arch": "fontconfig",
        "suse": "libfontconfig1",
    },
    "libfreetype.so.6": {"debian": "libfreetype6", "fedora": "freetype", "arch": "freetype2", "suse": "libfreetype6"},
    "libglib-2.0.so.0": {"debian": "libglib2.0-0", "fedora": "glib2", "arch": "glib2", "suse": "libglib-2_0-0"},
    "libxcb.so.1": {"debian": "libxcb1", "fedora": "libxcb", "arch": "libxcb", "suse": "libxcb1"},
    "libX11-xcb.so.1": {"debian": "libx11-xcb1", "fedora": "libX11-xcb", "arch": "libx11", "suse": "libX11-xcb1"},
    "libwayland-client.so.0": {
        "debian": "libwayland-client0",
        "fedora": "libwayland-client",
        "arch": "wayland",
        "suse": "libwayland-client0",
    },
}
_INSTALL = {
    "debian": "sudo apt install",
    "fedora": "sudo dnf install",
    "arch": "sudo pacman -S",
    "suse": "sudo zypper in",
}
_MISSING_LIBRARY = re.compile(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file")

# Qt's own build, and llama.cpp's and numpy's, count on these; in every x86-64 processor since about 2009.
_NEEDED_FLAGS = {"sse4_1", "sse4_2", "ssse3", "popcnt"}


class StartError(Exception):
    """`cause` and `remedy` are sentences fit to be shown."""

    def __init__(self, cause: str, remedy: str) -> None:
        super().__init__(f"{cause} {remedy}")
        self.cause = cause
        self.remedy = remedy


def check_processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
    """Raises StartError where not even the window would run. Silent where nothing is known."""
    with contextlib.suppress(OSError):
        found = re.search(r"^flags\s*:(.*)$", cpuinfo.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
        missing = sorted(_NEEDED_FLAGS - set(found.group(1).split())) if found else []
        if missing:
            raise StartError(
                tr("This processor is too old for Tessera: it lacks {features}.", features=", ".join(missing)),
                tr("An x86-64 processor from 2009 or later is needed, one with AVX2 (2013 or later) recommended."),
            )


def check_kernels() -> None:
    """Load our native kernels. Raises StartError where they are missing, broken, or of another version."""
    from engine.errors import EngineError
    from engine.native_build import check_native_build

    try:
        check_native_build()
    except EngineError as error:
        raise StartError(engine_text(error.cause), engine_text(error.remedy)) from error


def check_libraries() -> None:
    """Load Qt, and what shows its windows on this desktop. Raises StartError with the missing package's name."""
    try:
        import PySide6
        from PySide6 import QtWidgets  # noqa: F401  (its libraries are loaded)
    except ImportError as error:
        raise missing_library(str(error)) from error
    if sys.platform != "linux" or platform_is_chosen():
        return
    folder = Path(PySide6.__file__).parent / "Qt" / "plugins" / "platforms"
    plugins = sorted(folder.glob("libqwayland*.so")) if wants_wayland() else []
    failure = ""
    for plugin in (*plugins, folder / "libqxcb.so"):
        try:
            ctypes.CDLL(str(plugin))
            return
        except OSError as error:
            failure = str(error.__cause__ or error)  # the bundle's ctypes wraps what the loader said
    raise missing_library(failure)


def missing_library(message: str, os_release: Path = Path("/etc/os-release")) -> StartError:
    """What the loader said, as a sentence with the package that helps on this distribution."""
    found = _MISSING_LIBRARY.search(message)
    if found is None:
        return StartError(
            tr("A part of Tessera could not be loaded: {error}.", error=message.rstrip(".")),
            tr("Install Tessera again; if that does not help, please report it together with the log."),
        )
    library = found.group(1)
    family = distribution_family(os_release)
    package = _PACKAGES.get(library, {}).get(family)
    cause = tr("The system library {library} is missing, and no window can open without it.", library=library)
    if package is None:
        return StartError(cause, tr("Install the package of your distribution that holds {library}.", library=library))
    command = f"{_INSTALL[family]} {package}"
    return StartError(cause, tr("Install the package {package}:  {command}", package=package, command=command))


def distribution_family(os_release: Path) -> str:
    """One of "debian", "fedora", "arch", "suse", or an empty string."""
    try:
        text = os_release.read_text(encoding="utf-8")
    except OSError:
        return ""
    words = " ".join(re.findall(r'^ID(?:_LIKE)?="?([^"\n]*)', text, re.MULTILINE)).split()
    names = {"ubuntu": "debian", "rhel": "fedora", "centos": "fedora", "opensuse": "suse"}
    for word in words:
        name = names.get(word, word)
        if name in _INSTALL:
            return name
    return ""


def report(error: BaseException, logs: Path) -> int:
    """Log `error` and show it; returns the exit status. `logs` is where the log belongs."""
    if isinstance(error, StartError):
        failure = error
    elif isinstance(error, ImportError):
        failure = missing_library(str(error))
    else:
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        failure = StartError(
            tr("Tessera could not start: {error}", error=words),
            tr("Please report it together with the log."),
        )
    log = _write_log(error, logs)
    text = f"{failure.cause}\n\n{failure.remedy}"
    if log is not None:
        text += "\n\n" + tr("Log: {path}", path=log)
    print(text, file=sys.stderr, flush=True)
    show(text)
    return 1


def _write_log(error: BaseException, logs: Path) -> Path | None:
    """Where it was written: where it belongs, or else among the temporary files."""
    lines = "".join(traceback.format_exception(error))
    for folder in (logs, Path(tempfile.gettempdir())):
        log = folder / ("start.log" if folder == logs else "tessera-start.log")
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with log.open("a", encoding="utf-8", errors="replace") as file:
                file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {error}\n{lines}\n")
            return log
    return None


def show(text: str) -> bool:
    """A dialog, without Qt where that failed. Whether one was shown; returns when it is closed."""
    if _show_by_qt(text):
        return True
    if sys.platform == "win32":
        ctypes.windll.user32.MessageBoxW(None, text, "Tessera", 0x10)  # an error's icon
        return True
    if sys.platform == "darwin":
        script = 'on run argv\ndisplay dialog (item 1 of argv) with title "Tessera" buttons {"OK"} with icon stop\nend'
        commands = [["osascript", "-e", script, text]]
    else:
        commands = [
            ["zenity", "--error", "--no-markup", "--title=Tessera", "--width=480", f"--text={text}"],
            ["kdialog", "--title", "Tessera", "--error", text],
            ["xmessage", "-xrm", "*international: true", "-center", text],
        ]
    for command in commands:
        if shutil.which(command[0]) is not None:
            done = subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
            if done.returncode in (0, 1):  # pressed, or closed
                return True
    return False


def _show_by_qt(text: str) -> bool:
    """Where the failure came after Qt had opened the display."""
    if "PySide6.QtWidgets" not in sys.modules:
        return False
    from PySide6.QtWidgets import QApplication

    application = QApplication.instance()
    if not isinstance(application, QApplication) or platform_is_chosen():
        return False
    failure_box(text).exec()
    return True


def failure_box(text: str) -> QMessageBox:
    """`text` in Qt's dialog: its first paragraph as the heading."""
    from PySide6.QtWidgets import QMessageBox

    cause, _, rest = text.partition("\n\n")
    box = QMessageBox(QMessageBox.Icon.Critical, "Tessera", cause)
    box.setInformativeText(rest)
    return box
