"""The quick form of `make package-test`: the way from start to answer where nothing of the source tree is.

What the bundle holds (bundle_contents.DATA and the packages) is laid out in an empty folder, and started by the
bundle's own entry from an environment that knows nothing else, with the few variables that every session has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from kernels import _cpu

ROOT = Path(__file__).resolve().parents[2]
INSTALLER = ROOT / "installer"


@pytest.fixture
def staged(tmp_path, monkeypatch, starter_model) -> Path:
    """A folder as the bundle's: packages, data, the starter model, the entry."""
    monkeypatch.syspath_prepend(str(INSTALLER))
    import bundle_contents

    folder = tmp_path / "bundle"
    for package in ("app", "engine", "kernels"):
        shutil.copytree(ROOT / package, folder / package, ignore=_not_python)
    for library in ("_cpu.*", "_cuda_host*"):
        for path in Path(_cpu.__file__).parent.glob(library):
            shutil.copy(path, folder / "kernels")
    for source, target in bundle_contents.DATA:
        for path in ROOT.glob(source):
            place = folder / target
            if path.is_dir():
                shutil.copytree(path, place, dirs_exist_ok=True)
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, place)
    (folder / "models").mkdir()
    (folder / "models" / starter_model.name).symlink_to(starter_model)
    shutil.copy(INSTALLER / "entry.py", folder)
    return folder


def _not_python(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not (name.endswith(".py") or (Path(folder) / name).is_dir())]


@pytest.fixture
def python(tmp_path, staged) -> Path:
    """A Python that finds the staged packages and the dependencies, and none of our own anywhere else."""
    venv.create(tmp_path / "env", symlinks=os.name != "nt")
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages" if os.name != "nt" else "Lib/site-packages")
    paths = [str(staged), *(path for path in sys.path if path.endswith("site-packages"))]
    (site / "staged.pth").write_text("\n".join(paths) + "\n")  # plain folders: their own .pth files are not read
    return tmp_path / ("env/bin/python" if os.name != "nt" else "env/Scripts/python.exe")


def test_it_starts_loads_and_answers_without_the_source(python, staged, tmp_path):
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8", "QT_QPA_PLATFORM": "offscreen"}
    where = "import engine, kernels._cpu, app; print(engine.__file__, kernels._cpu.__file__, app.__file__, sep='\\n')"
    found = subprocess.run(
        [python, "-P", "-c", where], cwd=tmp_path, env=variables, capture_output=True, text=True, check=True
    )
    assert all(line.startswith(str(staged)) for line in found.stdout.splitlines())
    done = subprocess.run(
        [python, "-P", staged / "entry.py", "smoke"], cwd=tmp_path, env=variables, capture_output=True, text=True,
        timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "first paint" in done.stdout
    assert "answered: " in done.stdout
