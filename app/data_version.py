"""The data folder's version, and how each one became the next. Free of Qt.

The conversations have a version of their own (store/schema.py), settings know their old names (settings/table.py); this
is about the folder: which files there are, and what they are called.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from app.environment import DataFolder
from app.start_error import StartError
from app.translation import tr


def _version_1(_root: Path) -> None:
    """Folders were not numbered before; nothing in them has changed."""


MIGRATIONS: tuple[Callable[[Path], None], ...] = (_version_1,)
VERSION = len(MIGRATIONS)
_SMALL = ("*.json", "*.txt")  # what is copied before a migration; the database makes its own backup


def bring_up_to_date(folder: DataFolder, target: int = VERSION) -> None:
    """Migrate an older folder, after a backup of its small files; mark a new one. Raises StartError for a newer one.

    Nothing is marked until all steps are done, so that an interrupted migration begins again; steps must bear that.
    """
    version = read_version(folder)
    if version > target:
        raise StartError(
            tr("The data in {path} was written by a newer version of Tessera.", path=folder.root),
            tr("Update Tessera, or start it with another data folder (--data-dir)."),
        )
    if version == target:
        return
    if folder.settings.exists() or folder.database.exists():
        back_up(folder, version)
        for step in range(version, target):
            MIGRATIONS[step](folder.root)
    draft = folder.version_file.with_suffix(".json.part")
    draft.write_text(json.dumps({"version": target}) + "\n", encoding="utf-8")
    draft.replace(folder.version_file)


def read_version(folder: DataFolder) -> int:
    """0 for folders from before there were versions, new ones included."""
    try:
        found = json.loads(folder.version_file.read_text(encoding="utf-8"))["version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0
    return found if isinstance(found, int) and found > 0 else 0


def back_up(folder: DataFolder, version: int) -> Path:
    """Copy the small files to a folder of their own; returns it."""
    target = folder.root / "backups" / f"v{version}-{time.strftime('%Y%m%d-%H%M%S')}"
    target.mkdir(parents=True, exist_ok=True)
    for pattern in _SMALL:
        for file in folder.root.glob(pattern):
            shutil.copy2(file, target / file.name)
    return target
