"""`tessera doctor`: each check of this computer with its remedy."""

from __future__ import annotations

import argparse

from app.environment import DataFolder, has_display
from engine.hub.folders import models_folder
from engine.telemetry.doctor import Health, check_data_folder, run_checks

_MARKS = {Health.GOOD: "ok", Health.LIMITED: "--", Health.BROKEN: "!!"}


def run(options: argparse.Namespace) -> int:
    """0 unless something is broken. `--data-dir`: can it be used, and is there room for its models?"""
    folder = None if options.data_dir is None else DataFolder(options.data_dir.absolute())
    checks = run_checks(models_folder() if folder is None else folder.models, has_display=has_display())
    checks += [] if folder is None else [check_data_folder(folder.root)]
    for check in checks:
        print(f"{_MARKS[check.health]}  {check.name:<20} {check.found}")
        if check.remedy:
            print(f"    {'':<20} {check.remedy}")
    return 1 if any(check.health is Health.BROKEN for check in checks) else 0
