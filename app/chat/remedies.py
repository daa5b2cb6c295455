"""What the chat page offers when something is in the way: the visible choice, never a silent one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.chat.prompting import first_kept
from app.chat.session import ChatSession
from app.model_controller import ModelController
from app.problems import Action, Problem, Problems
from app.store.records import Message
from app.translation import engine_text, tr
from engine.errors import EngineError
from engine.messages import Overflow

if TYPE_CHECKING:
    from app.chat.chat_page import ChatPage

ANSWER_PROBLEM = "answer"
MODEL_PROBLEM = "conversation-model"


class Remedies(QObject):
    summarise_requested = Signal(object)  # Message, to be answered again afterwards

    def __init__(self, page: ChatPage, session: ChatSession, models: ModelController, problems: Problems) -> None:
        super().__init__(page)
        self._page = page
        self._session = session
        self._models = models
        self._problems = problems

    def offer_its_model(self) -> None:
        """A conversation that was held with another model, or asks for another context, can have it."""
        self._problems.clear(MODEL_PROBLEM)
        models, info = self._models, self._models.info
        if info is None or models.loading_path is not None:
            return
        held = [message.details for message in self._session.path() if message.details.get("model_path")]
        context = self._session.parameters.get("context_length", 0)
        if held and held[-1]["model_path"] != info.path and Path(held[-1]["model_path"]).is_file():
            path, name = held[-1]["model_path"], held[-1].get("model", "")
            load = Action(tr("Load {name}", name=name), lambda: models.load(path, context), primary=True)
            words = tr("This conversation was held with {name}; now {other} answers.", name=name, other=info.name)
        elif context and context not in (info.context_length, models.asked_context):
            count = f"{context:,}"
            again = tr("Load with {count} tokens of context", count=count)
            load = Action(again, lambda: models.load(info.path, context), primary=True)
            words = tr(
                "This conversation asks for a context of {count} tokens; the model was loaded with {other}.",
                count=count,
                other=f"{info.context_length:,}",
            )
        else:
            return
        self._problems.show(Problem(MODEL_PROBLEM, words, actions=(load,), serious=False))

    def offer(self, message: Message, error: dict[str, str]) -> None:
        """The visible choice where a prompt is longer than the context; for other errors, another try."""
        actions: tuple[Action, ...]
        if error["kind"] in ("ContextOverflowError", "TurnTooLongError"):
            actions = self._ways_to_room(message, can_trim=error["kind"] == "ContextOverflowError")
        elif error["kind"] == "FileChangedError":  # it would fail again and again until then
            actions = (Action(tr("Load the model again"), self._models.reload, primary=True),)
        else:
            again = Action(tr("Try again"), lambda: self._session.regenerate(message.id), primary=True)
            go_on = Action(tr("Continue"), lambda: self._session.continue_answer(message.id))
            actions = (again, go_on) if message.content else (again,)
            if error["kind"] == "DeviceFailedError":  # for once, or until then
                actions = (*actions, Action(tr("Load the model again"), self._models.reload))
        self._problems.show(
            Problem(
                ANSWER_PROBLEM,
                engine_text(error["cause"]),
                engine_text(error.get("done", "")),
                engine_text(error.get("remedy", "")),
                actions,
            )
        )

    def offer_room(self, message: Message) -> None:
        """An answer that filled the context in the middle of a sentence: the same choice, to go on with it."""
        self._problems.show(
            Problem(
                ANSWER_PROBLEM,
                tr("The context is full, so the answer ended here."),
                tr("Its text is kept."),
                tr("Make room, and the answer goes on."),
                self._ways_to_room(message),
                serious=False,
            )
        )

    def _ways_to_room(self, message: Message, *, can_trim: bool = True) -> tuple[Action, ...]:
        """Only what can help: older messages are left out where there are any and that was not tried in vain."""

        def trim() -> None:
            if message.content:
                self._session.continue_answer(message.id, Overflow.TRIM_OLDEST)
            else:
                self._session.regenerate(message.id, Overflow.TRIM_OLDEST)

        ways: list[tuple[str, Callable[[], None]]] = []
        if can_trim and self._has_older_turns(message):
            ways.append((tr("Leave out the oldest messages"), trim))
            ways.append((tr("Summarise the oldest messages"), lambda: self.summarise_requested.emit(message)))
        if longer := self._longer_context():
            ways.append((tr("Load with {count} tokens of context", count=f"{longer:,}"), self._grow_context))
        if not can_trim or not self._has_older_turns(message):
            ways.append((tr("Edit the message"), self._page.edit_last))
        actions = [Action(words, run, primary=number == 0) for number, (words, run) in enumerate(ways)]
        return (*actions, Action(tr("Stop here"), lambda: None))

    def _has_older_turns(self, message: Message) -> bool:
        """Before the last one, that the model is still told as they are."""
        tree = self._session.tree
        return (
            tree is not None
            and message.parent_id is not None
            and (first_kept(tree.path_to(message.parent_id)) is not None)
        )

    def _longer_context(self) -> int:
        """Twice the context, if the model was trained for it; 0: it cannot grow."""
        info = self._models.info
        if info is None or info.context_length >= info.trained_context_length:
            return 0
        return min(2 * info.context_length, info.trained_context_length)

    def _grow_context(self) -> None:
        self._models.load_with_context(self._longer_context())

    def can_answer(self) -> bool:
        """Whether a model is there; if not, that is said."""
        if not self._models.is_usable:
            choose = Action(tr("Choose a model"), self._page.picker.open_menu, primary=True)
            self._problems.show(
                Problem(
                    "no-model",
                    tr("No model is loaded, so nobody can answer."),
                    tr("Your message is still in the box."),
                    tr("Choose a model, then send it."),
                    (choose,),
                    serious=False,
                )
            )
            return False
        self._problems.clear("no-model")
        self._problems.clear(ANSWER_PROBLEM)
        try:
            self._session.check_parameters()
        except EngineError as error:
            show = Action(
                tr("Show the parameters"), lambda: self._page.parameters_button.setChecked(True), primary=True
            )
            self._problems.show(Problem.from_exception(ANSWER_PROBLEM, error, (show,)))
            return False
        return True
