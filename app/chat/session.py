"""The conversation on screen and the answers being written, on screen or not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.chat.answers import Answers
from app.chat.conversations import Conversations
from app.chat.generation import Generation
from app.chat.parameters.table import answering
from app.chat.prompting import SUMMARY, can_continue, generation_request
from app.store.records import Message, Status, new_id
from app.store.store_thread import StoreThread
from app.store.tree import ConversationTree
from engine.messages import Overflow


class ChatSession(QObject):
    """Sends, stops, regenerates; keeps the tree, the store and the screen in step."""

    opened = Signal()  # another conversation, or none, is on screen: read `path` anew
    path_changed = Signal()  # the same conversation, other messages
    message_added = Signal(object)  # Message, at the end of the path
    message_grew = Signal(object, str)  # Message, appended text
    message_changed = Signal(object)  # Message: its status or details
    message_replaced = Signal(object)  # Message: its content
    progressed = Signal(object)  # Generation, on screen
    busy_changed = Signal(bool)  # whether the conversation on screen is being answered
    revealed = Signal(str)  # id of a message to scroll to
    started = Signal(object)  # Message that is going to be written
    finished = Signal(object)  # Message, on screen or not

    def __init__(
        self,
        answers: Answers,
        store: StoreThread,
        conversations: Conversations,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._conversations = conversations
        answers.grew.connect(self._grew)
        answers.progressed.connect(self._progressed)
        answers.ended.connect(self._ended)
        self._tree: ConversationTree | None = None
        self._answers = answers
        self._trees: dict[str, ConversationTree] = {}  # of conversations that are being answered
        self._opening: str | None = None
        self._draft_parameters: dict[str, Any] = {}  # of a conversation that has no message yet

    # --- what is on screen ---

    @property
    def conversation_id(self) -> str | None:
        return self._tree.conversation_id if self._tree is not None else self._opening

    @property
    def tree(self) -> ConversationTree | None:
        return self._tree

    def path(self) -> list[Message]:
        return self._tree.path() if self._tree is not None else []

    @property
    def generation(self) -> Generation | None:
        """The answer being written in the conversation on screen."""
        return self._answers.in_conversation(self.conversation_id)

    @property
    def is_any_busy(self) -> bool:
        """An answer is being written in any conversation."""
        return self._answers.is_any_running

    def path_to(self, message: Message) -> list[Message] | None:
        """The messages up to this one, where its conversation is at hand."""
        tree = self._tree
        if tree is None or message.id not in tree:
            return None
        return tree.path_to(message.id)

    @property
    def is_busy(self) -> bool:
        return self.generation is not None

    def new(self) -> None:
        """An empty page; a conversation comes into being with its first message."""
        self._show(None)

    def open(self, conversation_id: str, message_id: str = "") -> None:
        """Show a conversation, at one of its messages if that is named."""
        if conversation_id == self.conversation_id:
            self.reveal(message_id)
            return
        if (tree := self._trees.get(conversation_id)) is not None:
            self._show(tree)
            self.reveal(message_id)
            return
        self._opening = conversation_id

        def done(messages: list[Message]) -> None:
            if self._opening == conversation_id:  # nothing else was opened meanwhile
                self._show(ConversationTree(conversation_id, messages))
                self.reveal(message_id)

        self._store.call(lambda store: store.messages(conversation_id), done)

    def reveal(self, message_id: str) -> None:
        """Bring a message on screen, the version of its branch included."""
        tree = self._tree
        if tree is None or message_id not in tree:
            return
        changed = [message for step in tree.path_to(message_id) for message in tree.select(step.id)]
        if changed and not self.is_busy:
            self._put(changed)
            self.path_changed.emit()
        self.revealed.emit(message_id)

    def _show(self, tree: ConversationTree | None) -> None:
        self._tree, self._opening = tree, None
        self.opened.emit()
        self.busy_changed.emit(self.is_busy)

    # --- parameters ---

    @property
    def parameters(self) -> dict[str, Any]:
        """Those of the conversation on screen that differ from the defaults."""
        row = self._conversations.get(self.conversation_id or "")
        return dict(row.parameters) if row is not None else dict(self._draft_parameters)

    def set_parameters(self, values: dict[str, Any]) -> None:
        if self.conversation_id is not None:
            self._conversations.set_parameters(self.conversation_id, values)
        else:
            self._draft_parameters = dict(values)

    def check_parameters(self) -> None:
        """Raises SchemaError where an answer could not be asked for."""
        answering(self.parameters)

    # --- turns ---

    def send(self, text: str, attachments: Sequence[dict[str, Any]] = ()) -> None:
        """Append the owner's message and have it answered. Not while an answer is being written."""
        if self.is_busy or not (text.strip() or attachments):
            return
        if self._tree is None:
            conversation = self._conversations.create(text.strip() or attachments[0]["name"])
            if self._draft_parameters:
                self._conversations.set_parameters(conversation.id, self._draft_parameters)
            self._show(ConversationTree(conversation.id))
        assert self._tree is not None
        last = self._tree.last()
        message = Message(new_id(), self._tree.conversation_id, last.id if last else None, "user", text)
        if attachments:
            message.details["attachments"] = list(attachments)
        self._add(message)
        self.message_added.emit(message)
        self._answer(message.id)

    def regenerate(self, message_id: str, overflow: Overflow = Overflow.ASK) -> None:
        """A new version of an answer; the old one stays as a branch (unless nothing had come yet)."""
        if self._tree is None or self.is_busy or message_id not in self._tree:
            return
        message = self._tree[message_id]
        parent = message.parent_id if message.role == "assistant" else message.id
        if parent is None:
            return
        if message.role == "assistant" and not message.content and not self._tree.children(message_id):
            self._remove(message_id)
        self._answer(parent, overflow)

    def continue_answer(self, message_id: str, overflow: Overflow = Overflow.ASK) -> None:
        """Go on with an answer that ended before its end; its text stays and grows."""
        tree = self._tree
        if tree is None or self.is_busy or not can_continue(tree, message_id):
            return
        message = tree[message_id]
        message.status = Status.STREAMING
        message.details.pop("error", None)
        self._put([message])
        self.message_replaced.emit(message)
        self._request(message, overflow, answer_prefix=message.content)

    def regenerate_last(self) -> None:
        last = self._tree.last() if self._tree is not None else None
        if last is not None:
            self.regenerate(last.id)

    def edit(self, message_id: str, text: str) -> None:
        """The owner's message: a new version, answered anew. An answer: changed in place, what follows stays."""
        if self._tree is None or self.is_busy or message_id not in self._tree or not text.strip():
            return
        old = self._tree[message_id]
        if old.role == "assistant":
            old.content = text
            old.details["edited"] = True
            self._put([old])
            self.message_replaced.emit(old)
            return
        message = Message(new_id(), old.conversation_id, old.parent_id, old.role, text)
        if attachments := old.details.get("attachments"):
            message.details["attachments"] = attachments
        self._add(message)
        self.path_changed.emit()
        self._answer(message.id)

    def show_version(self, message_id: str, step: int) -> None:
        """Another version of a turn, with everything that followed it."""
        if self._tree is None or self.is_busy:
            return
        versions = self._tree.siblings(message_id)
        number = [version.id for version in versions].index(message_id) + step
        if 0 <= number < len(versions):
            self._put(self._tree.select(versions[number].id))
            self.path_changed.emit()

    def versions(self, message: Message) -> tuple[int, int]:
        """(which, of how many) versions of its turn this message is, from 1."""
        if self._tree is None or message.id not in self._tree:
            return 1, 1
        versions = self._tree.siblings(message.id)
        return [version.id for version in versions].index(message.id) + 1, len(versions)

    def can_continue(self, message: Message) -> bool:
        return self._tree is not None and message.id in self._tree and can_continue(self._tree, message.id)

    def put_summary(self, message: Message, summary: str) -> None:
        """From now on the model is told `summary` instead of what stands before `message`."""
        message.details[SUMMARY] = summary
        self._put([message])
        self.message_replaced.emit(message)

    def add_details(self, message: Message, details: dict[str, Any]) -> None:
        """What has been found out about an answer after its end; it may have been deleted meanwhile."""
        message.details.update(details)
        copy = dict(message.details)
        self._store.call(lambda store: store.save_details(message.id, copy))
        if message.conversation_id == self.conversation_id:
            self.message_changed.emit(message)

    def delete(self, message_id: str) -> list[Message]:
        """Take a message and what follows it out; `undelete` takes the result."""
        if self._tree is None or self.is_busy or message_id not in self._tree:
            return []
        return self._remove(message_id)

    def undelete(self, removed: list[Message]) -> None:
        tree, parent = self._tree, removed[0].parent_id
        if tree is None or tree.conversation_id != removed[0].conversation_id or self.is_busy:
            return
        if parent is None or parent in tree:
            self._put(tree.restore(removed))
            self.path_changed.emit()

    def stop(self) -> None:
        self.stop_in(self.conversation_id)

    def stop_in(self, conversation_id: str | None) -> None:
        generation = self._answers.in_conversation(conversation_id)
        if generation is not None:
            self._answers.stop(generation)

    def _answer(self, parent_id: str, overflow: Overflow = Overflow.ASK) -> None:
        tree = self._tree
        assert tree is not None
        answer = Message(new_id(), tree.conversation_id, parent_id, "assistant", "", status=Status.STREAMING)
        branches = len(tree.children(parent_id)) > 0
        self._add(answer)
        if branches:
            self.path_changed.emit()
        else:
            self.message_added.emit(answer)
        self._request(answer, overflow)

    def _request(self, answer: Message, overflow: Overflow = Overflow.ASK, answer_prefix: str = "") -> None:
        """Have the engine write (on) an answer."""
        tree = self._tree
        assert tree is not None and answer.parent_id is not None
        request = generation_request(tree.path_to(answer.parent_id), answering(self.parameters), answer.id)
        if overflow is not Overflow.ASK:
            request = replace(request, overflow=overflow)
        self._trees[tree.conversation_id] = tree
        self._answers.begin(replace(request, answer_prefix=answer_prefix), answer)
        self.busy_changed.emit(True)
        self.started.emit(answer)

    def _add(self, message: Message) -> None:
        assert self._tree is not None
        self._put(self._tree.add(message))
        self._conversations.touch(message.conversation_id)

    def _remove(self, message_id: str) -> list[Message]:
        assert self._tree is not None
        removed, changed = self._tree.remove(message_id)
        ids = [message.id for message in removed]
        self._store.call(lambda store: store.delete_messages(ids))
        self._put(changed)
        self.path_changed.emit()
        return removed

    def _put(self, messages: Iterable[Message]) -> None:
        copies = [message.copy() for message in messages]
        if copies:
            self._store.call(lambda store: store.put_messages(copies))

    # --- what the answers say ---

    def _grew(self, generation: Generation, text: str) -> None:
        message = generation.message
        self._store.save_text(message.id, message.content)
        if message.conversation_id == self.conversation_id:
            self.message_grew.emit(message, text)

    def _progressed(self, generation: Generation) -> None:
        if generation.message.conversation_id == self.conversation_id:
            self.progressed.emit(generation)

    def _ended(self, generation: Generation) -> None:
        message = generation.message
        if self._conversations.get(message.conversation_id) is not None:  # not purged meanwhile
            self._put([message])
        if self._answers.in_conversation(message.conversation_id) is None:
            self._trees.pop(message.conversation_id, None)
        if message.conversation_id == self.conversation_id:
            self.message_changed.emit(message)
            self.busy_changed.emit(self.is_busy)
        self.finished.emit(message)
