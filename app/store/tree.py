"""A conversation as a tree: editing or regenerating adds a sibling, nothing is overwritten."""

from __future__ import annotations

from collections.abc import Iterable

from app.store.records import Message


class ConversationTree:
    """Messages by id and by parent. The selected child of each node makes the path that is on screen.

    Methods that change something return the messages whose rows must be saved.
    """

    def __init__(self, conversation_id: str, messages: Iterable[Message] = ()) -> None:
        self.conversation_id = conversation_id
        self._messages: dict[str, Message] = {}
        self._children: dict[str | None, list[str]] = {}
        for message in messages:
            self._insert(message)

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._messages

    def __getitem__(self, message_id: str) -> Message:
        return self._messages[message_id]

    def messages(self) -> list[Message]:
        return list(self._messages.values())

    def path(self) -> list[Message]:
        """The messages on screen, first to last."""
        path: list[Message] = []
        parent: str | None = None
        while (child := self._selected_child(parent)) is not None:
            path.append(child)
            parent = child.id
        return path

    def path_to(self, message_id: str) -> list[Message]:
        """From the first message to this one, whatever is selected."""
        path: list[Message] = []
        current: str | None = message_id
        while current is not None:
            path.append(self._messages[current])
            current = self._messages[current].parent_id
        return path[::-1]

    def last(self) -> Message | None:
        path = self.path()
        return path[-1] if path else None

    def siblings(self, message_id: str) -> list[Message]:
        """All versions of this turn, oldest first, itself included."""
        parent = self._messages[message_id].parent_id
        return [self._messages[key] for key in self._children[parent]]

    def children(self, message_id: str | None) -> list[Message]:
        return [self._messages[key] for key in self._children.get(message_id, ())]

    def add(self, message: Message) -> list[Message]:
        """Append as the newest version below its parent, and select it."""
        if message.parent_id is not None and message.parent_id not in self._messages:
            raise KeyError(message.parent_id)
        self._insert(message)
        return [*self.select(message.id), message]

    def select(self, message_id: str) -> list[Message]:
        """Show this version of its turn; what was selected below it is shown again."""
        changed: list[Message] = []
        for sibling in self.siblings(message_id):
            selected = sibling.id == message_id
            if sibling.selected != selected:
                sibling.selected = selected
                changed.append(sibling)
        return changed

    def remove(self, message_id: str) -> tuple[list[Message], list[Message]]:
        """Take out a message and everything below it.

        Returns (removed, changed): the nearest remaining version of the turn becomes the selected one.
        """
        top = self._messages[message_id]
        siblings = self._children[top.parent_id]
        place = siblings.index(message_id)
        removed = self._subtree(message_id)
        for message in removed:
            del self._messages[message.id]
            self._children.pop(message.id, None)
        siblings.remove(message_id)
        if not siblings:
            del self._children[top.parent_id]
            return removed, []
        if not top.selected:
            return removed, []
        return removed, self.select(siblings[min(place, len(siblings) - 1)])

    def restore(self, removed: Iterable[Message]) -> list[Message]:
        """Undo of `remove`: takes its first result."""
        messages = list(removed)
        for message in messages:
            self._insert(message)
        top = messages[0]
        siblings = self._children[top.parent_id]
        siblings.sort(key=lambda key: self._messages[key].created_at)
        return [*self.select(top.id), *messages]

    def _subtree(self, message_id: str) -> list[Message]:
        found = [self._messages[message_id]]
        for message in found:  # grows while it is walked
            found.extend(self._messages[key] for key in self._children.get(message.id, ()))
        return found

    def _selected_child(self, parent: str | None) -> Message | None:
        children = self._children.get(parent)
        if not children:
            return None
        for key in children:
            if self._messages[key].selected:
                return self._messages[key]
        return self._messages[children[-1]]

    def _insert(self, message: Message) -> None:
        if message.id in self._messages:
            raise ValueError(f"message {message.id} is in the tree already")
        self._messages[message.id] = message
        self._children.setdefault(message.parent_id, []).append(message.id)
