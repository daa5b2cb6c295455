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
CALM_SNAPSHOTS = 4  # before types of a model that was loaded are measured


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
        loaded: Callable[[], str],
        parent: QObject | None = None,
    ) -> None:
        """`folder`: of the profiles. `is_busy`: an answer is being written, so that nothing can be measured.
        `loaded`: path of the model that is loaded, or ""."""
        super().__init__(parent)
        self.is_measuring = False
        self.fraction = 0.0
        self.stage = ""
        self.is_outdated: Callable[[Path], bool] = _is_outdated
        self.take_measurement: Callable[..., HardwareProfile] = _measure
        self.learn_types: Callable[[Path, str], bool] = _learn_types
        self._folder = folder
        self._background = background
        self._main_thread = main_thread
        self._is_busy = is_busy
        self._loaded = loaded
        self._known = ""  # path of a model whose types are known
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
        """Called four times a second: in quiet moments, measures the types of the model that is loaded where the probe
        had no time for them, and once per start takes a second look at the stored rates."""
        from engine.placement.hardware.load import QUIET

        is_quiet = snapshot.cpu_load < QUIET and self.can_measure
        self._quiet = self._quiet + 1 if is_quiet else 0
        path = self._loaded()
        if path and path != self._known and self._quiet >= CALM_SNAPSHOTS:
            self._known, self._quiet = path, 0
            self._background.run_in_background(lambda: self.learn_types(self._folder, path), self._learnt, self._failed)
        if self._has_looked or self._quiet < QUIET_SNAPSHOTS:
            return
        self._has_looked = True
        self._background.run_in_background(lambda: self.is_outdated(self._folder), self._looked, self._failed)

    def _learnt(self, new: bool) -> None:
        if new:
            self.measured.emit()

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


def _learn_types(folder: Path, path: str) -> bool:
    """False as well where the file cannot be read any more, or is of a shape that nothing is predicted of."""
    from engine.errors import EngineError
    from engine.placement.hardware.store import learn_types
    from engine.placement.shape_source import read_shape
    from engine.runtime.threads import default_threads

    try:
        return learn_types(folder, default_threads(), read_shape(path).type_names)
    except (EngineError, OSError):
        return False
