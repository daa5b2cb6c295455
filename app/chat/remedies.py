"""What the chat page offers when something is in the way: the visible choice, never a silent one."""

from __future__ import annotations

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
        """A conversation that was held with another model can have it back."""
        self._problems.clear(MODEL_PROBLEM)
        held = [message.details for message in self._session.path() if message.details.get("model_path")]
        info = self._models.info
        if not held or info is None or self._models.loading_path is not None:
            return
        path, name = held[-1]["model_path"], held[-1].get("model", "")
        if path == info.path or not Path(path).is_file():
            return
        load = Action(tr("Load {name}", name=name), lambda: self._models.load(path), primary=True)
        words = tr("This conversation was held with {name}; now {other} answers.", name=name, other=info.name)
        self._problems.show(Problem(MODEL_PROBLEM, words, actions=(load,), serious=False))

    def offer(self, message: Message, error: dict[str, str]) -> None:
        """The visible choice where a prompt is longer than the context; for other errors, another try."""
        if error["kind"] == "ContextOverflowError":
            trim = Action(
                tr("Leave out the oldest messages"),
                lambda: self._session.regenerate(message.id, Overflow.TRIM_OLDEST),
                primary=True,
            )
            longer = self._longer_context()
            more = (Action(tr("Load with {count} tokens of context", count=f"{longer:,}"), self._grow_context),)
            summarise = Action(tr("Summarise the oldest messages"), lambda: self.summarise_requested.emit(message))
            shorter = (summarise,) if self._can_summarise(message) else ()
            stop = Action(tr("Stop here"), lambda: None)
            actions: tuple[Action, ...] = (trim, *shorter, *(more if longer else ()), stop)
        elif error["kind"] == "FileChangedError":  # it would fail again and again until then
            actions = (Action(tr("Load the model again"), self._models.reload, primary=True),)
        else:
            again = Action(tr("Try again"), lambda: self._session.regenerate(message.id), primary=True)
            go_on = Action(tr("Continue"), lambda: self._session.continue_answer(message.id))
            actions = (again, go_on) if message.content else (again,)
        self._problems.show(
            Problem(
                ANSWER_PROBLEM,
                engine_text(error["cause"]),
                engine_text(error.get("done", "")),
                engine_text(error.get("remedy", "")),
                actions,
            )
        )

    def _can_summarise(self, message: Message) -> bool:
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
