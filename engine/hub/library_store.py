"""What the library remembers of models: labels, last use, folders and files the owner added, failed checks."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path
from typing import Any

from engine.hub.records import write_json


class LibraryStore:
    """A JSON file keyed by the path of a model's first file. A damaged one counts as empty: it holds comforts only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._models: dict[str, dict[str, Any]] = {}
        self._folders: list[str] = []
        self._files: list[str] = []
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
            values = json.loads(path.read_text("utf-8"))
            self._models = {str(key): dict(value) for key, value in values.get("models", {}).items()}
            self._folders = [str(one) for one in values.get("folders", [])]
            self._files = [str(one) for one in values.get("files", [])]

    def get(self, file: Path, key: str) -> Any:
        with self._lock:
            return self._models.get(str(file), {}).get(key)

    def set(self, file: Path, key: str, value: Any) -> None:
        """None removes the key."""
        with self._lock:
            entry = self._models.setdefault(str(file), {})
            if value is None:
                entry.pop(key, None)
            else:
                entry[key] = value
            if not entry:
                self._models.pop(str(file), None)
            self._save()

    def mark_used(self, file: Path) -> None:
        self.set(file, "used", time.time())

    def forget(self, file: Path) -> None:
        with self._lock:
            self._models.pop(str(file), None)
            self._files = [one for one in self._files if one != str(file)]
            self._save()

    @property
    def folders(self) -> tuple[Path, ...]:
        return tuple(Path(one) for one in self._folders)

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(Path(one) for one in self._files)

    def add_folder(self, folder: Path) -> None:
        with self._lock:
            if str(folder) not in self._folders:
                self._folders.append(str(folder))
                self._save()

    def add_file(self, file: Path) -> None:
        with self._lock:
            if str(file) not in self._files:
                self._files.append(str(file))
                self._save()

    def relocate(self, old: Path, new: Path) -> None:
        """Models below `old` are now below `new`."""

        def moved(text: str) -> str:
            path = Path(text)
            return str(new / path.relative_to(old)) if path.is_relative_to(old) else text

        with self._lock:
            self._models = {moved(path): entry for path, entry in self._models.items()}
            self._files = [moved(path) for path in self._files]
            self._save()

    def _save(self) -> None:
        with contextlib.suppress(OSError):
            values = {"models": self._models, "folders": self._folders, "files": self._files}
            write_json(self._path, values, durable=False)
