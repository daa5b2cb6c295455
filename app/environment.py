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
    def models(self) -> Path:
        return self.root / "models"

    @property
    def load_marker(self) -> Path:
        """Exists while a model is being loaded: one that took the process down is not loaded unasked again."""
        return self.root / "loading.json"

    def create(self) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)
