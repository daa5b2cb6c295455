from __future__ import annotations

import io
import os
import pickle
import struct

import pytest

from engine.backends.llama_cpp.framing import MessageWriter, receive
from engine.messages import (
    ChatMessage,
    FinishReason,
    Generate,
    GenerationFinished,
    GenerationRequest,
    GenerationStats,
    LoadModel,
    TokenEvent,
)

MESSAGES = [
    LoadModel("/models/山田.gguf"),
    Generate(GenerationRequest("r", (ChatMessage("user", "Hi 🙂"),), stop=("a", "b"))),
    TokenEvent("r", "x" * 100_000),
    GenerationFinished("r", FinishReason.STOP, GenerationStats(1, 0, 2, 0.1, 0.1, 0.2, 3)),
]


def framed(data: bytes) -> io.BytesIO:
    return io.BytesIO(struct.pack("<I", len(data)) + data)


def test_messages_cross_unchanged() -> None:
    pipe = io.BytesIO()
    writer = MessageWriter(pipe)
    for message in MESSAGES:
        writer.send(message)
    pipe.seek(0)
    assert [receive(pipe) for _ in MESSAGES] == MESSAGES
    assert receive(pipe) is None


@pytest.mark.parametrize("data", [b"", b"\1\0", b"\5\0\0\0ab"])
def test_a_pipe_that_ends_early(data: bytes) -> None:
    assert receive(io.BytesIO(data)) is None


class Harmful:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("false",)


@pytest.mark.parametrize("thing", [Harmful(), os.getpid, ValueError("x"), io.BytesIO])
def test_nothing_but_messages_is_unpickled(thing: object) -> None:
    with pytest.raises(pickle.UnpicklingError):
        receive(framed(pickle.dumps(thing)))


def test_names_that_reach_through_a_module() -> None:
    """`engine.messages` imports other things; only its own classes are let through."""
    for name in (b"enum.sys.modules", b"field", b"enum", b"EngineError", b"Literal"):
        pickled = b"\x80\x04\x8c\x0fengine.messages\x8c" + bytes([len(name)]) + name + b"\x93."
        with pytest.raises(pickle.UnpicklingError):
            receive(framed(pickled))


def test_a_huge_length_is_refused() -> None:
    with pytest.raises(pickle.UnpicklingError):
        receive(io.BytesIO(struct.pack("<I", 2**32 - 1)))
