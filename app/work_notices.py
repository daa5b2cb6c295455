"""What counts as work that may go on unseen, and how its end is told: answers and downloads."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app.chat.conversations import Conversations
from app.chat.session import ChatSession
from app.library.download_watch import DownloadWatch
from app.notifications import Notifications
from app.store.records import Message, Status
from app.translation import tr


class WorkNotices(QObject):
    def __init__(
        self,
        notifications: Notifications,
        session: ChatSession,
        conversations: Conversations,
        downloads: DownloadWatch,
    ) -> None:
        super().__init__(notifications)
        self._notifications = notifications
        self._conversations = conversations
        self._watch = downloads
        self._running: dict[str, str] = {}  # names of those that are going on, by id
        session.started.connect(lambda message: notifications.begin(message.id))
        session.finished.connect(self._answer_ended)
        downloads.changed.connect(self._look_at_downloads)

    def _answer_ended(self, message: Message) -> None:
        row = self._conversations.get(message.conversation_id)
        title = row.title if row is not None else ""
        failed = message.status is Status.FAILED
        words = (
            tr("An answer failed: {title}", title=title) if failed else tr("An answer is ready: {title}", title=title)
        )
        self._notifications.end(message.id, words)

    def _look_at_downloads(self) -> None:
        """One that was paused or removed has ended too, but that was its owner's doing."""
        from engine.hub.download_status import State

        states = {one.id: one.state for one in self._watch.statuses}
        for one in self._watch.statuses:
            if one.state in (State.QUEUED, State.RUNNING) and one.id not in self._running:
                self._running[one.id] = one.name
                self._notifications.begin(one.id)
        for key, name in list(self._running.items()):
            state = states.get(key)
            if state in (State.QUEUED, State.RUNNING):
                continue
            del self._running[key]
            words = tr("Downloaded: {name}", name=name) if state is State.DONE else ""
            if state is State.FAILED:
                words = tr("A download failed: {name}", name=name)
            self._notifications.end(key, words)
