"""The `.part` of one download: appended to, hashed as it grows, synced now and then, and renamed when it is right.

Hashing and writing back to the disk are done on threads of their own, while the next block is fetched: a fast network
is not kept waiting for either.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import filelock

from engine.errors import FileError
from engine.hub.errors import BusyError, DiskFullError, VerificationError
from engine.hub.journal import (
    Source,
    discard,
    journal_path,
    kept_bytes,
    lock_path,
    part_path,
    save_journal,
)
from engine.hub.records import write_record
from engine.hub.stream_hash import StreamHash

CHUNK = 1 << 20
SYNC_BYTES = 1 << 30
SYNC_SECONDS = 30.0
HAND_OVER_BYTES = 32 << 20
RENAME_SECONDS = 4.0
MARGIN = 64 << 20  # free space that a download leaves on the volume
_FULL = (errno.ENOSPC, errno.EDQUOT)


class PartFile:
    """Owns the `.part` of `target` while open: one writer at a time, over all windows and processes.

    `size` bytes are there and hashed. Raises BusyError when somebody else has it, FileError, DiskFullError.
    """

    def __init__(self, target: Path, source: Source) -> None:
        self.target, self.source = target, source
        self.path = part_path(target)
        self.size = 0
        self._digest = StreamHash()
        self._lock = filelock.FileLock(lock_path(target), timeout=0, thread_local=False)
        try:
            lock_path(target).parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except filelock.Timeout:
            raise BusyError(
                f"{target.name} is being downloaded by another window.", done="This one waits for it."
            ) from None
        except OSError as error:
            raise _file_error(target, error) from error
        try:
            kept = kept_bytes(target, source)
            save_journal(target, source, kept if kept else 0)
            self._file = self.path.open("r+b" if kept else "wb", buffering=0)
            self._file.truncate(kept)
        except OSError as error:
            self._lock.release()
            raise _file_error(target, error) from error
        self._synced, self._synced_at = kept, time.monotonic()  # as the journal says
        self._handed_over = self._safe = kept  # bytes whose writing was begun, and ended
        self._disk = ThreadPoolExecutor(1, "sync")
        self._written_back: Future[None] | None = None
        self.kept = kept

    def hash_kept(self) -> bool:
        """Hash the next megabyte of what an earlier run left; False when all of it is hashed."""
        if self.size >= self.kept:
            return False
        self._file.seek(self.size)
        block = self._file.read(min(CHUNK, self.kept - self.size))
        if not block:
            raise FileError(f"{self.path.name} became shorter while it was read.", remedy="Resume the download.")
        self._digest.update(block)
        self.size += len(block)
        return True

    def append(self, block: bytes | memoryview) -> None:
        view = memoryview(block)
        try:
            while view:
                written = self._file.write(view) or 0
                self._digest.update(view[:written])
                self.size += written
                view = view[written:]
            if self.size - self._handed_over >= HAND_OVER_BYTES:
                self._hand_over()
            grown = self.size - self._synced
            if grown >= SYNC_BYTES or (grown and time.monotonic() - self._synced_at >= SYNC_SECONDS):
                self.sync()
        except OSError as error:
            if error.errno in _FULL:
                with contextlib.suppress(OSError):
                    self.sync()
                raise self.shortfall() from error
            raise _file_error(self.target, error) from error

    def _hand_over(self) -> None:
        """Have what the system has buffered written, so that the last sync has little left to wait for."""
        if self._written_back is None or self._written_back.done():
            self._begin_to_write()

    def _begin_to_write(self) -> None:
        self._wait_for_disk()
        self._handed_over = self.size
        self._written_back = self._disk.submit(os.fsync, self._file.fileno())

    def _wait_for_disk(self) -> None:
        """Raises OSError, and then keeps only what is safe: the system tells once, and not again, that it could not
        write what it had accepted; what it serves from its memory until then is not on the disk."""
        written, self._written_back = self._written_back, None
        if written is None:
            return
        try:
            written.result()
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(self._safe)
            raise
        self._safe = self._handed_over

    def _write_all_back(self) -> None:
        self._begin_to_write()
        self._wait_for_disk()

    def sync(self) -> None:
        """Make what is there survive a power cut, and note how much that is. Raises as `_wait_for_disk` does."""
        self._write_all_back()
        self._synced_at = time.monotonic()
        with contextlib.suppress(OSError):  # on a full disk the journal keeps its older, smaller number
            save_journal(self.target, self.source, self.size)
            self._synced = self.size

    def shortfall(self) -> DiskFullError:
        free = shutil.disk_usage(self.target.parent).free
        return DiskFullError(str(self.target.parent), max(1, self.source.size - self.size + MARGIN - free))

    def check_space(self) -> None:
        """Refuse before the first byte when the rest does not fit the volume."""
        free = shutil.disk_usage(self.target.parent).free
        if self.source.size - self.size + MARGIN > free and self.size < self.source.size:
            raise self.shortfall()

    def finish(self) -> None:
        """Compare the checksum and give the file its name. A wrong one is thrown away: VerificationError."""
        found = self._digest.hexdigest()
        if self.source.sha256 and found != self.source.sha256:
            with contextlib.suppress(OSError):
                self._wait_for_disk()
            self._file.close()
            discard(self.target)
            raise VerificationError(self.target.name, self.source.sha256, found)
        try:
            self._write_all_back()
            self._file.close()
            _rename(self.path, self.target)
        except OSError as error:
            if error.errno in _FULL:  # some file systems say so only now
                raise self.shortfall() from error
            raise _file_error(self.target, error) from error
        source = self.source
        with contextlib.suppress(OSError):  # the file is whole and in its place; without a record it is hashed again
            write_record(
                self.target,
                found,
                repository=source.repository,
                revision=source.revision,
                remote_path=source.path,
            )
            journal_path(self.target).unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file; what is there stays for the next time."""
        self._digest.close()
        if not self._file.closed:
            with contextlib.suppress(OSError):
                self.sync()
            self._file.close()
        self._disk.shutdown()
        with contextlib.suppress(OSError):
            lock_path(self.target).unlink()  # still locked: whoever comes now makes a new one
        self._lock.release()


def _rename(part: Path, target: Path) -> None:
    """Rename, trying again for a few seconds: virus scanners and indexers hold new files open for a moment."""
    deadline = time.monotonic() + RENAME_SECONDS
    while True:
        try:
            part.replace(target)
            return
        except PermissionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _file_error(target: Path, error: OSError) -> FileError:
    reason = error.strerror or str(error)
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return FileError(
            f"{target.parent} may not be written to ({reason}).",
            done="What is already here stays.",
            remedy="Change the folder's permissions, or choose another models folder.",
        )
    if error.errno in _FULL:
        return DiskFullError(str(target.parent), MARGIN)
    if isinstance(error, FileNotFoundError):
        return FileError(
            f"The unfinished file of {target.name} was removed by another program.",
            remedy="Resume to download it again.",
        )
    if error.errno == errno.EFBIG:
        return FileError(
            f"The volume of {target.parent} cannot hold a file of this size (FAT32 ends at 4 GiB).",
            remedy="Choose another models folder.",
        )
    return FileError(
        f"{target.name} cannot be written: {reason}.", done="What is already here stays.", remedy="Try again."
    )
