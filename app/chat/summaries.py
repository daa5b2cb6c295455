"""Room in a full context without forgetting: the oldest turns are summarised by the model, visibly."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app.chat.prompting import first_kept, prompt_messages
from app.chat.session import ChatSession
from app.engine_client import Arrival, EngineClient
from app.model_controller import ModelController
from app.problems import Action, Problem, Problems
from app.store.records import Message
from app.translation import tr
from engine.messages import (
    Abort,
    ChatMessage,
    ErrorInfo,
    FinishReason,
    Generate,
    GenerationFinished,
    GenerationRequest,
    SamplingParams,
    TokenEvent,
)
from engine.text.reasoning import split_reasoning

PREFIX = "summary-"
PROBLEM = "summary"
MAX_TOKENS = 400
CHARACTERS_PER_TOKEN = 2  # few, so that what is to be summarised surely fits
QUESTION = (
    "Summarise the following conversation so that it can be continued: keep names, numbers, decisions, code that "
    "matters, and what the user wants. At most 200 words."
)


class Summaries(QObject):
    def __init__(self, client: EngineClient, session: ChatSession, models: ModelController, problems: Problems) -> None:
        super().__init__(session)
        self._client = client
        self._session = session
        self._models = models
        self._problems = problems
        self._answer: Message | None = None  # to be answered again once the summary is there
        self._kept: Message | None = None
        self._request_id = ""
        self._text = ""

    def summarise(self, answer: Message) -> None:
        """Summarise what stands before the younger half of the turns, then have `answer` written again."""
        tree, info = self._session.tree, self._models.info
        if tree is None or info is None or answer.parent_id is None or self._answer is not None:
            return
        path = tree.path_to(answer.parent_id)
        kept = first_kept(path)
        if kept is None:
            return
        old = list(prompt_messages(path[: path.index(kept)]))
        room = info.context_length * CHARACTERS_PER_TOKEN // 2 // len(old)
        told = "\n\n".join(f"{message.role}: {message.content[:room]}" for message in old)
        request = GenerationRequest(
            PREFIX + answer.id,
            (ChatMessage("user", f"{QUESTION}\n\n{told}"),),
            SamplingParams(temperature=0.0),
            max_tokens=min(MAX_TOKENS, info.context_length // 8),
        )
        self._answer, self._kept, self._text, self._request_id = answer, kept, "", request.request_id
        stop = Action(tr("Stop"), lambda: self._client.send(Abort(request.request_id)))
        self._problems.show(Problem(PROBLEM, tr("Summarising the oldest messages…"), actions=(stop,), serious=False))
        self._client.send(Generate(request))

    def handle_all(self, arrivals: list[Arrival]) -> None:
        if not self._request_id:
            return
        for _, event in arrivals:
            if isinstance(event, TokenEvent) and event.request_id == self._request_id:
                self._text += event.text
            elif isinstance(event, GenerationFinished) and event.request_id == self._request_id:
                self._finish(event)

    def _finish(self, event: GenerationFinished) -> None:
        answer, kept, self._answer, self._request_id = self._answer, self._kept, None, ""
        self._problems.clear(PROBLEM)
        if answer is None or kept is None or event.reason is FinishReason.ABORTED:
            return
        summary = split_reasoning(self._text).answer.strip()
        if event.error is not None or not summary:
            error = event.error or ErrorInfo("EmptySummary", "The model gave no summary.", "Nothing was changed.")
            self._problems.show(Problem.from_info(PROBLEM, error))
            return
        self._session.put_summary(kept, summary)
        if answer.content:  # it had begun when the context was full
            self._session.continue_answer(answer.id)
        else:
            self._session.regenerate(answer.id)
