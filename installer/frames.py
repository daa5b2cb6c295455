"""What a person sees, as pictures: first start, double clicks in a file manager, and every start that fails.

For `package_test.py`: an X server, a bare Debian with the .deb, a window manager, a file manager and zenity in it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bare_root import SUITES, TIMEOUT, USER, BareRoot, Failed, output

DISPLAY = f":{100 + os.getpid() % 900}"  # of the X server that is started for the tests
PYTHON = Path(__file__).resolve().parent.parent / "build/package/venv/bin/python"
DESKTOP = ("openbox", "pcmanfm", "zenity", "x11-utils", "shared-mime-info", "desktop-file-utils", "adwaita-icon-theme",
           "xdotool", "fonts-dejavu-core", "fonts-wqy-microhei")  # fmt: skip
PROGRAM = "/usr/lib/tessera/_internal"
FIRST_ICON = (270, 200)  # in a file manager's window at (60, 60), beside its side pane

GRAB = (
    "import sys; from PySide6.QtGui import QGuiApplication; a = QGuiApplication([]);"
    "sys.exit(not a.primaryScreen().grabWindow(0).save(sys.argv[1], 'PNG', 0))"  # 0: as small as it gets
)


def picture(path: Path) -> int:
    """The whole screen; returns the file's size, which grows with what is on it."""
    variables = {"DISPLAY": DISPLAY, "QT_QPA_PLATFORM": "xcb", "PATH": "/usr/bin:/bin", "HOME": "/root"}
    subprocess.run([PYTHON, "-c", GRAB, path], env=variables, check=True, cwd="/")
    return path.stat().st_size


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + TIMEOUT / 3
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"waited in vain for {what}")
        time.sleep(0.2)


class Desktop:
    """A root with a desktop in it, and hands for its mouse."""

    def __init__(self, root: BareRoot, frames: Path) -> None:
        self.root, self.frames = root, frames
        self.data = root.home / ".local/share/Tessera"

    @contextlib.contextmanager
    def running(self, *command: str, **variables: str) -> Iterator[subprocess.Popen[bytes]]:
        process = self.root.start(*command, DISPLAY=DISPLAY, **variables)
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()

    def hand(self, *command: str) -> str:
        return self.root.inside("xdotool", *command, DISPLAY=DISPLAY)

    def windows(self, name: str) -> list[str]:
        found = subprocess.run(
            self.root.command("xdotool", "search", "--onlyvisible", "--name", name),
            env={"DISPLAY": DISPLAY, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, capture_output=True, text=True, cwd="/",
        )  # fmt: skip
        return found.stdout.split()

    def window(self, name: str) -> str:
        wait_for(lambda: bool(self.windows(name)), f"a window called {name}")
        return self.windows(name)[-1]

    def loaded(self, name: str) -> bool:
        settings = self.data / "settings.json"
        return settings.is_file() and name in settings.read_text()

    def picture(self, name: str, pause: float = 1.5) -> None:
        time.sleep(pause)
        picture(self.frames / f"{name}.png")
        print(f"    {name}", flush=True)

    def place(self, window: str, x: int, y: int, width: int, height: int) -> None:
        self.hand("windowsize", window, str(width), str(height))
        self.hand("windowmove", window, str(x), str(y))

    def dialog(self, name: str, title: str = "Tessera", *, cpuinfo: Path | None = None, **variables: str) -> None:
        """A start that fails: its dialog, and the log that it names."""
        shutil.rmtree(self.data / "logs", ignore_errors=True)
        process = self.root.start("/usr/bin/tessera", cpuinfo=cpuinfo, DISPLAY=DISPLAY, **variables)
        try:
            self.window(title)
            self.picture(name)
            if not (self.data / "logs/start.log").is_file():
                raise Failed(f"{name}: no log was written")
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            wait_for(lambda: not self.windows(title), "the dialog to be gone")

    @contextlib.contextmanager
    def file(self, name: str, contents: str) -> Iterator[None]:
        """The data folder with this file, in place of its own."""
        path = self.data / name
        before = path.read_bytes() if path.is_file() else None
        path.write_text(contents)
        try:
            yield
        finally:
            path.unlink() if before is None else path.write_bytes(before)

    @contextlib.contextmanager
    def without(self, *paths: str) -> Iterator[None]:
        """The root without these files."""
        hidden = [(self.root.path / path.lstrip("/"), self.root.path / f"hidden-{number}") for number, path in
                  enumerate(paths)]  # fmt: skip
        for path, place in hidden:
            path.rename(place)
        try:
            yield
        finally:
            for path, place in hidden:
                place.rename(path)


def first_start(desktop: Desktop) -> None:
    with desktop.running("/usr/bin/tessera"):
        wait_for(lambda: desktop.loaded("SmolLM2"), "the starter model to be loaded")
        desktop.place(desktop.window("Tessera"), 40, 30, 1120, 760)
        desktop.picture("1-first-start", 3)


def double_clicks(desktop: Desktop) -> None:
    """The first starts Tessera; the second finds it running, behind the file manager."""
    models = desktop.root.home / "Models"
    desktop.root.inside("mkdir", f"/home/{models.parent.name}/Models", user=models.parent.name)
    starter = next((desktop.root.path / PROGRAM.lstrip("/") / "models").glob("*.gguf"))
    model = models / "A model.gguf"
    model.symlink_to(f"{PROGRAM}/models/{starter.name}")
    with desktop.running("pcmanfm", "--no-desktop", f"/home/{models.parent.name}/Models"):
        manager = desktop.window("Models")
        desktop.place(manager, 60, 60, 640, 420)
        desktop.picture("2-file-manager")
        _double_click(desktop, *FIRST_ICON)
        wait_for(lambda: desktop.loaded("A model.gguf"), "the double-clicked model to be loaded")
        desktop.place(desktop.window("Tessera"), 240, 100, 1000, 700)
        desktop.picture("3-double-clicked", 2)
        count = _processes(desktop.root)
        desktop.hand("windowactivate", "--sync", manager)
        model.rename(models / "Another.gguf")
        desktop.picture("4-before-second-start", 2)
        _double_click(desktop, *FIRST_ICON)
        wait_for(lambda: desktop.loaded("Another.gguf"), "the second model to be loaded")
        time.sleep(2)
        shown, running = desktop.windows("Tessera"), _processes(desktop.root)
        if len(shown) != 1 or not count or running > count:
            raise Failed(f"the second start did not end: {len(shown)} windows, {running} processes after {count}")
        desktop.picture("5-second-start", 0.5)


def _double_click(desktop: Desktop, x: int, y: int) -> None:
    desktop.hand("mousemove", str(x), str(y), "click", "--repeat", "2", "--delay", "120", "1")


def _processes(root: BareRoot) -> int:
    """How many windows' processes there are in the root; children have another first argument."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes().split(b"\0")
            is_window = command[0].rpartition(b"/")[2] == b"tessera" and b"--child" not in command
            found += is_window and (process / "root").samefile(root.path)
    return found


def failed_starts(desktop: Desktop) -> None:
    root = desktop.root
    root.inside("mkdir", "-p", f"/home/{USER}/.local/share/Tessera", user=USER)
    cpuinfo = root.path.parent / "cpuinfo-of-2007"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu sse sse2 ssse3\n")
    with desktop.without("/usr/lib/x86_64-linux-gnu/libEGL.so.1"):
        desktop.dialog("6-without-libegl", "xmessage")  # which zenity needs too
    with desktop.without(f"{PROGRAM}/libxcb-cursor.so.0"):
        desktop.dialog("7-without-xcb-cursor")
        with desktop.file("settings.json", '{"language": "zh_CN"}'):
            desktop.dialog("8-without-xcb-cursor-in-chinese")
    (kernels,) = (root.path / PROGRAM.lstrip("/") / "kernels").glob("_cpu*.so")
    with desktop.without(f"{PROGRAM}/kernels/{kernels.name}"):
        desktop.dialog("9-without-kernels")
    desktop.dialog("10-processor-of-2007", cpuinfo=cpuinfo)
    with desktop.file("version.json", '{"version": 99}'):
        desktop.dialog("11-newer-data")
    said = root.inside("/usr/bin/tessera", user=USER)
    (desktop.frames / "12-without-display.txt").write_text(said)
    if "no display" not in said:
        raise Failed(f"without a display: {said}")


def take(package: Path, frames: Path) -> None:
    """All of them, to the folder `frames`; raises Failed where something does not come up."""
    shutil.rmtree(frames, ignore_errors=True)
    frames.mkdir(parents=True)
    with BareRoot(SUITES[0]) as root:
        root.install(package, *DESKTOP)
        desktop = Desktop(root, frames)
        manager = root.start("openbox", DISPLAY=DISPLAY)
        try:
            first_start(desktop)
            double_clicks(desktop)
            failed_starts(desktop)
        finally:
            os.killpg(manager.pid, signal.SIGTERM)
            manager.wait()
            output(["xsetroot", "-solid", "black"], DISPLAY=DISPLAY) if shutil.which("xsetroot") else None
