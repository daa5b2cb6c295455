"""llama.cpp in a child process: the same answers as llama.cpp itself, and nothing that its end can harm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from engine.backends.llama_cpp.backend import CompatibilityBackend
from engine.backends.llama_cpp.model import CompatibilityModel
from engine.errors import BackendCrashedError, EngineError, FormatError, OutOfMemoryError, UnsupportedError
from engine.loading import load_backend
from engine.messages import (
    ChatMessage,
    Event,
    FinishReason,
    GenerationFinished,
    GenerationRequest,
    GenerationStarted,
    LoadOptions,
    Notice,
    PrefillProgress,
    SamplingParams,
    TokenEvent,
)
from engine.text.tokenizer import Tokenizer
from tests.support.gguf_writer import GGUFBuilder
from tests.support.llama_oracle import LlamaOracle
from tests.support.tiny_models import TinyModel, tiny_model_builder
from tests.support.vocabularies import spm_vocabulary

OPTIONS = LoadOptions(context_length=512, threads=1, engine="compatibility")
GREEDY = SamplingParams(temperature=0.0)


class Loaded:
    """A backend and the events it has emitted; `wait` steps it until a condition holds."""

    def __init__(self, path: Path, options: LoadOptions = OPTIONS) -> None:
        self.events: list[Event] = []
        self.stages: list[tuple[float, str]] = []
        self.backend = CompatibilityBackend.load(
            str(path), options, self.events.append, lambda fraction, stage: self.stages.append((fraction, stage))
        )

    def start(self, request: GenerationRequest) -> None:
        self.backend.generate(request, time.perf_counter())

    def wait(self, condition: Callable[[], bool], seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.events
            self.backend.step(lambda: False)

    def answer(self, request: GenerationRequest) -> tuple[str, GenerationFinished]:
        self.events.clear()
        self.start(request)
        self.wait(lambda: not self.backend.is_busy)
        return self.text(request.request_id), self.finished(request.request_id)

    def text(self, request_id: str) -> str:
        tokens = [event for event in self.events if isinstance(event, TokenEvent)]
        return "".join(event.text for event in tokens if event.request_id == request_id)

    def finished(self, request_id: str) -> GenerationFinished:
        ends = [event for event in self.events if isinstance(event, GenerationFinished)]
        (end,) = [event for event in ends if event.request_id == request_id]
        return end


@pytest.fixture(scope="module")
def loaded(starter_model: Path) -> Iterator[Loaded]:
    loaded = Loaded(starter_model)
    yield loaded
    loaded.backend.close()


@pytest.fixture
def tiny(tiny_models: Callable[[TinyModel], Path]) -> Iterator[Loaded]:
    """A model that answers fast and never ends by itself."""
    loaded = Loaded(tiny_models(TinyModel()))
    yield loaded
    loaded.backend.close()


def ask(text: str, request_id: str = "r", **options: object) -> GenerationRequest:
    request = GenerationRequest(request_id, (ChatMessage("user", text),), sampling=GREEDY)
    return replace(request, **options)  # type: ignore[arg-type]


ENDLESS = GenerationRequest("endless", (), sampling=GREEDY, raw_prompt="Once", max_tokens=400)


def test_info_says_what_runs(loaded: Loaded, starter_model: Path) -> None:
    info = loaded.backend.info
    assert (info.engine, info.architecture, info.quantization) == ("compatibility", "llama", "Q4_1")
    assert (info.context_length, info.trained_context_length) == (512, 8192)
    assert info.file_bytes == starter_model.stat().st_size
    assert info.parameters == 134_515_008
    assert "Compatibility engine: placement is per layer." in info.warnings
    assert loaded.stages[0][0] == 0.0


def test_greedy_answer_is_llama_cpps_own(loaded: Loaded, starter_model: Path) -> None:
    prompt = "The three primary colours are"
    text, end = loaded.answer(GenerationRequest("g", (), sampling=GREEDY, raw_prompt=prompt, max_tokens=24))
    tokenizer = Tokenizer.load(starter_model, check=False)
    with LlamaOracle(starter_model) as oracle:
        expected, _ = oracle.greedy(tokenizer.encode(prompt), 24)
    assert text == tokenizer.decode(expected)
    assert end.reason is FinishReason.LENGTH


def test_a_chat_turn_and_its_numbers(loaded: Loaded) -> None:
    text, end = loaded.answer(ask("What is 2+2?", max_tokens=40))
    assert "4" in text
    assert end.reason is FinishReason.STOP and end.error is None
    started = next(event for event in loaded.events if isinstance(event, GenerationStarted))
    stats = end.stats
    assert stats is not None
    assert stats.prompt_tokens == started.prompt_tokens > 20
    assert stats.generated_tokens == sum(e.tokens for e in loaded.events if isinstance(e, TokenEvent))
    assert stats.depth == stats.prompt_tokens + stats.generated_tokens - 1  # the stop token is not run
    assert 0 < stats.prefill_seconds <= stats.time_to_first_token
    progress = [event for event in loaded.events if isinstance(event, PrefillProgress)]
    assert progress[-1].done_tokens == progress[-1].total_tokens == stats.prompt_tokens


def test_the_prefix_is_reused_and_changes_nothing(loaded: Loaded) -> None:
    first = ask("Name a colour.", "1", max_tokens=12)
    fresh, _ = loaded.answer(first)
    loaded.answer(ask("Tell me about the moon.", "2", max_tokens=4))
    again, _ = loaded.answer(replace(first, request_id="3"))
    started = next(event for event in loaded.events if isinstance(event, GenerationStarted))
    assert again == fresh
    assert 0 < started.reused_tokens < started.prompt_tokens


def test_stop_strings(loaded: Loaded) -> None:
    request = GenerationRequest("s", (), sampling=GREEDY, raw_prompt="One, two, three,", stop=("five",), max_tokens=40)
    text, end = loaded.answer(request)
    assert "four" in text and "five" not in text
    assert end.reason is FinishReason.STOP


def test_sampling_parameters_arrive(loaded: Loaded) -> None:
    sampling = SamplingParams(temperature=1.0, seed=7, grammar='root ::= [0-9]{3} "."')
    request = GenerationRequest("s", (), sampling=sampling, raw_prompt="My number:", max_tokens=20)
    text, _ = loaded.answer(request)
    assert text[:3].isdigit() and text[3:] == "."
    assert loaded.answer(replace(request, request_id="t"))[0] == text


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (ask("word " * 600), "ContextOverflowError"),
        (ask("Hi", sampling=SamplingParams(grammar="root ::= (")), "GrammarError"),
        (ask("Hi", sampling=SamplingParams(temperature=-1.0)), "EngineError"),
    ],
)
def test_errors_of_a_request(loaded: Loaded, request_: GenerationRequest, kind: str) -> None:
    _, end = loaded.answer(request_)
    assert end.reason is FinishReason.ERROR
    assert end.error is not None and end.error.kind == kind and end.error.remedy
    assert loaded.answer(ask("Hi", max_tokens=1))[1].reason is FinishReason.LENGTH


def test_length_and_context_are_limits(tiny: Loaded) -> None:
    _, end = tiny.answer(replace(ENDLESS, max_tokens=5))
    assert end.reason is FinishReason.LENGTH and end.stats is not None and end.stats.generated_tokens == 5
    _, end = tiny.answer(replace(ENDLESS, max_tokens=None))
    assert end.reason in (FinishReason.CONTEXT_FULL, FinishReason.STOP)


@pytest.mark.parametrize("context", [10**8, 10**10, 2**32 + 512, 10**30])
def test_a_context_that_memory_cannot_hold_is_refused(starter_model: Path, context: int) -> None:
    """Before llama.cpp writes zeros until the system ends it; numbers beyond 32 bits do not come round again."""
    with pytest.raises(OutOfMemoryError, match=f"A context of {context} tokens needs .* are free") as caught:
        CompatibilityBackend.load(str(starter_model), replace(OPTIONS, context_length=context), print, lambda *_: None)
    assert "at most" in caught.value.remedy


def test_abort_of_running_and_waiting_answers(tiny: Loaded) -> None:
    tiny.start(ENDLESS)
    tiny.start(replace(ENDLESS, request_id="waiting"))
    tiny.wait(lambda: any(isinstance(event, TokenEvent) for event in tiny.events))
    tiny.backend.abort("waiting")
    tiny.backend.abort("endless")
    tiny.backend.abort("unknown")
    tiny.wait(lambda: not tiny.backend.is_busy)
    end = tiny.finished("endless")
    assert end.reason is FinishReason.ABORTED
    assert end.stats is not None and end.stats.generated_tokens < 400
    assert tiny.finished("waiting").reason is FinishReason.ABORTED
    assert tiny.text("waiting") == ""


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_child_that_dies_within_an_answer(tiny: Loaded, kill: signal.Signals) -> None:
    tiny.start(ENDLESS)
    tiny.start(replace(ENDLESS, request_id="waiting"))
    tiny.wait(lambda: any(isinstance(event, TokenEvent) for event in tiny.events))
    os.kill(tiny.backend.process_id, kill)
    tiny.wait(lambda: not tiny.backend.is_busy)
    for request_id in ("endless", "waiting"):
        error = tiny.finished(request_id).error
        assert error is not None
        assert error.kind == "BackendCrashedError" and kill.name in error.cause and error.remedy
    _, end = tiny.answer(replace(ENDLESS, max_tokens=3))  # a new child answers
    assert end.reason is FinishReason.LENGTH


def test_a_child_that_dies_while_idle(tiny: Loaded) -> None:
    os.kill(tiny.backend.process_id, signal.SIGKILL)
    _, end = tiny.answer(replace(ENDLESS, max_tokens=3))
    assert end.reason in (FinishReason.LENGTH, FinishReason.ERROR)
    _, end = tiny.answer(replace(ENDLESS, request_id="b", max_tokens=3))
    assert end.reason is FinishReason.LENGTH


def test_closing_ends_open_answers_and_the_child(tiny: Loaded) -> None:
    tiny.start(ENDLESS)
    child = tiny.backend.process_id
    tiny.backend.close()
    assert tiny.finished("endless").reason is FinishReason.ABORTED
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


PARENT = """
import sys
from engine.backends.llama_cpp.backend import CompatibilityBackend
from engine.messages import GenerationRequest, LoadOptions
backend = CompatibilityBackend.load(sys.argv[1], LoadOptions(context_length=512, threads=1), print, lambda f, s: None)
backend.generate(GenerationRequest("r", (), raw_prompt="Once"), 0.0)
print(backend.process_id, flush=True)
sys.stdin.read()
"""


def test_the_child_ends_with_its_parent(tiny_models: Callable[[TinyModel], Path]) -> None:
    """Even where the parent is killed within an answer."""
    command = [sys.executable, "-c", PARENT, str(tiny_models(TinyModel()))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    child.wait(timeout=30)


def test_a_file_that_makes_llama_cpp_abort(tiny_models: Callable[[TinyModel], Path]) -> None:
    """No token may occur twice: llama.cpp asserts it."""
    tokens = ("twice", "twice", *(f"token{index}" for index in range(510)))
    with pytest.raises(BackendCrashedError, match=r"stopped while it loaded the model \(SIGABRT\)"):
        Loaded(tiny_models(TinyModel(overrides=(("tokenizer.ggml.tokens", tokens),))))


def test_files_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("not a model " * 50)
    with pytest.raises(FormatError, match=r"text\.gguf"):
        Loaded(tmp_path / "text.gguf")
    unknown = GGUFBuilder("from-the-future").write(tmp_path / "future.gguf")
    with pytest.raises(UnsupportedError, match="from-the-future"):
        Loaded(unknown)
    with pytest.raises(EngineError, match=r"vocab\.gguf"):
        Loaded(spm_vocabulary().write(tmp_path / "vocab.gguf"))  # no tensors


def test_loading_chooses_the_engine(tiny_models: Callable[[TinyModel], Path], tmp_path: Path) -> None:
    """Auto: ours for what we build, llama.cpp for the rest; and an explicit choice is kept."""
    path = tiny_models(TinyModel())
    for engine, expected in (("auto", "native"), ("compatibility", "compatibility"), ("native", "native")):
        backend = load_backend(str(path), replace(OPTIONS, engine=engine), print, lambda _f, _s: None)  # type: ignore[arg-type]
        backend.close()
        assert backend.info.engine == expected


def test_an_architecture_that_we_do_not_build(starter_model: Path, tmp_path: Path) -> None:
    """A Gemma is a llama with other names and factors; ours names it as unsupported, so llama.cpp runs it."""
    builder = tiny_model_builder(TinyModel(tied=True), starter_model)
    for pair in builder.pairs:
        pair.key = pair.key.replace(b"llama.", b"gemma.")
    builder.pairs = [pair for pair in builder.pairs if pair.key != b"general.architecture"]
    path = builder.add("general.architecture", "gemma").write(tmp_path / "gemma.gguf")
    with pytest.raises(UnsupportedError, match="gemma"):
        load_backend(str(path), replace(OPTIONS, engine="native"), print, lambda _f, _s: None)
    events: list[Event] = []
    backend = load_backend(str(path), replace(OPTIONS, engine="auto"), events.append, lambda _f, _s: None)
    try:
        assert (backend.info.engine, backend.info.architecture) == ("compatibility", "gemma")
        assert isinstance(events[0], Notice) and "gemma" in events[0].text and "compatibility" in events[0].remedy
        backend.generate(replace(ENDLESS, max_tokens=3), time.perf_counter())
        while backend.is_busy:
            backend.step(lambda: False)
        assert isinstance(events[-1], GenerationFinished) and events[-1].error is None
    finally:
        backend.close()


def test_a_processor_that_llama_cpp_has_no_kernels_for(starter_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.backends.llama_cpp.model.can_run_models", lambda: False)
    with pytest.raises(UnsupportedError, match="a processor with AVX2, which this one lacks"):
        CompatibilityModel(str(starter_model), OPTIONS, lambda _fraction: None)
