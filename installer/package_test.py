"""`make package-test`: does what `make package` made work where there is nothing of ours, and little of anything?

    clean   the bundle under `env -i`, from another folder, with the source tree hidden behind an empty file system
    bookworm, trixie    Debian 12, and Debian 13 (whose package names are those of Ubuntu 24.04): bare roots made by
            debootstrap with the .deb and the packages it names; an ordinary user, offscreen and on an X server
    desktop the bundle on an X server, with pictures in dist/frames: first start, a model double-clicked while it
            runs (the second process passes it on and ends), a start that fails with a dialog
    single  the single file in a root with the same libraries, its --install and --remove
    old     the doctor on an emulated processor without AVX2 (qemu-user)

Needs root, debootstrap, Xvfb, qemu-user and a Debian mirror. Prints start times; exit status 1 on any failure.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
ROOTS = ROOT / "build" / "package" / "roots"
SUITES = ("bookworm", "trixie")
MIRROR = "http://deb.debian.org/debian"
USER = "visitor"
TIMEOUT = 900
DISPLAY = ":77"  # of the X server that is started for the tests


class Failed(Exception):  # noqa: N818  (not an error of this program)
    pass


def output(command: list[str], status: int = 0, **variables: str) -> str:
    """What `command` says in an environment of `variables` alone; its status must be `status`."""
    basic = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    done = subprocess.run(
        command, cwd="/", env=basic | variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT,
    )  # fmt: skip
    if done.returncode != status:
        raise Failed(f"{' '.join(command)}: status {done.returncode}, not {status}\n{done.stdout[-4000:]}")
    return done.stdout


def smoke(command: list[str], title: str, **variables: str) -> None:
    found = output([*command, "smoke"], **variables)
    lines = re.findall(
        r"^ *([\d.]+ s)(?:, ([\d.]+ s) of work)?  (first paint|\S+ loaded|answered)", found, re.MULTILINE
    )
    times = {name: f"{wall} ({work} of work)" if work else wall for wall, work, name in lines}
    if not {"first paint", "answered"} <= set(times):
        raise Failed(f"{title}: no answer\n{found}")
    words = ", ".join(f"{name} {seconds}" for name, seconds in times.items())
    print(f"  {title}: {words}  (load {os.getloadavg()[0]:.0f})", flush=True)


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


# --- in bare roots ---


class BareRoot:
    """A copy of a freshly bootstrapped suite, with /proc, and its own user."""

    def __init__(self, suite: str) -> None:
        base = ROOTS / suite
        if not base.is_dir():
            ROOTS.mkdir(parents=True, exist_ok=True)
            part = ROOTS / f"{suite}.part"
            shutil.rmtree(part, ignore_errors=True)
            output(["debootstrap", "--variant=minbase", suite, str(part), MIRROR])
            part.rename(base)
        self.path = Path(tempfile.mkdtemp(prefix=f"tessera-{suite}-", dir=ROOTS.parent))
        output(["cp", "-a", f"{base}/.", str(self.path)])
        shutil.copy("/etc/resolv.conf", self.path / "etc/resolv.conf")
        self.inside("useradd", "-m", USER)

    def __enter__(self) -> BareRoot:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def command(self, *command: str, user: str = "root") -> list[str]:
        """In a mount namespace of its own: what is mounted is gone with the process."""
        mounts = (
            f"mount -t proc proc {self.path}/proc && mount -t tmpfs none {self.path}/dev/shm"
            f" && mkdir -p {self.path}/tmp/.X11-unix && mount --bind /tmp/.X11-unix {self.path}/tmp/.X11-unix"
        )
        switch = f'exec chroot --userspec={user} {self.path} "$@"'
        return ["unshare", "--mount", "sh", "-c", f"{mounts} && {switch}", "sh", *command]

    def inside(self, *command: str, status: int = 0, user: str = "root", **variables: str) -> str:
        home = {"HOME": "/root" if user == "root" else f"/home/{user}"}
        return output(self.command(*command, user=user), status, **(home | variables))

    def apt(self, *arguments: str) -> None:
        options = ("-qq", "-y", "-o", "Acquire::Retries=5", "--no-install-recommends")
        self.inside("apt-get", *options, *arguments, DEBIAN_FRONTEND="noninteractive")


def test_deb(suite: str) -> None:
    package = next(DIST.glob("tessera_*.deb"))
    with BareRoot(suite) as root:
        before = len(root.inside("dpkg-query", "-f", "${Package}\n", "-W").split())
        shutil.copy(package, root.path / "tmp" / package.name)
        root.apt("update")
        root.apt("install", f"/tmp/{package.name}")
        added = len(root.inside("dpkg-query", "-f", "${Package}\n", "-W").split()) - before
        print(f"  {suite}: {package.name} came with {added - 1} other packages", flush=True)
        program = root.command("/usr/bin/tessera", user=USER)
        home = {"HOME": f"/home/{USER}"}
        smoke(program, f"{suite}, offscreen", QT_QPA_PLATFORM="offscreen", **home)
        smoke(program, f"{suite}, X11", DISPLAY=DISPLAY, **home)
        said = root.inside("/usr/bin/tessera", "--data-dir", f"/home/{USER}/.local/share/Tessera", user=USER)
        if "no display" not in said:
            raise Failed(f"without a display: {said}")
        for library, name in (("libEGL.so.1", "libegl1"), ("libfontconfig.so.1", "libfontconfig1")):
            root.inside("dpkg", "--purge", "--force-depends", name)
            said = root.inside("/usr/bin/tessera", user=USER, status=1, DISPLAY=DISPLAY)
            if library not in said or f"apt install {name}" not in said or "start.log" not in said:
                raise Failed(f"without {name}: {said}")
            root.apt("--fix-broken", "install")
        print(f"  {suite}: missing libraries are named with their packages, and logged", flush=True)
        kept = root.path / f"home/{USER}/.local/share/Tessera"
        root.apt("purge", "tessera")
        if not (kept / "logs").is_dir() or (root.path / "usr/lib/tessera").exists():
            raise Failed("purging takes the program away, and nothing of the user's")
        print(f"  {suite}: purged, the user's data is still there", flush=True)


def test_single() -> None:
    sys.path.insert(0, str(ROOT / "installer"))
    import debian

    single = next(DIST.glob("Tessera-*.run"))
    with BareRoot(SUITES[0]) as root:
        root.apt("update")
        root.apt("install", *(name.split(" ")[0] for name in debian.DEPENDS))
        shutil.copy(single, root.path / "opt" / single.name)
        program = f"/opt/{single.name}"
        home = {"HOME": f"/home/{USER}", "QT_QPA_PLATFORM": "offscreen"}
        smoke(root.command(program, user=USER), "unpacking", **home)
        smoke(root.command(program, user=USER), "the second time", **home)
        share = root.path / f"home/{USER}/.local/share"
        root.inside(program, "--install", user=USER)
        if program not in (share / "applications/tessera.desktop").read_text():
            raise Failed("--install made no desktop entry")
        (share / "Tessera").mkdir(exist_ok=True)
        root.inside(program, "--remove", user=USER)
        if (share / "tessera-program").exists() or not (share / "Tessera").is_dir():
            raise Failed("--remove takes the program away, and nothing of the user's")
        print("  installed into the menu and removed; the user's data is still there", flush=True)


def test_desktop() -> None:
    """As a file manager starts it: with a model's path, while one window is open already."""
    frames = DIST / "frames"
    frames.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tessera-desktop-") as name:
        home = Path(name)
        model = home / "My model.gguf"
        model.symlink_to(next((DIST / "tessera/_internal/models").glob("*.gguf")))
        environment = {"PATH": "/usr/bin:/bin", "HOME": name, "LANG": "C.UTF-8", "DISPLAY": DISPLAY}
        program = str(DIST / "tessera/tessera")
        data = home / ".local/share/Tessera"
        first = subprocess.Popen([program], env=environment, cwd="/")
        try:
            wait_for(lambda: (data / "settings.json").is_file(), "the starter model to be loaded")
            picture(frames / "1-first-start.png")
            second = subprocess.run([program, str(model)], env=environment, cwd="/", timeout=TIMEOUT)
            if second.returncode != 0:
                raise Failed(f"the second start ended with {second.returncode}")
            wait_for(
                lambda: model.name in (data / "settings.json").read_text(), "the double-clicked model to be loaded"
            )
            picture(frames / "2-double-clicked.png")
        finally:
            first.terminate()
            first.wait()
        (data / "version.json").write_text('{"version": 99}')
        failing = subprocess.Popen([program], env=environment, cwd="/", stderr=subprocess.PIPE, text=True)
        try:
            wait_for(lambda: (data / "logs/start.log").is_file(), "the failed start to be logged")
            time.sleep(2)  # for the dialog
            picture(frames / "3-failed-start.png")
        finally:
            failing.terminate()
            failing.wait()
    print(f"  pictures in {frames.relative_to(ROOT)}", flush=True)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"waited in vain for {what}")
        time.sleep(0.2)


def picture(path: Path) -> None:
    """The whole screen, by Qt of the development environment."""
    code = (
        "import sys, time; from PySide6.QtGui import QGuiApplication; a = QGuiApplication([]); time.sleep(1);"
        "sys.exit(not a.primaryScreen().grabWindow(0).save(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], env={**os.environ, "DISPLAY": DISPLAY,
                   "QT_QPA_PLATFORM": "xcb"}, check=True)  # fmt: skip


def test_old() -> None:
    """Westmere has neither AVX nor AVX2. The bundle's program starts itself anew, which would leave the emulation: so
    the environment that it was made from is asked, the same Python and the same wheels."""
    python = ROOT / "build/package/venv/bin/python"
    found = output(["qemu-x86_64", "-cpu", "Westmere", str(python), "-P", "-m", "app", "doctor"])
    if not re.search(r"^-- +CPU kernels +scalar", found, re.MULTILINE):
        raise Failed(f"on a processor without AVX2: {found}")
    print("  the scalar kernels are chosen, with a warning", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("only", nargs="*", help=f"clean, {', '.join(SUITES)}, desktop, single, old (default: all)")
    wanted = parser.parse_args().only
    server = subprocess.Popen(["Xvfb", DISPLAY, "-screen", "0", "1280x900x24", "-ac"], stderr=subprocess.DEVNULL)
    tests = [("clean", test_clean)]
    tests += [(suite, lambda suite=suite: test_deb(suite)) for suite in SUITES]
    tests += [("desktop", test_desktop), ("single", test_single), ("old", test_old)]
    failures = 0
    try:
        for name, test in tests:
            if wanted and name not in wanted:
                continue
            print(name, flush=True)
            try:
                test()
            except (Failed, subprocess.TimeoutExpired) as failure:
                print(f"  FAILED: {failure}", flush=True)
                failures += 1
    finally:
        server.terminate()
        server.wait()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
