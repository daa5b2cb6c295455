"""The only module that reads environment variables, and the places this application keeps its files."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path


def has_display() -> bool:
    """Whether a window can be shown: always on Windows and macOS, on Linux if a display server is named."""
    if sys.platform in ("win32", "darwin"):
        return True
    names = ("QT_QPA_PLATFORM", "WAYLAND_DISPLAY", "DISPLAY")
    return any(os.environ.get(name) for name in names)


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
