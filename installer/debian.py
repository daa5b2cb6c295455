"""The .deb: the bundle below /usr/lib/tessera, what a desktop needs to know of it, and the libraries it counts on.

Removing it leaves everything the user has: nothing of that lies in the package's folders.
"""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINUX = ROOT / "installer" / "linux"

# What the bundle leaves to the system (bundle_contents.PRUNED): graphics, fonts and the session's own libraries.
DEPENDS = (
    "libc6 (>= 2.34)", "libegl1", "libgl1", "libfontconfig1", "libfreetype6", "libglib2.0-0 | libglib2.0-0t64",
    "libdbus-1-3", "libx11-xcb1", "libxcb1", "libwayland-client0", "libwayland-cursor0", "libwayland-egl1",
)  # fmt: skip
# The last ones show what prevents a start; xmessage, of x11-utils, where libEGL is missing, which the others need too.
RECOMMENDS = ("fonts-dejavu-core | fonts-noto-core", "xdg-desktop-portal", "zenity | kdialog", "x11-utils")

# Absolute symlinks would break in a chroot's view from outside; dpkg wants this one relative to its folder.
LAUNCHER = "../lib/tessera/tessera"


def version() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def desktop_files(prefix: Path) -> None:
    """Desktop entry, file type, metadata and icon below `prefix` (as /usr), for any kind of installation."""
    for source, target in (
        (LINUX / "tessera.desktop", "share/applications/tessera.desktop"),
        (LINUX / "tessera-mime.xml", "share/mime/packages/tessera.xml"),
        (LINUX / "tessera.metainfo.xml", "share/metainfo/tessera.metainfo.xml"),
        (ROOT / "assets/icons/tessera.svg", "share/icons/hicolor/scalable/apps/tessera.svg"),
    ):
        (prefix / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, prefix / target)


def control(size: int) -> str:
    return f"""Package: tessera
Version: {version()}
Architecture: amd64
Maintainer: The Tessera authors <tessera@localhost>
Installed-Size: {size // 1024}
Depends: {", ".join(DEPENDS)}
Recommends: {", ".join(RECOMMENDS)}
Section: science
Priority: optional
Description: Run language models larger than your graphics card
 Opens GGUF models, splits them between GPU and CPU, shows where every tensor
 sits, and answers in a calm chat window. Holds a small starter model.
"""


def build(bundle: Path, target: Path) -> Path:
    """Make the .deb of `bundle` in the folder `target`; returns its path."""
    tree = target.parent / "build" / "package" / "deb"
    shutil.rmtree(tree, ignore_errors=True)
    usr = tree / "usr"
    (usr / "lib").mkdir(parents=True)
    shutil.copytree(bundle, usr / "lib/tessera", symlinks=True, copy_function=_link)
    (usr / "bin").mkdir()
    (usr / "bin/tessera").symlink_to(LAUNCHER)
    desktop_files(usr)
    (usr / "share/doc/tessera").mkdir(parents=True)
    shutil.copyfile(ROOT / "LICENSE", usr / "share/doc/tessera/copyright")
    size = sum(path.lstat().st_size for path in tree.rglob("*") if path.is_file())
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(control(size), encoding="utf-8")
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    package = target / f"tessera_{version()}_amd64.deb"
    command = ["dpkg-deb", "--root-owner-group", "-Zzstd", "-z9", "--build", str(tree), str(package)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(tree)
    return package


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)
