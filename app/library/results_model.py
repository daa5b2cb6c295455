"""Rows of the Discover list: the curated models when nothing is typed, else what the search found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt

from app.translation import engine_text, tr

if TYPE_CHECKING:
    from engine.hub.catalogue import CatalogueModel
    from engine.hub.repository import RepositorySummary

RowRole = Qt.ItemDataRole.UserRole
Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class ResultRow:
    """What the delegate paints. `wanted_file` is the file that a curated row recommends."""

    repository: str
    title: str
    subtitle: str
    facts: str
    gated: bool = False
    wanted_file: str = ""


class ResultsModel(QAbstractListModel):
    def __init__(self) -> None:
        super().__init__()
        self._rows: list[ResultRow] = []

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's signature
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row = self._rows[index.row()]
        if role == RowRole:
            return row
        if role == Qt.ItemDataRole.ToolTipRole:
            return row.subtitle
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return f"{row.title}, {row.subtitle}, {row.facts}"
        return None

    def show(self, rows: list[ResultRow]) -> None:
        """Replace the rows; when they only grew, the view keeps its place."""
        old = self._rows
        if old and len(rows) > len(old) and rows[: len(old)] == old:
            self.beginInsertRows(QModelIndex(), len(old), len(rows) - 1)
            self._rows = rows
            self.endInsertRows()
        elif rows != old:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()


def curated_row(model: CatalogueModel) -> ResultRow:
    size = tr("{billions} billion parameters", billions=f"{model.billions:g}")
    if model.active_billions is not None:
        size += tr(", {active} active", active=f"{model.active_billions:g}")
    facts = f"{size}  ·  {model.quantization}, ≈ {model.gigabytes:g} GB"
    return ResultRow(model.repository, model.title, engine_text(model.why), facts, wanted_file=model.file)


def found_row(found: RepositorySummary) -> ResultRow:
    about, facts = [found.owner], []
    if found.parameters:
        about.append(tr("{count} parameters", count=short_count(found.parameters)))
    if found.downloads is not None:
        facts.append(tr("{count} downloads", count=short_count(found.downloads)))
    if found.likes is not None:
        facts.append(tr("{count} likes", count=short_count(found.likes)))
    if found.modified is not None:
        facts.append(_date(found.modified))
    return ResultRow(found.name, found.title, "  ·  ".join(about), "  ·  ".join(facts), found.gated)


def short_count(count: float) -> str:
    """1.2k, 30.5M, 7B."""
    for unit in ("", "k", "M", "B"):
        if count < 1000 or unit == "B":
            return f"{count:.0f}{unit}" if count >= 100 or unit == "" else f"{count:.1f}".removesuffix(".0") + unit
        count /= 1000
    raise AssertionError("unreachable")


def _date(when: datetime) -> str:
    return f"{when:%Y-%m-%d}"
