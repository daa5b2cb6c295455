"""One window per data folder: a second start brings the first one to the front."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from PySide6.QtCore import QLockFile, QObject

from app.environment import DataFolder

CONNECT_MS = 2000


class SingleInstance(QObject):
    """Holds the folder's lock while the process lives; a lock of a process that is gone is taken over."""

    def __init__(self, folder: DataFolder) -> None:
        super().__init__()
        self._name = "tessera-" + hashlib.sha256(str(folder.root.resolve()).encode()).hexdigest()[:16]
        self._lock = QLockFile(str(folder.root / "tessera.lock"))
        self._lock.setStaleLockTime(0)
        self._server: QObject | None = None

    def acquire(self) -> bool:
        """False where another process holds the lock; a folder that cannot be written to has none to hold."""
        return self._lock.tryLock(0) or self._lock.error() is not QLockFile.LockError.LockFailedError

    def listen(self, on_second_start: Callable[[], None]) -> None:
        """Be told when somebody starts Tessera again."""
        from PySide6.QtNetwork import QLocalServer

        server = QLocalServer(self)
        QLocalServer.removeServer(self._name)
        server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)

        def arrived() -> None:
            while (socket := server.nextPendingConnection()) is not None:
                socket.close()
                on_second_start()

        server.newConnection.connect(arrived)
        server.listen(self._name)
        self._server = server

    def call_the_first(self) -> bool:
        """Ask the process that holds the lock to show its window."""
        from PySide6.QtNetwork import QLocalSocket

        socket = QLocalSocket()
        socket.connectToServer(self._name)
        connected = socket.waitForConnected(CONNECT_MS)
        socket.close()
        return connected

    def release(self) -> None:
        if self._server is not None:
            self._server.close()  # type: ignore[attr-defined]
            self._server = None
        self._lock.unlock()
