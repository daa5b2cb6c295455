"""Things that went wrong, as the window shows them: cause, what was done, what to do, and buttons to do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from PySide6.QtCore import QObject, Signal

from app.translation import engine_text
from engine.errors import EngineError
from engine.messages import ErrorInfo


@dataclass(frozen=True, slots=True)
class Action:
    """A button on a problem's card; pressing it closes the card unless `keeps_open`."""

    label: str
    run: Callable[[], None]
    primary: bool = False
    keeps_open: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """`key` names the kind: a later problem of the same key replaces the card of the earlier one."""

    key: str
    cause: str
    done: str = ""
    remedy: str = ""
    actions: tuple[Action, ...] = field(default=())
    serious: bool = True  # False: worth knowing, but nothing failed

    @classmethod
    def from_info(cls, key: str, info: ErrorInfo, actions: tuple[Action, ...] = ()) -> Problem:
        return cls(key, *map(engine_text, (info.cause, info.done, info.remedy)), actions)

    @classmethod
    def from_exception(cls, key: str, error: BaseException, actions: tuple[Action, ...] = ()) -> Problem:
        if isinstance(error, EngineError):
            return cls(key, *map(engine_text, (error.cause, error.done, error.remedy)), actions)
        return cls.from_info(key, ErrorInfo.from_exception(error), actions)


class Problems(QObject):
    """Where every part of the application reports problems; the window listens."""

    raised = Signal(object)  # Problem
    cleared = Signal(str)  # key

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.open: dict[str, Problem] = {}  # by key: raised and not cleared since

    def show(self, problem: Problem) -> None:
        self.open[problem.key] = problem
        self.raised.emit(problem)

    def clear(self, key: str) -> None:
        self.open.pop(key, None)
        self.cleared.emit(key)
