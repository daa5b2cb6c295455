"""Bare roots made by debootstrap, for `package_test.py`: nothing in them but what a distribution always has."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASES = ROOT / "build" / "package" / "roots"
USER = "visitor"
TIMEOUT = 900


class Failed(Exception):  # noqa: N818  (not an error of this program)
    pass


@dataclass(frozen=True, slots=True)
class Suite:
    """`words`: how people call it. Its packages are checked against `keyring` where this computer has that."""

    name: str
    words: str
    mirror: str
    keyring: str


SUITES = (
    Suite("bookworm", "Debian 12", "http://deb.debian.org/debian", "debian-archive-keyring.gpg"),
    Suite("trixie", "Debian 13", "http://deb.debian.org/debian", "debian-archive-keyring.gpg"),
    Suite("noble", "Ubuntu 24.04", "http://archive.ubuntu.com/ubuntu", "ubuntu-archive-keyring.gpg"),
)


def output(command: list[str], status: int = 0, **variables: str) -> str:
    """What `command` says in an environment of `variables` alone; its status must be `status`."""
    basic = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    done = subprocess.run(
        command, cwd="/", env=basic | variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", timeout=TIMEOUT,
    )  # fmt: skip
    if done.returncode != status:
        raise Failed(f"{' '.join(command)}: status {done.returncode}, not {status}\n{done.stdout[-4000:]}")
    return done.stdout


def bootstrap(suite: Suite) -> Path:
    """The suite's base, made once."""
    base = BASES / suite.name
    if base.is_dir():
        return base
    BASES.mkdir(parents=True, exist_ok=True)
    part = BASES / f"{suite.name}.part"
    shutil.rmtree(part, ignore_errors=True)
    keyring = Path("/usr/share/keyrings") / suite.keyring
    check = [f"--keyring={keyring}"] if keyring.is_file() else ["--no-check-gpg"]
    options = ["--variant=minbase", *check]
    script = Path("/usr/share/debootstrap/scripts") / suite.name
    # An older debootstrap does not know the newest Ubuntu by name; all of them are made by one script.
    scripts = [] if script.exists() else [str(script.with_name("gutsy"))]
    output(["debootstrap", *options, suite.name, str(part), suite.mirror, *scripts])
    part.rename(base)
    return base


class BareRoot:
    """A copy of a freshly bootstrapped suite, with /proc, and its own user; gone at the end."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        base = bootstrap(suite)
        self.path = Path(tempfile.mkdtemp(prefix=f"tessera-{suite.name}-", dir=BASES.parent))
        output(["cp", "-a", f"{base}/.", str(self.path)])
        shutil.copy("/etc/resolv.conf", self.path / "etc/resolv.conf")
        self.inside("useradd", "-m", USER)
        self.home = self.path / "home" / USER

    def __enter__(self) -> BareRoot:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def command(self, *command: str, user: str = "root", cpuinfo: Path | None = None) -> list[str]:
        """In a mount namespace of its own: what is mounted is gone with the process. `cpuinfo`: what the processor
        is said to be."""
        mounts = (
            f"mount -t proc proc {self.path}/proc && mount -t tmpfs none {self.path}/dev/shm"
            f" && mkdir -p {self.path}/tmp/.X11-unix && mount --bind /tmp/.X11-unix {self.path}/tmp/.X11-unix"
        )
        if cpuinfo is not None:
            mounts += f" && mount --bind {cpuinfo} {self.path}/proc/cpuinfo"
        switch = f'exec chroot --userspec={user} {self.path} "$@"'
        return ["unshare", "--mount", "sh", "-c", f"{mounts} && {switch}", "sh", *command]

    def environment(self, user: str) -> dict[str, str]:
        return {"HOME": "/root" if user == "root" else f"/home/{user}"}

    def inside(self, *command: str, status: int = 0, user: str = "root", **variables: str) -> str:
        return output(self.command(*command, user=user), status, **(self.environment(user) | variables))

    def start(self, *command: str, cpuinfo: Path | None = None, **variables: str) -> subprocess.Popen[bytes]:
        """As the ordinary user, in the background."""
        basic = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", **self.environment(USER)}
        return subprocess.Popen(
            self.command(*command, user=USER, cpuinfo=cpuinfo), cwd="/", env=basic | variables,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def apt(self, *arguments: str) -> None:
        options = ("-qq", "-y", "-o", "Acquire::Retries=5", "--no-install-recommends")
        self.inside("apt-get", *options, *arguments, DEBIAN_FRONTEND="noninteractive")

    def install(self, package: Path, *others: str) -> int:
        """Install a .deb and `others`; returns how many packages came with it."""
        before = len(self.packages())
        shutil.copy(package, self.path / "tmp" / package.name)
        self.apt("update")
        self.apt("install", f"/tmp/{package.name}", *others)
        (self.path / "tmp" / package.name).unlink()
        return len(self.packages()) - before - 1

    def packages(self) -> list[str]:
        return self.inside("dpkg-query", "-f", "${Package}\n", "-W").split()
