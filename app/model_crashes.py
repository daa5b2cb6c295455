"""Which model was in use when the process ended without saying goodbye, and how often each one was. Free of Qt."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from app.environment import DataFolder

MARKED = 2  # a model with this many crashes is not loaded by itself any more, and says why


class ModelCrashes:
    """A small file says what is being loaded or is loaded; one that is found at the start is evidence.

    A full disk costs the safeguard, not the model: nothing here raises.
    """

    def __init__(self, folder: DataFolder) -> None:
        self._marker = folder.load_marker
        self._record = folder.crash_record
        found = _read(self._marker)
        path = found.get("path")
        self.previous: str | None = path if isinstance(path, str) else None
        self.was_loading = self.previous is not None and not found.get("loaded", False)
        self._remove()

    def note_start(self, native_crash: bool) -> None:
        """Once per start: the model of the process before is counted if it may have ended it."""
        if self.previous is not None and (native_crash or self.was_loading):
            counts = _read(self._record)
            counts[self.previous] = self.count(self.previous) + 1
            _write(self._record, counts)

    def count(self, path: Path | str) -> int:
        found = _read(self._record).get(str(path), 0)
        return found if isinstance(found, int) else 0

    def marked(self) -> dict[str, int]:
        """Paths of the models that are not loaded by themselves any more, and how often each one was in a crash."""
        found = _read(self._record)
        return {path: count for path, count in found.items() if isinstance(count, int) and count >= MARKED}

    def is_marked(self, path: Path | str) -> bool:
        return self.count(path) >= MARKED

    def loading(self, path: str) -> None:
        _write(self._marker, {"path": path})

    def loaded(self, path: str) -> None:
        _write(self._marker, {"path": path, "loaded": True})

    def left(self) -> None:
        """Nothing is loaded any more, in good order."""
        self._remove()

    def forgive(self, path: str) -> None:
        """It ran, and everything ended in good order."""
        counts = _read(self._record)
        if counts.pop(path, None) is not None:
            _write(self._record, counts)

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._marker.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, value: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        draft = path.with_suffix(".json.part")
        draft.write_text(json.dumps(value), encoding="utf-8", errors="surrogateescape")
        draft.replace(path)
