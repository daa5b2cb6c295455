"""SHA-256 of a stream, computed on a thread of its own while the next block is read and written."""

from __future__ import annotations

import hashlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

DEPTH = 4  # blocks that may wait; the stream waits rather than pile up more


class StreamHash:
    """Used by one thread. `close` ends the thread that hashes."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._pending: deque[Future[None]] = deque()
        self._worker = ThreadPoolExecutor(1, "hashing")

    def update(self, block: bytes | memoryview) -> None:
        """Takes the block as it is: it must not be changed afterwards."""
        if len(self._pending) >= DEPTH:
            self._pending.popleft().result()
        self._pending.append(self._worker.submit(self._digest.update, block))

    def hexdigest(self) -> str:
        while self._pending:
            self._pending.popleft().result()
        return self._digest.hexdigest()

    def close(self) -> None:
        self._worker.shutdown()
