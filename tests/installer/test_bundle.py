"""What can be said of the bundle without building it: its contents, its entry, and what the desktop is told."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from engine.child_process import CHILD, MODULES, child_command, run_child

ROOT = Path(__file__).resolve().parents[2]
INSTALLER = ROOT / "installer"
LINUX = INSTALLER / "linux"


@pytest.fixture
def contents(monkeypatch):
    monkeypatch.syspath_prepend(str(INSTALLER))
    import bundle_contents

    return bundle_contents


def test_every_file_that_is_read_at_run_time_is_in_the_bundle(contents):
    covered = {path for source, _ in contents.DATA for path in ROOT.glob(source)}
    covered |= {file for path in tuple(covered) if path.is_dir() for file in path.rglob("*")}
    assert all(list(ROOT.glob(source)) for source, _ in contents.DATA)
    for folder, pattern in (("kernels/cuda", "*.cu*"), ("engine", "*.json"), ("assets", "*.*")):
        for file in (ROOT / folder).rglob(pattern):
            if "screenshots" not in file.parts and "__pycache__" not in file.parts:
                assert file in covered, f"{file.relative_to(ROOT)} is not in bundle_contents.DATA"


def test_nothing_that_is_required_is_pruned(contents):
    for rule in contents.REQUIRED:
        assert not contents.is_pruned(rule.replace("*", "x")), rule


def test_a_bundle_with_something_missing_or_unwanted_is_refused(contents, tmp_path, monkeypatch):
    for rule in contents.REQUIRED[1:]:
        file = tmp_path / rule.replace("*", "x")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"12345678")
    (tmp_path / "models").mkdir()
    (tmp_path / "models/starter.gguf").write_bytes(b"GGUF")
    assert contents.complaints(tmp_path) == [f"missing: {contents.REQUIRED[0]}"]
    (tmp_path / "libtorch_cpu.so").write_bytes(b"")
    monkeypatch.setattr(contents, "LIMIT_BYTES", 10)
    found = contents.complaints(tmp_path)
    assert "not wanted: libtorch_cpu.so" in found
    assert any("MB, more than" in line for line in found)


def test_no_other_way_to_start_a_child(contents):
    """In the bundle sys.executable is Tessera itself: started as Python it would open a second window."""
    found = [
        f"{path.relative_to(ROOT)}"
        for folder in ("app", "engine", "kernels")
        for path in (ROOT / folder).rglob("*.py")
        if "sys.executable" in path.read_text(encoding="utf-8")
    ]
    assert sorted(found) == ["engine/child_process.py", "engine/hub/starter.py"]  # the latter: pip, from source only


def entry(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(INSTALLER / "entry.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_the_entry_runs_a_child(tmp_path):
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"GGUF")
    done = entry(CHILD, "engine.text.vocabulary_child", str(file))
    assert done.returncode == 1
    assert json.loads(done.stdout)["cause"]


def test_the_entry_runs_the_application():
    assert "--open FILE" in entry("--help").stdout


def test_only_our_children_are_started():
    with pytest.raises(ValueError):
        child_command("http.server")
    with pytest.raises(SystemExit):
        run_child(["http.server"])


def test_the_bundle_starts_itself_as_a_child(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    for module in MODULES:
        assert child_command(module, "x") == [sys.executable, CHILD, module, "x"]


# --- what the desktop is told ---


def test_the_desktop_entry_opens_the_file_type_that_is_declared():
    desktop = configparser.ConfigParser(interpolation=None)
    desktop.optionxform = str  # type: ignore[assignment,method-assign]
    desktop.read(LINUX / "tessera.desktop", encoding="utf-8")
    entry = desktop["Desktop Entry"]
    space = "{http://www.freedesktop.org/standards/shared-mime-info}"
    kind = ElementTree.parse(LINUX / "tessera-mime.xml").getroot().find(f"{space}mime-type")
    assert entry["MimeType"] == kind.get("type") + ";"
    assert kind.find(f"{space}glob").get("pattern") == "*.gguf"
    assert entry["Exec"] == "tessera %f"
    assert (ROOT / "assets/icons" / f"{entry['Icon']}.svg").is_file()


def test_the_metadata_has_this_version():
    root = ElementTree.parse(LINUX / "tessera.metainfo.xml").getroot()
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE).group(1)
    assert root.find("releases/release").get("version") == version
    assert root.findtext("launchable") == "tessera.desktop"


def test_the_packager_is_pinned_where_the_rest_is():
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    project = (ROOT / "pyproject.toml").read_text()
    for package in re.search(r"^package = \[(.*)\]", project, re.MULTILINE).group(1).split(", "):
        assert package.strip('"') in pins


def test_windows_scripts_mean_the_same_to_every_powershell():
    """Older ones read the system's code page, and all take curly quotes for straight ones."""
    scripts = [*(ROOT / "installer/windows").glob("*.ps1"), *(ROOT / ".ci").glob("*.ps1")]
    assert len(scripts) == 4
    assert all(script.read_bytes().isascii() for script in scripts)
