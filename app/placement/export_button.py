"""Takes along what the memory page shows: the page, the map's table, and the timeline of a step, each as a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QMenu, QToolButton, QWidget

from app.placement.exports import as_chrome_trace, table_as_csv, timeline_as_csv
from app.placement.map_card import MapCard
from app.placement.timeline_card import TimelineCard
from app.translation import tr


class ExportButton(QToolButton):
    """`page` is what a picture of the page shows; `name` gives files their name."""

    def __init__(
        self, page: QWidget, table: MapCard, timeline: TimelineCard, name: Callable[[], str], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._page, self._table, self._timeline, self._name = page, table, timeline, name
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
        """`what`: "page" (.png), "table" (.csv), or "timeline" (.png, .csv or .json), which is unfolded for it."""
        if what == "page":
            self._page.grab().save(str(path))
        elif what == "table":
            path.write_text(table_as_csv(self._table.table_rows()), encoding="utf-8")
        elif self._timeline.timeline is None:
            self._timeline.then(lambda: self.export_to(path, what))
        else:
            self._export_timeline(path)

    def _export_timeline(self, path: Path) -> None:
        timeline, seen = self._timeline.timeline, self._timeline.is_seen
        assert timeline is not None
        if path.suffix == ".png":
            self._timeline.unfold.setChecked(True)
            self._timeline.grab().save(str(path))
        elif path.suffix == ".csv":
            path.write_text(timeline_as_csv(timeline, seen=seen), encoding="utf-8")
        else:
            path.write_text(as_chrome_trace(timeline, seen=seen), encoding="utf-8")
