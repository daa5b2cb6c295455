"""`make package-test`: does what `make package` made work where there is nothing of ours, and little of anything?

    sizes   of the packages, held to limits
    clean   the bundle under `env -i`, from another folder, with the source tree hidden behind an empty file system
    metadata    desktop entry and AppStream metadata, by the desktop's own validators
    bookworm, trixie, noble     Debian 12 and 13, Ubuntu 24.04: bare roots made by debootstrap with the .deb and the
            packages it names; an ordinary user, offscreen and on an X server; the file type; removal
    single  the single file in a root with the same libraries, its --install and --remove
    frames  pictures of a desktop, in dist/frames: first start, double clicks, starts that fail (frames.py)
    tiers   which processors' instructions are in the kernels, and which are not
    old     doctor, answer and first page on an emulated processor without AVX2 (qemu-user)
    crash   the bundle's process is killed by a segmentation fault, twice: what the next starts do
    upgrade data that the previous commit's version has written opens in this one

Needs root, debootstrap, Xvfb, qemu-user and a mirror. Writes what it prints to dist/package-test.md as well; exit
status 1 on any failure. `--quick`: sizes, clean, metadata, tiers, crash and upgrade, which need no mirror.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import bundle_contents
import debian
import frames
import hard_cases
from bare_root import ROOT, SUITES, USER, BareRoot, Failed, Suite, output

DIST = ROOT / "dist"
LINUX = ROOT / "installer" / "linux"
DISPLAY = frames.DISPLAY
QUICK = ("sizes", "clean", "metadata", "tiers", "crash", "upgrade")

said: list[str] = []  # every line of the report


def say(words: str) -> None:
    print(words, flush=True)
    said.append(words)


def package() -> Path:
    return next(DIST.glob("tessera_*.deb"))


def smoke(command: list[str], title: str, **variables: str) -> None:
    found = output([*command, "smoke"], **variables)
    lines = re.findall(
        r"^ *([\d.]+ s)(?:, ([\d.]+ s) of work)?  (first paint|\S+ loaded|answered)", found, re.MULTILINE
    )
    times = {name: f"{wall} ({work} of work)" if work else wall for wall, work, name in lines}
    if not {"first paint", "answered"} <= set(times):
        raise Failed(f"{title}: no answer\n{found}")
    words = ", ".join(f"{name} {seconds}" for name, seconds in times.items())
    say(f"  {title}: {words}  (load {os.getloadavg()[0]:.0f})")


def evict(folder: Path) -> None:
    """Take the files out of the system's cache, so that the next start is a cold one."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


# --- where nothing of ours is ---


def test_clean() -> None:
    with tempfile.TemporaryDirectory(prefix="tessera-clean-") as name:
        place = Path(name)
        (place / "bundle").mkdir()
        hide = f'mount --bind {DIST}/tessera {place}/bundle && mount -t tmpfs none {ROOT} && cd / && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", hide, "sh", str(place / "bundle/tessera")]
        evict(DIST / "tessera")
        smoke(command, "cold", HOME=name, QT_QPA_PLATFORM="offscreen")
        smoke(command, "warm", HOME=name, QT_QPA_PLATFORM="offscreen")


# --- what was made ---


def test_sizes() -> None:
    model = _bytes(DIST / "tessera/_internal/models")
    limits = {
        DIST / "tessera": bundle_contents.LIMIT_BYTES + model,
        package(): bundle_contents.PACKAGE_LIMIT_BYTES,
        next(DIST.glob("Tessera-*.run")): bundle_contents.PACKAGE_LIMIT_BYTES,
    }
    for path, limit in limits.items():
        size = _bytes(path)
        without = f", {(size - model) / 1e6:.0f} MB without the starter model" if path.is_dir() else ""
        say(f"  {path.name}: {size / 1e6:.0f} MB{without}")
        if size > limit:
            raise Failed(f"{path.name} is larger than {limit / 1e6:.0f} MB")
    if wrong := bundle_contents.complaints(DIST / "tessera/_internal"):
        raise Failed("\n".join(wrong))


def _bytes(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.lstat().st_size for file in files if not file.is_dir())


def test_metadata() -> None:
    output(["desktop-file-validate", str(LINUX / "tessera.desktop")])
    found = subprocess.run(
        ["appstreamcli", "validate", "--no-net", str(LINUX / "tessera.metainfo.xml")], capture_output=True, text=True
    )
    complaints = re.findall(r"^[EW]: \S+ (\S+)", found.stdout, re.MULTILINE)
    if set(complaints) - {"cid-desktopapp-is-not-rdns"}:  # the project has no domain to name itself by
        raise Failed(found.stdout)
    with tempfile.TemporaryDirectory(prefix="tessera-mime-") as name:
        types = Path(name) / "packages"
        types.mkdir()
        shutil.copy(LINUX / "tessera-mime.xml", types)
        output(["update-mime-database", name])
        if "application/x-gguf:*.gguf" not in (Path(name) / "globs2").read_text():
            raise Failed("the file type has no name pattern")
    say(f"  desktop-file-validate, update-mime-database: nothing; appstreamcli: {', '.join(complaints) or 'nothing'}")


# --- in bare roots ---


def test_deb(suite: Suite) -> None:
    with BareRoot(suite) as root:
        others = root.install(package())
        say(f"  {suite.words}: {package().name} came with {others} other packages")
        program = root.command("/usr/bin/tessera", user=USER)
        home = root.environment(USER)
        smoke(program, f"{suite.words}, offscreen", QT_QPA_PLATFORM="offscreen", **home)
        smoke(program, f"{suite.words}, X11", DISPLAY=DISPLAY, **home)
        heard = root.inside("/usr/bin/tessera", user=USER)
        if "no display" not in heard:
            raise Failed(f"without a display: {heard}")
        for library, name in (("libEGL.so.1", "libegl1"), ("libfontconfig.so.1", "libfontconfig1")):
            root.inside("dpkg", "--purge", "--force-depends", name)
            heard = root.inside("/usr/bin/tessera", user=USER, status=1, DISPLAY=DISPLAY)
            if library not in heard or f"apt install {name}" not in heard or "start.log" not in heard:
                raise Failed(f"without {name}: {heard}")
            root.apt("--fix-broken", "install")
        say(f"  {suite.words}: missing libraries are named with their packages, and logged")
        root.apt("install", "shared-mime-info", "desktop-file-utils", "libglib2.0-bin")
        (root.home / "x.gguf").write_bytes(b"GGUF\3\0\0\0")
        kind = root.inside("gio", "info", "-a", "standard::content-type", f"/home/{USER}/x.gguf")
        starter = root.inside("gio", "mime", "application/x-gguf")
        if "application/x-gguf" not in kind or "tessera.desktop" not in starter:
            raise Failed(f"a .gguf file is not Tessera's: {kind}{starter}")
        say(f"  {suite.words}: a .gguf file is application/x-gguf, and opens with Tessera")
        kept = root.home / ".local/share/Tessera"
        root.apt("purge", "tessera")
        if not (kept / "logs").is_dir() or (root.path / "usr/lib/tessera").exists():
            raise Failed("purging takes the program away, and nothing of the user's")
        say(f"  {suite.words}: purged, the user's data is still there")


def test_single() -> None:
    single = next(DIST.glob("Tessera-*.run"))
    with BareRoot(SUITES[0]) as root:
        root.apt("update")
        root.apt("install", *(name.split(" ")[0] for name in debian.DEPENDS))
        shutil.copy(single, root.path / "opt" / single.name)
        program = f"/opt/{single.name}"
        home = {**root.environment(USER), "QT_QPA_PLATFORM": "offscreen"}
        smoke(root.command(program, user=USER), "unpacking", **home)
        smoke(root.command(program, user=USER), "the second time", **home)
        share = root.home / ".local/share"
        root.inside(program, "--install", user=USER)
        if program not in (share / "applications/tessera.desktop").read_text():
            raise Failed("--install made no desktop entry")
        (share / "Tessera").mkdir(exist_ok=True)
        root.inside(program, "--remove", user=USER)
        if (share / "tessera-program").exists() or not (share / "Tessera").is_dir():
            raise Failed("--remove takes the program away, and nothing of the user's")
        say("  installed into the menu and removed; the user's data is still there")


def test_frames() -> None:
    frames.take(package(), DIST / "frames")
    say(f"  pictures in {(DIST / 'frames').relative_to(ROOT)}")


# --- all of it ---


def write_report() -> None:
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    head = f"package-test of {time.strftime('%Y-%m-%d %H:%M')}, commit {commit.stdout.strip()}, {platform.platform()}"
    (DIST / "package-test.md").write_text(head + "\n\n" + "\n".join(f"    {line}" for line in said) + "\n")


def main() -> int:
    tests: dict[str, Callable[[], None]] = {"sizes": test_sizes, "clean": test_clean, "metadata": test_metadata}
    tests |= {suite.name: lambda suite=suite: test_deb(suite) for suite in SUITES}  # type: ignore[misc]
    tests |= {"single": test_single, "frames": test_frames}
    cases = (hard_cases.tiers, hard_cases.old, hard_cases.crash, hard_cases.upgrade)
    tests |= {case.__name__: lambda case=case: say(f"  {case()}") for case in cases}  # type: ignore[misc]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("only", nargs="*", metavar="TEST", help=f"{', '.join(tests)} (default: all)")
    parser.add_argument("--quick", action="store_true", help=", ".join(QUICK))
    options = parser.parse_args()
    wanted = options.only or (QUICK if options.quick else tuple(tests))
    server = subprocess.Popen(["Xvfb", DISPLAY, "-screen", "0", "1280x840x24", "-ac"], stderr=subprocess.DEVNULL)
    failures = 0
    try:
        for name in wanted:
            say(name)
            try:
                tests[name]()
            except (Failed, subprocess.SubprocessError) as failure:
                say(f"  FAILED: {failure}")
                failures += 1
    finally:
        server.terminate()
        server.wait()
        write_report()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
