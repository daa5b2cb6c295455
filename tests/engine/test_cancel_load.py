"""A load that nobody wants any more ends soon, and leaves everything as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.backends.llama_cpp.backend import ChildProcess
from engine.client import EngineClient
from engine.messages import (
    CancelLoad,
    EngineStopped,
    LoadModel,
    LoadOptions,
    ModelLoadCancelled,
    ModelLoaded,
    ModelLoading,
    ModelUnloaded,
    UnloadModel,
)
from engine.native_loading import load_native
from engine.text.llama_library import llama
from tests.support.engine_events import until
from tests.support.tiny_models import TinyModel

Write = Callable[[TinyModel], Path]
ONE_THREAD = LoadOptions(threads=1)


@pytest.fixture
def slow_vocabulary(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Reading a vocabulary takes until the event is set."""
    import engine.native_loading

    original, may_go_on = engine.native_loading.vocabulary_loader, threading.Event()

    def slow_loader(path: Path) -> Callable[[], Any]:
        read = original(path)

        def wait() -> Any:
            assert may_go_on.wait(60)
            return read()

        return wait

    monkeypatch.setattr(engine.native_loading, "vocabulary_loader", slow_loader)
    yield may_go_on
    may_go_on.set()


def test_the_model_that_ran_before_runs_on(
    client: EngineClient, tiny_models: Write, slow_vocabulary: threading.Event
) -> None:
    slow_vocabulary.set()
    before = client.load(str(tiny_models(TinyModel())), ONE_THREAD)
    slow_vocabulary.clear()
    wanted = str(tiny_models(TinyModel("qwen2")))
    client.send(LoadModel(wanted, ONE_THREAD))
    until(client, ModelLoading)
    client.send(CancelLoad())
    ended = until(client, ModelLoadCancelled)
    assert ended[-1] == ModelLoadCancelled(wanted, before.path)
    assert not any(isinstance(event, ModelUnloaded) for event in ended)
    slow_vocabulary.set()
    assert client.answer("Still there?", max_tokens=4)
    assert client.load(wanted, ONE_THREAD).architecture == "qwen2"  # and it can be loaded after all


def test_a_later_choice_ends_the_load_before(
    client: EngineClient, tiny_models: Write, slow_vocabulary: threading.Event
) -> None:
    first, second = str(tiny_models(TinyModel())), str(tiny_models(TinyModel("qwen2")))
    client.send(LoadModel(first, ONE_THREAD))
    until(client, ModelLoading)
    client.send(LoadModel(second, ONE_THREAD))
    assert until(client, ModelLoadCancelled)[-1] == ModelLoadCancelled(first)
    slow_vocabulary.set()
    (loaded,) = [event for event in until(client, ModelLoaded) if isinstance(event, ModelLoaded)]
    assert loaded.info.path == second


def test_unloading_and_closing_end_it_too(
    client: EngineClient, tiny_models: Write, slow_vocabulary: threading.Event
) -> None:
    wanted = LoadModel(str(tiny_models(TinyModel())), ONE_THREAD)
    client.send(wanted)
    until(client, ModelLoading)
    client.send(UnloadModel())
    until(client, ModelLoadCancelled)
    client.send(wanted)
    until(client, ModelLoading)
    client.close()
    events = until(client, EngineStopped)
    assert any(isinstance(event, ModelLoadCancelled) for event in events)
    assert not any(isinstance(event, ModelLoaded) for event in events)


def test_its_vocabulary_is_given_back(
    client: EngineClient, tiny_models: Write, slow_vocabulary: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read to its end, which nobody waits for."""
    library, freed = llama(), threading.Event()
    original = library.llama_model_free

    def free(model: object) -> None:
        original(model)
        freed.set()

    path = str(tiny_models(TinyModel()))
    slow_vocabulary.set()
    client.load(path, ONE_THREAD)  # so that its vocabulary is known to be sound
    monkeypatch.setattr(library, "llama_model_free", free)
    slow_vocabulary.clear()
    client.send(LoadModel(path, ONE_THREAD))
    until(client, ModelLoading)
    until(client, ModelLoading)  # it is being read
    client.send(CancelLoad())
    until(client, ModelLoadCancelled)
    assert not freed.is_set()
    slow_vocabulary.set()
    assert freed.wait(60)


def test_an_answer_begins_while_the_vocabulary_is_read(
    client: EngineClient, starter_model: Path, slow_vocabulary: threading.Event
) -> None:
    path, prompt = str(starter_model), "The capital of France is"
    slow_vocabulary.set()
    client.load(path, ONE_THREAD)  # so that its vocabulary is known to be sound
    expected = client.answer(prompt, max_tokens=4)
    slow_vocabulary.clear()
    client.load(path, ONE_THREAD)
    assert client.answer(prompt, max_tokens=4) == expected != ""
    assert not slow_vocabulary.is_set()
    slow_vocabulary.set()
    assert client.answer(prompt, max_tokens=4) == expected


def test_a_vocabulary_that_is_still_read_is_given_back_after_its_model(
    client: EngineClient, starter_model: Path, slow_vocabulary: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, freed = llama(), list[Any]()
    original, is_freed = library.llama_model_free, threading.Event()

    def free(model: Any) -> None:
        original(model)
        freed.append(model)
        if slow_vocabulary.is_set():
            is_freed.set()

    slow_vocabulary.set()
    client.load(str(starter_model), ONE_THREAD)
    slow_vocabulary.clear()
    client.load(str(starter_model), ONE_THREAD)
    monkeypatch.setattr(library, "llama_model_free", free)
    client.send(UnloadModel())
    until(client, ModelUnloaded)
    slow_vocabulary.set()
    assert is_freed.wait(60)


def test_too_late_it_does_nothing(client: EngineClient, tiny_models: Write) -> None:
    client.load(str(tiny_models(TinyModel())), ONE_THREAD)
    client.send(CancelLoad())
    assert client.answer("Still there?", max_tokens=4)


def test_the_compatibility_engines_process_is_ended(
    client: EngineClient, tiny_models: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[ChildProcess] = []

    class Noted(ChildProcess):
        def __init__(self) -> None:
            super().__init__()
            started.append(self)

    monkeypatch.setattr("engine.backends.llama_cpp.backend.ChildProcess", Noted)
    client.send(LoadModel(str(tiny_models(TinyModel())), LoadOptions(threads=1, engine="compatibility")))
    client.send(CancelLoad())
    until(client, ModelLoadCancelled)
    assert started and not started[0].is_alive


class _StoppedError(Exception):
    pass


def test_nothing_is_left_of_a_device(tiny_models: Write) -> None:
    """Ended while its memory is being filled: the threads that are its streams are gone."""
    before = set(threading.enumerate())

    def progress(fraction: float, stage: str) -> None:
        if fraction >= 0.7:
            raise _StoppedError

    with pytest.raises(_StoppedError):
        options = LoadOptions(threads=1, context_length=256, device="emulated", gpu_budget=64 << 20)
        load_native(str(tiny_models(TinyModel())), options, lambda event: None, progress)
    left = {thread for thread in set(threading.enumerate()) - before if not thread.name.startswith("vocabulary")}
    assert left == set()
