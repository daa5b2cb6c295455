"""This machine's measured rates: taken when the owner asks, and again in a quiet moment where they seem wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.background import Background, MainThread

if TYPE_CHECKING:
    from engine.placement.hardware.profile import HardwareProfile
    from engine.telemetry.snapshot import TelemetrySnapshot

QUIET_SNAPSHOTS = 40  # in a row, at four a second, before the second look


class OwnMachine(QObject):
    """`measured` follows every measurement, the library's among them; `progressed` while one goes on."""

    measured = Signal()
    progressed = Signal()
    failed = Signal(object)  # Exception

    def __init__(
        self,
        folder: Path,
        background: Background,
        main_thread: MainThread,
        is_busy: Callable[[], bool],
        parent: QObject | None = None,
    ) -> None:
        """`folder`: of the profiles. `is_busy`: an answer is being written, so that nothing can be measured."""
        super().__init__(parent)
        self.is_measuring = False
        self.fraction = 0.0
        self.stage = ""
        self.is_outdated: Callable[[Path], bool] = _is_outdated
        self.take_measurement: Callable[..., HardwareProfile] = _measure
        self._folder = folder
        self._background = background
        self._main_thread = main_thread
        self._is_busy = is_busy
        self._quiet = 0  # snapshots in a row
        self._has_looked = False

    @property
    def can_measure(self) -> bool:
        return not self.is_measuring and not self._is_busy()

    def measure(self) -> None:
        """Some seconds of full load, off the main thread; kept on disk."""
        if not self.can_measure:
            return
        self.is_measuring, self.fraction, self.stage = True, 0.0, ""
        self.progressed.emit()
        post = self._main_thread.post
        self._background.run_in_background(
            lambda: self.take_measurement(
                self._folder, lambda fraction, stage: post(lambda: self._progress(fraction, stage))
            ),
            lambda _profile: self._ended(),
            self._failed,
        )

    def watch(self, snapshot: TelemetrySnapshot) -> None:
        """Called four times a second: once per start, in a quiet moment, a second look at the stored rates."""
        from engine.placement.hardware.load import QUIET

        is_quiet = snapshot.cpu_load < QUIET and self.can_measure
        self._quiet = self._quiet + 1 if is_quiet else 0
        if self._has_looked or self._quiet < QUIET_SNAPSHOTS:
            return
        self._has_looked = True
        self._background.run_in_background(lambda: self.is_outdated(self._folder), self._looked, self._failed)

    def _looked(self, outdated: bool) -> None:
        if outdated:
            self.measure()

    def _progress(self, fraction: float, stage: str) -> None:
        self.fraction, self.stage = fraction, stage
        if self.is_measuring:
            self.progressed.emit()

    def _ended(self) -> None:
        self.is_measuring = False
        self.progressed.emit()
        self.measured.emit()

    def _failed(self, error: Exception) -> None:
        self.is_measuring = False
        self.progressed.emit()
        if not isinstance(error, OSError):
            raise error
        self.failed.emit(error)


def _measure(folder: Path, progress: Callable[[float, str], None]) -> HardwareProfile:
    from engine.placement.hardware.store import this_machine
    from engine.runtime.threads import default_threads

    folder.mkdir(parents=True, exist_ok=True)
    return this_machine(folder, default_threads(), measure_again=True, progress=progress)


def _is_outdated(folder: Path) -> bool:
    """Measured while others were busy, or by a machine that was slower or faster than this one is now."""
    from engine.placement.hardware.load import QUIET
    from engine.placement.hardware.probe import is_outdated
    from engine.placement.hardware.store import known_machine
    from engine.runtime.threads import default_threads

    known = known_machine(folder, default_threads())
    return known is not None and (known.others_load > QUIET or is_outdated(known.cpu))
