"""The single file: a shell script that carries the bundle and unpacks it once, at the first start.

Needs nothing on the target but sh, tar and gzip, and no FUSE. What it unpacks is named by its contents, so an update
lies beside the old version until that is removed.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tarfile
from pathlib import Path

import debian

LINUX = Path(__file__).resolve().parent / "linux"
FIXED_TIME = 1_700_000_000  # the same bundle gives the same file


def build(bundle: Path, target: Path) -> Path:
    """Make the single file of `bundle` in the folder `target`; returns its path."""
    share = target.parent / "build" / "package" / "share"
    shutil.rmtree(share, ignore_errors=True)
    debian.desktop_files(share)
    payload = target.parent / "build" / "package" / "payload.tar.gz"
    with (
        gzip.GzipFile(payload, "wb", compresslevel=6, mtime=FIXED_TIME) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        archive.add(bundle, "tessera", filter=_plain)
        archive.add(share / "share", "tessera/share", filter=_plain)
    with payload.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    script = (LINUX / "single_file.sh").read_text(encoding="utf-8")
    unpacked = sum(path.lstat().st_size for path in bundle.rglob("*") if path.is_file())
    values = {"VERSION": debian.version(), "DIGEST": digest[:16], "MEGABYTES": str(unpacked // 10**6 + 1)}
    for name, value in values.items():
        script = script.replace(f"@{name}@", value)
    head = script.encode()
    head = head.replace(b"@OFFSET@", b"%08d" % (len(head) + 1))  # as many digits as the name has letters
    path = target / f"Tessera-{debian.version()}-x86_64.run"
    with path.open("wb") as file, payload.open("rb") as stream:
        file.write(head)
        shutil.copyfileobj(stream, file, 1 << 20)
    path.chmod(0o755)
    payload.unlink()
    return path


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    info.mtime = FIXED_TIME
    return info
