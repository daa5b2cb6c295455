"""The doctor names what is there and what is missing, and survives a check that breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.telemetry import doctor
from engine.telemetry.doctor import Check, Health, run_checks
from kernels import _cpu


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_names_tier_memory_and_packages(tmp_path: Path) -> None:
    checks = by_name(run_checks(tmp_path, has_display=True))
    assert checks["CPU kernels"].found == _cpu.best_tier()
    assert "GiB" in checks["Memory"].found
    assert str(tmp_path) in checks["Disk"].found
    assert checks["numpy"].health is Health.GOOD


def test_models_folder_may_not_exist_yet(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    assert str(folder) in by_name(run_checks(folder, has_display=True))["Disk"].found
    assert not folder.exists()


def test_missing_package_has_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_PACKAGES", (("no-such-package", "nothing"),))
    check = by_name(run_checks(tmp_path, has_display=True))["no-such-package"]
    assert check.health is Health.BROKEN
    assert "pip install no-such-package" in check.remedy


def test_a_failing_check_is_reported_not_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("sensor on fire")

    monkeypatch.setattr(doctor, "_memory", broken)
    checks = run_checks(tmp_path, has_display=True)
    assert any(c.health is Health.BROKEN and "sensor on fire" in c.found for c in checks)


def test_no_display_is_limited(tmp_path: Path) -> None:
    assert by_name(run_checks(tmp_path, has_display=False))["Display"].health is Health.LIMITED


def test_a_data_folder_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    check = doctor.check_data_folder(tmp_path / "a" / "b")
    assert (check.health, check.found) == (Health.GOOD, str(tmp_path / "a" / "b"))
    assert list(tmp_path.iterdir()) == []


def test_a_data_folder_that_cannot_be_is_broken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    check = doctor.check_data_folder(tmp_path / "file" / "data")
    assert check.health is Health.BROKEN
    assert str(tmp_path / "file" / "data") in check.found
    assert check.remedy


def test_the_doctor_looks_at_the_folder_that_was_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from app.__main__ import main

    (tmp_path / "file").write_text("in the way")
    assert main(["--data-dir", str(tmp_path / "file"), "doctor"]) == 1
    assert "!!  Data folder" in capsys.readouterr().out
