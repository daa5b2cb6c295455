"""The download queue: what is fetched, in which order, how fast; it outlives the program.

The window asks `snapshot` as often as it paints and gives orders; nothing is called back. Each running download has
one thread, and every file of it is a FileDownload. After a restart all downloads are paused: no request is made before
the owner asks for one.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from engine.errors import EngineError
from engine.hub.connection import Connection
from engine.hub.download_status import DownloadStatus, FileStatus, State
from engine.hub.errors import BusyError, DiskFullError, StoppedError
from engine.hub.file_download import FileDownload
from engine.hub.journal import Source, discard, kept_bytes
from engine.hub.partfile import MARGIN
from engine.hub.queue_file import QueueFile, Wanted, is_complete
from engine.hub.speed import SpeedLimit, SpeedMeter
from engine.hub.transfers import ProcessDownload

BUSY_SECONDS = 2.0
Transfer = FileDownload | ProcessDownload
Fetch = Callable[[Connection, Source, Path, SpeedLimit, float], Transfer]


class _Download:
    """One entry of the queue. Its fields are changed under the manager's lock; counters by its own thread."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.state = State.PAUSED
        self.error: EngineError | None = None
        self.note = ""
        self.finished = [
            source.size if is_complete(target, source) else kept_bytes(target, source)
            for source, target in wanted.items()
        ]
        self.current = -1
        self.transfer: Transfer | None = None
        self.thread: threading.Thread | None = None
        self.stop = threading.Event()
        self.meter = SpeedMeter()
        self.volume: int | None = None  # on which room was found for it

    @property
    def size(self) -> int:
        return sum(source.size for source in self.wanted.sources)

    def files(self) -> tuple[FileStatus, ...]:
        done = list(self.finished)
        if (transfer := self.transfer) is not None and self.current >= 0:
            done[self.current] = max(done[self.current], transfer.done)
        return tuple(
            FileStatus(source.path.rsplit("/", 1)[-1], min(count, source.size), source.size)
            for source, count in zip(self.wanted.sources, done, strict=True)
        )


class Downloads:
    """All downloads of this program. Every method may be called from any thread and returns at once.

    `connect` makes the connection when a download starts, so that changed settings and tokens count from then on.
    `patience` scales the pauses between attempts. `fetch` makes what fetches one file: FileDownload in this process, or
    Transfers.fetch in another.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        queue_file: Path,
        *,
        parallel: int = 2,
        bytes_per_second: float = 0.0,
        patience: float = 1.0,
        fetch: Fetch = FileDownload,
    ) -> None:
        self._connect, self._patience, self._make = connect, patience, fetch
        self._lock = threading.RLock()
        self._limit = SpeedLimit(bytes_per_second)
        self._parallel = max(1, parallel)
        self._file = QueueFile(queue_file)
        self._downloads: list[_Download] = []
        self._closed = False
        for wanted in self._file.read():
            download = _Download(wanted)
            if sum(download.finished) < download.size:
                download.note = "Interrupted. Resume when you like."
                self._downloads.append(download)

    # --- orders ---------------------------------------------------------------------------------------------

    def add(self, name: str, sources: Sequence[Source], folder: Path) -> str:
        """Queue the files of one model for `folder`; the id. A model that is queued already keeps its place."""
        wanted = Wanted(uuid.uuid4().hex[:12], name, folder, tuple(sources))
        with self._lock:
            for download in self._downloads:
                if download.wanted.targets() == wanted.targets() and download.state is not State.DONE:
                    if download.state in (State.PAUSED, State.FAILED):
                        self.resume(download.wanted.id)
                    return download.wanted.id
            download = _Download(wanted)
            download.state = State.QUEUED
            self._downloads.append(download)
            self._save()
            self._start_next()
        return wanted.id

    def pause(self, id: str) -> None:
        with self._lock:
            download = self._find(id)
            if download is not None and download.state in (State.RUNNING, State.QUEUED):
                self._halt(download, State.PAUSED, "")
                self._start_next()

    def resume(self, id: str) -> None:
        with self._lock:
            download = self._find(id)
            if download is not None and download.state in (State.PAUSED, State.FAILED):
                download.state, download.error, download.note = State.QUEUED, None, ""
                self._start_next()

    def cancel(self, id: str) -> None:
        """Stop, forget, and remove what was fetched of unfinished files. Finished files of the model stay."""
        with self._lock:
            download = self._find(id)
            if download is None:
                return
            self._halt(download, State.PAUSED, "")
            self._downloads.remove(download)
            self._save()
            self._start_next()
        threading.Thread(target=_clean, args=(download,), name="cancel download", daemon=True).start()

    def clear_done(self) -> None:
        with self._lock:
            self._downloads = [one for one in self._downloads if one.state is not State.DONE]
            self._save()

    def move(self, id: str, position: int) -> None:
        """Put a download at `position` in the queue, counted from 0."""
        with self._lock:
            download = self._find(id)
            if download is not None:
                self._downloads.remove(download)
                self._downloads.insert(max(0, position), download)
                self._save()

    def relocate(self, old: Path, new: Path) -> None:
        """The models folder was moved: stopped downloads go on in the new one. BusyError while one runs."""
        with self._lock:
            if any(one.state in (State.RUNNING, State.QUEUED) for one in self._downloads):
                raise BusyError(
                    "A download is running.",
                    done="Nothing was moved.",
                    remedy="Pause the downloads, then move the folder.",
                )
            for download in self._downloads:
                folder = download.wanted.folder
                if folder.is_relative_to(old):
                    download.wanted = replace(download.wanted, folder=new / folder.relative_to(old))
            self._save()

    def limit(self, *, parallel: int | None = None, bytes_per_second: float | None = None) -> None:
        with self._lock:
            if parallel is not None:
                self._parallel = max(1, parallel)
            if bytes_per_second is not None:
                self._limit.change(bytes_per_second)
            self._start_next()

    def pause_all(self) -> None:
        for status in self.snapshot():
            self.pause(status.id)

    def resume_all(self) -> None:
        for status in self.snapshot():
            self.resume(status.id)

    def close(self, seconds: float = 5.0) -> None:
        """Stop everything, keep everything: what is here is resumed after the next start."""
        with self._lock:
            self._closed = True
            threads = [one.thread for one in self._downloads if one.thread is not None]
            for download in self._downloads:
                self._halt(download, download.state, "")
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._file.close()

    # --- views ----------------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[DownloadStatus, ...]:
        with self._lock:
            return tuple(self._status(download) for download in self._downloads)

    def _status(self, download: _Download) -> DownloadStatus:
        files = download.files()
        done, size = sum(file.done for file in files), download.size
        running = download.state is State.RUNNING
        transfer = download.transfer
        waiting = transfer.waiting if running and transfer is not None else ""
        speed = download.meter.update(done) if running else 0.0
        left = (size - done) / speed if speed > 0 and not waiting else None
        wanted = download.wanted
        repository = wanted.sources[0].repository if wanted.sources else ""
        return DownloadStatus(
            wanted.id, wanted.name, repository, wanted.folder, download.state, waiting or download.note,
            done, size, speed, left, files, download.error,
        )  # fmt: skip

    # --- machinery ------------------------------------------------------------------------------------------

    def _find(self, id: str) -> _Download | None:
        return next((one for one in self._downloads if one.wanted.id == id), None)

    def _save(self) -> None:
        self._file.write([one.wanted for one in self._downloads if one.state is not State.DONE])

    def _halt(self, download: _Download, state: State, note: str) -> None:
        download.stop.set()
        if download.transfer is not None:
            download.transfer.abort()
        download.state, download.note = state, note

    def _start_next(self) -> None:
        """Start queued downloads, first come first served, as far as the limit allows."""
        running = sum(one.state is State.RUNNING for one in self._downloads)
        for download in self._downloads:
            if self._closed or running >= self._parallel:
                return
            if download.state is not State.QUEUED:
                continue
            before = download.thread
            download.state, download.stop, download.volume = State.RUNNING, threading.Event(), None
            download.meter.reset()
            download.thread = threading.Thread(
                target=self._run, args=(download, download.stop, before), name="download", daemon=True
            )
            download.thread.start()
            running += 1

    def _run(self, download: _Download, stop: threading.Event, before: threading.Thread | None) -> None:
        """A download's thread. `before` is the one that was paused, which may still be letting go of the file."""
        state, note, failure = State.DONE, "", None
        try:
            if before is not None:
                before.join()
            self._check_space(download)
            connection = self._connect()
            for index, (source, target) in enumerate(download.wanted.items()):
                self._fetch(download, stop, index, self._make(connection, source, target, self._limit, self._patience))
        except StoppedError:
            return
        except EngineError as error:
            # A full disk is the owner's to solve; it pauses, so that "resume all" goes on with it.
            state = State.PAUSED if isinstance(error, DiskFullError) else State.FAILED
            note, failure = str(error), error
        except Exception as error:
            state, note = State.FAILED, f"Something unexpected went wrong: {error}"
        with self._lock:
            if download.stop is not stop or stop.is_set():
                return  # paused, cancelled or started anew meanwhile: the later order counts
            download.state, download.note, download.error = state, note, failure
            download.transfer = None
            self._save()
            self._start_next()

    def _fetch(self, download: _Download, stop: threading.Event, index: int, transfer: Transfer) -> None:
        with self._lock:
            if stop.is_set():
                raise StoppedError
            download.current, download.transfer = index, transfer
        while True:
            try:
                transfer.run()
                break
            except BusyError as error:
                transfer.waiting = str(error)
                if stop.wait(BUSY_SECONDS):
                    raise StoppedError from None
            finally:
                with self._lock:
                    download.finished[index] = transfer.done

    def _check_space(self, download: _Download) -> None:
        """Refuse before the first byte when the model does not fit beside what else is being fetched there."""
        folder = download.wanted.folder
        folder.mkdir(parents=True, exist_ok=True)
        volume = folder.stat().st_dev
        missing = download.size - sum(file.done for file in download.files())
        with self._lock:
            others = sum(
                one.size - sum(file.done for file in one.files())
                for one in self._downloads
                if one.state is State.RUNNING and one.volume == volume
            )
            free = shutil.disk_usage(folder).free
            if missing and missing + others + MARGIN > free:
                raise DiskFullError(str(folder), missing + others + MARGIN - free)
            download.volume = volume  # from here on its room is taken; one that does not fit takes none


def _clean(download: _Download) -> None:
    if download.thread is not None:
        download.thread.join()
    for _, target in download.wanted.items():
        discard(target)
