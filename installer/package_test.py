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
import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import bundle_contents
import debian
import frames
from bare_root import ROOT, SUITES, USER, BareRoot, Failed, Suite, output

DIST = ROOT / "dist"
LINUX = ROOT / "installer" / "linux"
PYTHON = ROOT / "build/package/venv/bin/python"
DISPLAY = frames.DISPLAY
QUICK = ("sizes", "clean", "metadata", "tiers", "crash", "upgrade")
LLAMA_CPP_ALONE = (
    "import sys; from engine.backends.llama_cpp.model import CompatibilityModel;"
    "from engine.messages import LoadOptions; CompatibilityModel(sys.argv[1], LoadOptions(), lambda _: None)"
)

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


# --- other processors, other versions ---


def test_tiers() -> None:
    """Every tier of ours, and no AVX-512 in llama.cpp, which does not choose: its AVX2 is in a library of its own."""
    contents = DIST / "tessera/_internal"
    (kernels,) = (contents / "kernels").glob("_cpu*.so")
    tiers = set(re.findall(rb"\0(scalar|avx2|avx512|avx512_vnni)(?=\0)", kernels.read_bytes()))
    if len(tiers) != 4 or not _uses(kernels, "zmm"):
        raise Failed(f"the kernels' tiers: {tiers}")
    for library in (contents / "llama_cpp/lib").glob("lib*.so*"):
        if _uses(library, "zmm") or _uses(library, "ymm") != library.name.startswith("libggml-cpu"):
            raise Failed(f"{library.name} is not for any processor")
    say("  our kernels: scalar, avx2, avx512, avx512_vnni; llama.cpp: no AVX-512, AVX2 in libggml-cpu alone")


def _uses(library: Path, registers: str) -> bool:
    code = subprocess.run(["objdump", "-d", library], check=True, capture_output=True, text=True).stdout
    return f"%{registers}" in code


def test_old() -> None:
    """Westmere has neither AVX nor AVX2. The bundle's program starts itself anew, which would leave the emulation: so
    the environment that it was made from is asked, the same Python and the same wheels."""
    python = ["qemu-x86_64", "-cpu", "Westmere", str(PYTHON), "-P"]
    emulated = [*python, "-m", "app"]
    found = output([*emulated, "doctor"])
    if not re.search(r"^-- +CPU kernels +scalar", found, re.MULTILINE):
        raise Failed(f"on a processor without AVX2: {found}")
    model = str(next((DIST / "tessera/_internal/models").glob("*.gguf")))
    answer = output([*emulated, "chat", model, "Hi", "--greedy", "--max-tokens", "2", "--quiet"]).strip()
    if not answer:
        raise Failed("no answer from the scalar kernels")
    refused = output([*python, "-c", LLAMA_CPP_ALONE, model], status=1)  # its child process would leave the emulation
    if "a processor with AVX2, which this one lacks" not in refused:
        raise Failed(f"llama.cpp without AVX2: {refused}")
    with tempfile.TemporaryDirectory(prefix="tessera-old-") as name:
        variables = {"PATH": "/usr/bin:/bin", "HOME": name, "DISPLAY": DISPLAY, "LANG": "C.UTF-8"}
        window = subprocess.Popen([*emulated, "--data-dir", name], cwd="/", env=variables, stderr=subprocess.DEVNULL)
        try:
            told = Path(name) / "conversations.db"  # made once the window is painted
            frames.wait_for(told.is_file, "the window on an emulated processor")
            (DIST / "frames").mkdir(exist_ok=True)
            path = DIST / "frames/13-without-avx2.png"
            empty = frames.picture(path)  # emulation is slow: the cards have no words yet
            frames.wait_for(lambda: frames.picture(path) > 1.5 * empty, "the card about the processor")
        finally:
            window.terminate()
            window.wait()
    say(f"  emulated processor without AVX2: the scalar kernels answer {answer!r}, llama.cpp says why it does not")


def test_crash() -> None:
    """A model is loaded, and the process gets a segmentation fault: twice by opening it again. It is counted, and the
    next start by itself loads nothing."""
    model = next((DIST / "tessera/_internal/models").glob("*.gguf"))
    with tempfile.TemporaryDirectory(prefix="tessera-crash-") as name:
        data = Path(name)
        loading, counts, crash = data / "loading.json", data / "crashes.json", data / "logs/last-native-crash.log"
        for wanted in (1, 2):
            with _window(data, str(model)) as window:
                frames.wait_for(lambda: loading.is_file() and '"loaded": true' in loading.read_text(), "the model")
                window.send_signal(signal.SIGSEGV)
                window.wait()
            crash.unlink(missing_ok=True)
            with _window(data):
                frames.wait_for(crash.is_file, "the crash to be noticed")
                words = f'": {wanted}' + "}"
                frames.wait_for(lambda words=words: counts.is_file() and words in counts.read_text(), "its count")
                time.sleep(10)
                if loading.exists():
                    raise Failed(f"after crash {wanted} the model was loaded again")
        if "Segmentation fault" not in crash.read_text():
            raise Failed(f"the log of the crash: {crash.read_text()[:200]}")
    say("  after a segmentation fault, and a second one: noticed, logged, counted; the next start loads nothing")


@contextlib.contextmanager
def _window(data: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The bundle's window, offscreen, on a data folder of its own; ended with the block."""
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(data), "QT_QPA_PLATFORM": "offscreen", "LANG": "C.UTF-8"}
    command = [str(DIST / "tessera/tessera"), "--data-dir", str(data), *arguments]
    window = subprocess.Popen(command, cwd="/", env=variables, stderr=subprocess.DEVNULL)
    try:
        yield window
    finally:
        window.terminate()
        window.wait()


def test_upgrade() -> None:
    """The previous commit writes a data folder, as a window does, by its own code and script; this one opens it."""
    with tempfile.TemporaryDirectory(prefix="tessera-upgrade-") as name:
        data = str(Path(name) / "data")
        for action, revision in (("write", "HEAD~1"), ("read", "HEAD")):
            code = Path(name) / action
            _check_out(revision, code)
            variables = {"HOME": name, "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(code)}
            output([str(PYTHON), "-P", str(code / "installer/upgrade_folder.py"), action, data], **variables)
        say(
            f"  what {_commit('HEAD~1')} wrote opens in {_commit('HEAD')}: conversation, answer, setting, draft, preset"
        )


def _check_out(revision: str, folder: Path) -> None:
    """The source of a commit, with the kernels of the packages."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    for library in PYTHON.parent.parent.glob("lib/python*/site-packages/kernels/*.so"):
        shutil.copy(library, folder / "kernels")


def _commit(revision: str) -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", revision], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return found.stdout.strip()


# --- all of it ---


def write_report() -> None:
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    head = f"package-test of {time.strftime('%Y-%m-%d %H:%M')}, commit {commit.stdout.strip()}, {platform.platform()}"
    (DIST / "package-test.md").write_text(head + "\n\n" + "\n".join(f"    {line}" for line in said) + "\n")


def main() -> int:
    tests: dict[str, Callable[[], None]] = {"sizes": test_sizes, "clean": test_clean, "metadata": test_metadata}
    tests |= {suite.name: lambda suite=suite: test_deb(suite) for suite in SUITES}  # type: ignore[misc]
    tests |= {"single": test_single, "frames": test_frames, "tiers": test_tiers, "old": test_old}
    tests |= {"crash": test_crash, "upgrade": test_upgrade}
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
