"""Takes along what the memory page shows: the page, the map's table, and the timeline of a step, each as a file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QTimer, Signal
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFileDialog, QMenu, QToolButton, QWidget

from app.background import Background
from app.export_file import write_export
from app.placement.exports import as_chrome_trace, table_as_csv, timeline_as_csv
from app.placement.map_card import MapCard
from app.placement.picture import Picture
from app.placement.timeline_card import TimelineCard
from app.translation import tr


class ExportButton(QToolButton):
    """`page` is what a picture of the page shows; `name` gives files their name. `failed` says why one was not
    written, and what would try again."""

    written = Signal()
    failed = Signal(object, object)  # Exception, Callable

    def __init__(
        self,
        page: QWidget,
        table: MapCard,
        timeline: TimelineCard,
        name: Callable[[], str],
        background: Background,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._page, self._table, self._timeline, self._name = page, table, timeline, name
        self._background = background
        self.setObjectName("quiet")
        self.setText(tr("Export"))
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        for what, kind, words in (
            ("page", "png", tr("The page as a picture…")),
            ("table", "csv", tr("The table as CSV…")),
            ("timeline", "png", tr("The timeline as a picture…")),
            ("timeline", "csv", tr("The timeline as CSV…")),
            ("timeline", "json", tr("The timeline as a Chrome trace…")),
        ):
            menu.addAction(words, lambda what=what, kind=kind: self._ask(what, kind))
        self.setMenu(menu)

    def _ask(self, what: str, kind: str) -> None:
        name = f"{self._name()}{'-timeline' if what == 'timeline' else ''}.{kind}"
        chosen, _ = QFileDialog.getSaveFileName(self, tr("Export"), name, f"*.{kind}")
        if chosen:
            self.export_to(Path(chosen), what)

    def export_to(self, path: Path, what: str) -> None:
        """`what`: "page" (.png), "table" (.csv), or "timeline" (.png, .csv or .json), which is unfolded for it. Written
        in the background, whole or not at all."""
        if what == "timeline" and self._timeline.timeline is None:
            self._timeline.then(lambda: self.export_to(path, what))
            return
        if path.suffix == ".png" and what == "timeline":
            self._timeline.unfold.setChecked(True)
            QTimer.singleShot(0, self, lambda: self._take_picture(path, what, self._timeline))  # laid out by then
        elif path.suffix == ".png":
            self._take_picture(path, what, self._page)
        else:
            self._write(path, what, self._contents(path, what))

    def _take_picture(self, path: Path, what: str, widget: QWidget) -> None:
        Picture(widget, lambda image: self._write(path, what, partial(as_png, image)))

    def _write(self, path: Path, what: str, make: Callable[[], bytes]) -> None:
        """`make` gives the file's bytes; called in the background."""
        self._background.run_in_background(
            lambda: write_export(path, make()),
            lambda _: self.written.emit(),
            lambda error: self.failed.emit(error, lambda: self._ask(what, path.suffix.removeprefix("."))),
        )

    def _contents(self, path: Path, what: str) -> Callable[[], bytes]:
        """Takes what is shown now; to be made into a file's bytes on any thread."""
        if what == "table":
            text = self._table.text
            assert text is not None
            return lambda: table_as_csv(text).encode()
        timeline, seen = self._timeline.timeline, self._timeline.is_seen
        assert timeline is not None
        if path.suffix == ".csv":
            return lambda: timeline_as_csv(timeline, seen=seen).encode()
        return lambda: as_chrome_trace(timeline, seen=seen).encode()


def as_png(picture: QImage) -> bytes:
    data, buffer = QByteArray(), QBuffer()
    buffer.setBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    picture.save(buffer, "PNG")  # type: ignore[call-overload]
    return bytes(data.data())
