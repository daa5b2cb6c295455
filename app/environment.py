"""The only module that reads environment variables, and the places this application keeps its files."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path


def has_display() -> bool:
    """Whether a window can be shown: always on Windows and macOS, on Linux if a display server answers."""
    if sys.platform in ("win32", "darwin") or os.environ.get("QT_QPA_PLATFORM"):
        return True
    return _has_wayland() or (bool(os.environ.get("DISPLAY")) and _has_x11())


def _has_wayland() -> bool:
    name = os.environ.get("WAYLAND_DISPLAY")
    return bool(name) and (Path(os.environ.get("XDG_RUNTIME_DIR", "/")) / str(name)).exists()


def _has_x11() -> bool:
    """Asked of the server itself: in an old terminal or a dead connection DISPLAY names one that is gone."""
    try:
        xcb = ctypes.CDLL("libxcb.so.1")
    except OSError:
        return True  # Qt will say what is missing
    xcb.xcb_connect.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(xcb.xcb_connect(None, None))  # never null, says xcb.h
    failed = bool(xcb.xcb_connection_has_error(connection))
    xcb.xcb_disconnect(connection)
    return not failed


def system_languages() -> list[str]:
    """What the system's session speaks, best first, such as "zh_CN"; Qt knows better, where it can be loaded."""
    named = [os.environ.get(name, "") for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")]
    return [one.partition(".")[0] for text in named for one in text.split(":") if one]


def wants_wayland() -> bool:
    """Whether Qt would try Wayland first."""
    return _has_wayland() and os.environ.get("XDG_SESSION_TYPE", "wayland") == "wayland"


def platform_is_chosen() -> bool:
    """The owner, or a test, says by which plugin Qt shows its windows."""
    return bool(os.environ.get("QT_QPA_PLATFORM"))


def activation_token() -> str:
    """What the desktop gave this process so that a window may come to the front on its behalf (Wayland)."""
    return os.environ.get("XDG_ACTIVATION_TOKEN", "")


def use_activation_token(token: str) -> None:
    """Qt reads it from the environment when it next raises a window."""
    os.environ["XDG_ACTIVATION_TOKEN"] = token


def leave_bundle_libraries() -> None:
    """Programs that are started from here get the system's libraries, not the bundle's, whose start set this.

    A child of our own starts the bundle anew, and finds its libraries again.
    """
    os.environ["PYINSTALLER_RESET_ENVIRONMENT"] = "1"
    original = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    if original is None:
        os.environ.pop("LD_LIBRARY_PATH", None)
    else:
        os.environ["LD_LIBRARY_PATH"] = original


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Everything the application writes lives under `root`; models may be kept elsewhere by a setting."""

    root: Path

    @classmethod
    def default(cls) -> DataFolder:
        from engine.hub.folders import data_folder

        return cls(data_folder())

    @property
    def database(self) -> Path:
        return self.root / "conversations.db"

    @property
    def settings(self) -> Path:
        return self.root / "settings.json"

    @property
    def presets(self) -> Path:
        return self.root / "presets.json"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def version_file(self) -> Path:
        """Which version of Tessera's layout this folder has."""
        return self.root / "version.json"

    @property
    def draft(self) -> Path:
        """What was typed and not sent."""
        return self.root / "draft.txt"

    @property
    def models(self) -> Path:
        return self.root / "models"

    @property
    def hardware(self) -> Path:
        """Measured rates of this machine."""
        return self.root / "hardware"

    @property
    def heat(self) -> Path:
        """How often each expert of a model was used."""
        return self.root / "heat"

    @property
    def pins(self) -> Path:
        """Which tensors and experts of a model are kept where their owner wants them."""
        return self.root / "pins"

    @property
    def load_marker(self) -> Path:
        """Exists while a model is loaded, or being loaded: one that took the process down is known by it."""
        return self.root / "loading.json"

    @property
    def crash_record(self) -> Path:
        """How often each model was there when the process crashed."""
        return self.root / "crashes.json"

    def create(self) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
