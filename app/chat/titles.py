"""Titles by the model itself: asked for after the first answer, when nobody waits for anything else."""

from __future__ import annotations

import re

from PySide6.QtCore import QObject, QTimer

from app.chat.conversations import TITLE_LENGTH, Conversations
from app.chat.prompting import prompt_messages
from app.chat.session import ChatSession
from app.engine_client import Arrival, EngineClient
from app.model_controller import ModelController
from app.settings.values import Settings
from app.store.records import Message, Status
from engine.messages import (
    Abort,
    ChatMessage,
    Generate,
    GenerationFinished,
    GenerationRequest,
    SamplingParams,
    TokenEvent,
)
from engine.text.reasoning import split_reasoning

IDLE_MS = 1500
MAX_TOKENS = 24
FEWEST_PARAMETERS = 300_000_000  # smaller models do not understand the question
PREFIX = "title-"
EXCERPT = 600  # characters of each message that are told
QUESTION = "Write a title for this conversation: at most six words, no quotation marks. Answer with the title alone."


class Titles(QObject):
    """One request at a time; a message that the owner sends aborts it."""

    def __init__(
        self,
        client: EngineClient,
        session: ChatSession,
        conversations: Conversations,
        models: ModelController,
        settings: Settings,
    ) -> None:
        super().__init__(session)
        self._client = client
        self._session = session
        self._conversations = conversations
        self._models = models
        self._settings = settings
        self._asked: str | None = None  # request id
        self._text = ""
        self._wanted: list[Message] = []
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(IDLE_MS)
        self._timer.timeout.connect(self._ask)
        session.finished.connect(self._answered)
        session.busy_changed.connect(self._busy)

    def handle_all(self, arrivals: list[Arrival]) -> None:
        if self._asked is None:
            return
        for _, event in arrivals:
            if isinstance(event, TokenEvent) and event.request_id == self._asked:
                self._text += event.text
            elif isinstance(event, GenerationFinished) and event.request_id == self._asked:
                self._finish(event)

    def _answered(self, message: Message) -> None:
        row = self._conversations.get(message.conversation_id)
        if row is None or row.titled_by != "first message" or message.status is not Status.COMPLETE:
            return
        info = self._models.info
        if self._settings["automatic_titles"] and info is not None and info.parameters >= FEWEST_PARAMETERS:
            self._wanted.append(message)
            self._timer.start()

    def _busy(self, busy: bool) -> None:
        """Nobody waits for a title."""
        if busy and self._asked is not None:
            self._client.send(Abort(self._asked))
            self._asked = None
        elif not busy and self._wanted:
            self._timer.start()

    def _ask(self) -> None:
        if not self._wanted or self._asked is not None or self._session.is_any_busy or self._models.info is None:
            return
        message = self._wanted.pop(0)
        path = self._session.path_to(message)
        row = self._conversations.get(message.conversation_id)
        if path is None or row is None or row.titled_by != "first message":
            return
        told = [ChatMessage(m.role, m.content[:EXCERPT]) for m in prompt_messages(path[:2])]
        request = GenerationRequest(
            PREFIX + message.conversation_id,
            (*told, ChatMessage("user", QUESTION)),
            SamplingParams(temperature=0.0),
            max_tokens=MAX_TOKENS,
        )
        self._asked, self._text = request.request_id, ""
        self._client.send(Generate(request))

    def _finish(self, event: GenerationFinished) -> None:
        conversation_id = event.request_id.removeprefix(PREFIX)
        self._asked = None
        row = self._conversations.get(conversation_id)
        title = clean_title(self._text)
        if event.error is None and title and row is not None and row.titled_by == "first message":
            self._conversations.rename(conversation_id, title, by="model")
        if self._wanted:
            self._timer.start()


def clean_title(text: str) -> str:
    """The first line without marks; empty where a model did not understand the question."""
    answer = split_reasoning(text).answer.strip()
    line = next((line for line in answer.splitlines() if line.strip()), "")
    line = re.sub(r"^\W*(?:title|titel)\s*:\s*", "", line.strip(), flags=re.IGNORECASE)
    line = re.sub(r"[*_`#]+", "", line).strip(" \"'“”„‘’«»「」.:")
    words = line.split()
    if line.lower() in QUESTION.lower():  # small models repeat what they were told
        return ""
    if not words or len(line) > TITLE_LENGTH or len(words) > 10:
        return ""
    return " ".join(words)
