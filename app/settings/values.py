"""The owner's settings: read from a JSON file, checked against the table, written whole and atomically."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.settings.table import SettingsTable

Listener = Callable[[str, Any], None]


class Settings:
    """Values by name. `problems` says in plain sentences what was wrong with the file; none is fatal.

    Unknown keys are kept in the file: they may belong to a newer version.
    """

    def __init__(self, path: Path, table: SettingsTable | None = None) -> None:
        self.path = path
        self.table = table or SettingsTable()
        self.problems: list[str] = []
        self._values: dict[str, Any] = {setting.name: setting.default for setting in self.table.settings}
        self._unknown: dict[str, Any] = {}
        self._listeners: list[Listener] = []
        self.on_unsaved: Callable[[Exception], None] | None = None  # told when a value holds but is not in the file
        self._read()

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def set(self, name: str, value: Any) -> None:
        """Check, store, save and tell. Raises ValueError with a sentence fit to be shown.

        Where the file cannot be written (a full disk) the value holds until the end of the program.
        """
        setting = self.table[name]
        if problem := setting.problem(value):
            raise ValueError(problem)
        if self._values[name] == value:
            return
        self._values[name] = value
        try:
            self.save()
        except OSError as error:
            if self.on_unsaved is not None:
                self.on_unsaved(error)
        for listener in tuple(self._listeners):
            listener(name, value)

    def on_change(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def save(self) -> None:
        """Write only what differs from the defaults (a later default then reaches everybody)."""
        table = self.table
        changed = {n: v for n, v in self._values.items() if v != table[n].default}
        text = json.dumps({**self._unknown, **changed}, indent=2, sort_keys=True)  # ASCII: any character can be kept
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".json.part")
        draft.write_text(text + "\n", encoding="utf-8")
        draft.replace(self.path)

    def _read(self) -> None:
        try:
            stored = json.loads(self.path.read_text(encoding="utf-8", errors="surrogateescape"))
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as error:
            self.problems.append(f"The settings in {self.path} could not be read ({error}): defaults are used.")
            self._keep_damaged()
            return
        if not isinstance(stored, dict):
            self.problems.append(f"The settings in {self.path} are not a table: defaults are used.")
            self._keep_damaged()
            return
        for name, value in stored.items():
            self._take(name, value)

    def _take(self, name: str, value: Any) -> None:
        setting = self.table.find(name)
        if setting is None:
            self._unknown[name] = value
            self.problems.append(f"The setting “{name}” in {self.path} is unknown to this version.")
        elif problem := setting.problem(value):
            self.problems.append(f"{problem} The default is used.")
        else:
            self._values[setting.name] = value

    def _keep_damaged(self) -> None:
        try:
            self.path.replace(self.path.with_suffix(".json.damaged"))
        except OSError:
            self.problems.append(f"The damaged file {self.path} could not be set aside.")
