"""Messages over a pipe: four bytes of length, then the pickled dataclass.

The child holds llama.cpp and a file from the internet, so unpickling admits only the classes that messages are
made of.
"""

from __future__ import annotations

import io
import pickle
import struct
import threading
from typing import IO, Any

from engine import messages

MAX_MESSAGE_BYTES = 256 << 20


class MessageWriter:
    """`send` may be called from several threads."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, message: object) -> None:
        """Raises OSError when the other side is gone."""
        data = pickle.dumps(message, protocol=5)
        with self._lock:
            self._stream.write(struct.pack("<I", len(data)) + data)
            self._stream.flush()


def receive(stream: IO[bytes]) -> Any | None:
    """The next message; None when the other side is gone. Raises UnpicklingError for anything but messages."""
    header = stream.read(4)
    if len(header) < 4:
        return None
    (length,) = struct.unpack("<I", header)
    if length > MAX_MESSAGE_BYTES:
        raise pickle.UnpicklingError(f"a message of {length} bytes")
    data = stream.read(length)
    return _MessageUnpickler(io.BytesIO(data)).load() if len(data) == length else None


class _MessageUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if module == messages.__name__ and "." not in name else None
        if not isinstance(found, type) or found.__module__ != messages.__name__:
            raise pickle.UnpicklingError(f"{module}.{name} is no message")
        return found
