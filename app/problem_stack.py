"""The problems that are open, one card each, newest last."""

from __future__ import annotations

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.problem_card import ProblemCard
from app.problems import Problem, Problems
from app.theme.theme import Theme


class ProblemStack(QWidget):
    """A problem of the same key takes the place of the one before. `only`: the key of the one kind that is shown."""

    def __init__(self, problems: Problems, theme: Theme, parent: QWidget | None = None, *, only: str = "") -> None:
        super().__init__(parent)
        self._only = only
        self._theme = theme
        self._cards: dict[str, ProblemCard] = {}
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(8)
        problems.raised.connect(self.show_problem)
        problems.cleared.connect(self.close_problem)
        self.hide()
        for problem in problems.open.values():
            self.show_problem(problem)

    @property
    def cards(self) -> list[ProblemCard]:
        return list(self._cards.values())

    def show_problem(self, problem: Problem) -> None:
        if self._only and problem.key != self._only:
            return
        self.close_problem(problem.key)
        card = ProblemCard(problem, self._theme, self)
        card.closed.connect(self.close_problem)
        self._cards[problem.key] = card
        self._layout.addWidget(card)
        self.show()

    def close_problem(self, key: str) -> None:
        card = self._cards.pop(key, None)
        if card is not None:
            self._layout.removeWidget(card)
            card.hide()
            card.deleteLater()
        self.setVisible(bool(self._cards))
