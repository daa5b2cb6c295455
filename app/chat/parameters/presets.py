"""Named sets of parameters: three of ours and the owner's, in a JSON file. Free of Qt."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from app.chat.parameters.table import changed_only

BUILT_IN: dict[str, dict[str, Any]] = {
    "Balanced": {},
    "Precise": {"temperature": 0.2, "top_p": 0.9, "min_p": 0.1},
    "Creative": {"temperature": 1.1, "top_p": 0.98, "min_p": 0.03, "presence_penalty": 0.3},
}


class Presets:
    """`problem` says what was wrong with the file, if something was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._own: dict[str, dict[str, Any]] = {}
        self.problem = ""
        self._read()

    def names(self) -> list[str]:
        return [*BUILT_IN, *sorted(name for name in self._own if name not in BUILT_IN)]

    def is_own(self, name: str) -> bool:
        return name in self._own

    def __getitem__(self, name: str) -> dict[str, Any]:
        """A copy of the preset's parameters; the owner's version of one of ours wins."""
        return dict(self._own.get(name, BUILT_IN.get(name, {})))

    def name_of(self, values: dict[str, Any]) -> str:
        """The preset that has exactly these parameters, or an empty string."""
        wanted = changed_only(values)
        return next((name for name in self.names() if changed_only(self[name]) == wanted), "")

    def save(self, name: str, values: dict[str, Any]) -> None:
        self._own[name] = changed_only(values)
        self._write()

    def delete(self, name: str) -> None:
        if self._own.pop(name, None) is not None:
            self._write()

    def _read(self) -> None:
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            self._own = {str(name): changed_only(values) for name, values in stored.items()}
        except FileNotFoundError:
            return
        except (OSError, ValueError, AttributeError, RecursionError) as error:
            self.problem = f"The presets in {self._path} could not be read ({error}); only the built-in ones are there."
            with contextlib.suppress(OSError):  # the next preset that is saved must not take its place
                self._path.replace(self._path.with_suffix(".json.damaged"))

    def _write(self) -> None:
        draft = self._path.with_suffix(".json.part")
        draft.write_text(json.dumps(self._own, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        draft.replace(self._path)
