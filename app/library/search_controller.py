"""What is typed becomes a search: after a pause, one at a time, page by page, and never twice for the same words."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.library.library_controller import LibraryController

if TYPE_CHECKING:
    from engine.hub.repository import RepositorySummary, Search, Sort

DEBOUNCE_MS = 300
KEPT_ANSWERS = 20


class _Answer:
    """Rows that came for one query so far, and the search they come from (None before it was begun)."""

    def __init__(self) -> None:
        self.rows: list[RepositorySummary] = []
        self.search: Search | None = None
        self.finished = False


class SearchController(QObject):
    """`rows` belong to the words last typed. `changed` after every step; `error` is set when one failed."""

    changed = Signal()

    def __init__(self, library: LibraryController, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._library = library
        self._text = ""
        self._sort: Sort = "downloads"
        self._answers: OrderedDict[tuple[str, str], _Answer] = OrderedDict()
        self._asking: _Answer | None = None
        self.error: Exception | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(DEBOUNCE_MS)
        self._timer.timeout.connect(self._ask)

    @property
    def text(self) -> str:
        return self._text

    @property
    def rows(self) -> list[RepositorySummary]:
        answer = self._answers.get((self._text, self._sort))
        return answer.rows if answer is not None else []

    @property
    def is_searching(self) -> bool:
        return bool(self._text) and (self._timer.isActive() or self._asking is not None)

    @property
    def is_finished(self) -> bool:
        answer = self._answers.get((self._text, self._sort))
        return answer is not None and answer.finished

    def type(self, text: str) -> None:
        """Called for every change of the field; asks when nothing was typed for a moment."""
        text = " ".join(text.split())
        if text == self._text:
            return
        self._text = text
        self._restart()

    def sort(self, sort: Sort) -> None:
        if sort != self._sort:
            self._sort = sort
            self._restart()

    def again(self) -> None:
        """After an error, or to see what is new."""
        self._answers.pop((self._text, self._sort), None)
        self._cancel()
        self._ask()

    def more(self) -> None:
        """The next page of the present answer."""
        if self._text and self._asking is None and not self._timer.isActive() and not self.is_finished:
            self._ask()

    def _restart(self) -> None:
        self._cancel()
        self.error = None
        if self._text and not self.rows:
            self._timer.start()
        else:
            self._timer.stop()
        self.changed.emit()

    def _cancel(self) -> None:
        if self._asking is not None and self._asking.search is not None:
            self._asking.search.stop.set()
        self._asking = None

    def _ask(self) -> None:
        services = self._library.services
        if services is None or not self._text:
            return
        key = (self._text, self._sort)
        answer = self._answers.setdefault(key, _Answer())
        self._answers.move_to_end(key)
        while len(self._answers) > KEPT_ANSWERS:
            self._answers.popitem(last=False)
        self._asking, self.error = answer, None
        text, sort = self._text, self._sort

        def work() -> tuple[RepositorySummary, ...]:
            from engine.hub.repository import Search

            if answer.search is None or answer.search.stop.is_set():
                answer.search = Search(services.connect(), text, sort)
                answer.rows = []
            return answer.search.next_page()

        def done(page: tuple[RepositorySummary, ...]) -> None:
            assert answer.search is not None
            answer.rows.extend(page)
            answer.finished = answer.search.finished
            self._ended(answer)

        def failed(error: Exception) -> None:
            answer.search = None  # the next try begins anew
            if self._asking is answer:
                self.error = error
            self._ended(answer)

        self._library.background.run_in_background(work, done, failed)
        self.changed.emit()

    def _ended(self, answer: _Answer) -> None:
        if self._asking is answer:
            self._asking = None
            self.changed.emit()
