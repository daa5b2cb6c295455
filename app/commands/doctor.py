"""`tessera doctor`: each check of this computer with its remedy."""

from __future__ import annotations

import argparse

from app.environment import has_display
from engine.hub.folders import models_folder
from engine.telemetry.doctor import Health, run_checks

_MARKS = {Health.GOOD: "ok", Health.LIMITED: "--", Health.BROKEN: "!!"}


def run(options: argparse.Namespace) -> int:
    """0 unless something is broken."""
    checks = run_checks(models_folder(), has_display=has_display())
    for check in checks:
        print(f"{_MARKS[check.health]}  {check.name:<20} {check.found}")
        if check.remedy:
            print(f"    {'':<20} {check.remedy}")
    return 1 if any(check.health is Health.BROKEN for check in checks) else 0
