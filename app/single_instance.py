"""One window per data folder: a second start brings the first one to the front, with its model."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject

from app.environment import DataFolder, activation_token

CONNECT_MS = 5000


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

    def listen(self, on_second_start: Callable[[str, str], None]) -> None:
        """Be told when somebody starts Tessera again: the model's path, or "", and the desktop's activation token."""
        from PySide6.QtNetwork import QLocalServer, QLocalSocket

        server = QLocalServer(self)
        QLocalServer.removeServer(self._name)
        server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)

        def read(socket: QLocalSocket) -> None:
            try:
                message = json.loads(bytes(socket.readAll().data()) or b"{}")
                model, token = str(message.get("open", "")), str(message.get("token", ""))
            except (ValueError, AttributeError):  # somebody else's words: the window is shown all the same
                model = token = ""
            socket.deleteLater()
            on_second_start(model, token)

        def arrived() -> None:
            while (socket := server.nextPendingConnection()) is not None:
                socket.disconnected.connect(lambda socket=socket: read(socket))
                if socket.state() == QLocalSocket.LocalSocketState.UnconnectedState:
                    read(socket)

        server.newConnection.connect(arrived)
        server.listen(self._name)
        self._server = server

    def call_the_first(self, model: Path | None = None) -> bool:
        """Ask the process that holds the lock to show its window, with `model`. False where it does not answer."""
        from PySide6.QtNetwork import QLocalSocket

        message = {"open": str(model.absolute()) if model is not None else "", "token": activation_token()}
        end = time.monotonic() + CONNECT_MS / 1000
        while True:  # the first one may be starting still: it listens once its window is painted
            socket = QLocalSocket()
            socket.connectToServer(self._name)
            if socket.waitForConnected(CONNECT_MS):
                socket.write(json.dumps(message).encode())
                socket.flush()
                socket.disconnectFromServer()
                left = socket.state() == QLocalSocket.LocalSocketState.UnconnectedState
                return left or socket.waitForDisconnected(CONNECT_MS)
            if time.monotonic() > end:
                return False
            time.sleep(0.1)

    def release(self) -> None:
        if self._server is not None:
            self._server.close()  # type: ignore[attr-defined]
            self._server = None
        self._lock.unlock()
