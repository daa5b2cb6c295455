"""The engine thread: commands in, events out, on a tiny model and on the starter model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from engine.client import EngineClient
from engine.errors import ReportedError
from engine.messages import (
    Abort,
    ChatMessage,
    EngineStopped,
    Event,
    FinishReason,
    Generate,
    GenerationFinished,
    GenerationRequest,
    GenerationStarted,
    LoadModel,
    LoadOptions,
    ModelLoaded,
    ModelLoadFailed,
    ModelLoading,
    ModelUnloaded,
    Overflow,
    PrefillProgress,
    SamplingParams,
    Shutdown,
    TokenEvent,
)
from engine.runtime.executor import Executor
from kernels import _cpu
from tests.support.engine_events import until
from tests.support.tiny_models import TinyModel

GREEDY = SamplingParams(temperature=0.0)
ENDLESS = replace(GREEDY, grammar='root ::= "a" root')  # until the context is full, seconds later
Write = Callable[[TinyModel], Path]
# A llama under the name of an architecture with the same tensors that only llama.cpp builds.
RENAMED = TinyModel(
    overrides=(
        ("general.architecture", "xverse"), ("xverse.block_count", 2), ("xverse.context_length", 2048),
        ("xverse.embedding_length", 256), ("xverse.feed_forward_length", 512), ("xverse.attention.head_count", 4),
        ("xverse.attention.head_count_kv", 2), ("xverse.attention.layer_norm_rms_epsilon", 1e-5),
        ("xverse.rope.dimension_count", 64), ("xverse.vocab_size", 512),
    )
)  # fmt: skip


@pytest.fixture
def tiny(client: EngineClient, tiny_models: Write) -> EngineClient:
    client.load(str(tiny_models(TinyModel())), LoadOptions(threads=1))
    return client


def raw(request_id: str, prompt: str, **changes: object) -> GenerationRequest:
    request = GenerationRequest(request_id, (), GREEDY, max_tokens=8, raw_prompt=prompt)
    return replace(request, **changes)  # type: ignore[arg-type]


def only(events: list[Event], kind: type) -> list:  # type: ignore[type-arg]
    return [event for event in events if isinstance(event, kind)]


def text_of(events: list[Event], request_id: str | None = None) -> str:
    return "".join(e.text for e in only(events, TokenEvent) if request_id in (None, e.request_id))


def finish_of(events: list[Event], request_id: str | None = None) -> GenerationFinished:
    (finish,) = [e for e in only(events, GenerationFinished) if request_id in (None, e.request_id)]
    return finish  # type: ignore[no-any-return]


def test_an_answer_from_the_starter_model(client: EngineClient, starter_model: Path) -> None:
    info = client.load(str(starter_model), LoadOptions(context_length=512))
    assert (info.engine, info.architecture, info.context_length) == ("native", "llama", 512)
    assert client.answer("What is the capital of France? Answer in one word.", max_tokens=16).strip()


def test_events_of_one_answer_come_in_order(tiny: EngineClient) -> None:
    events = list(tiny.stream(raw("a", "One two three")))
    assert isinstance(events[0], GenerationStarted) and isinstance(events[-1], GenerationFinished)
    finish = finish_of(events)
    assert finish.reason in (FinishReason.LENGTH, FinishReason.STOP) and finish.stats is not None
    assert finish.stats.prompt_tokens == events[0].prompt_tokens
    assert finish.stats.generated_tokens == len([e for e in only(events, TokenEvent) if e.tokens])
    assert 0 < finish.stats.prefill_seconds <= finish.stats.time_to_first_token


OPENS = "{% for m in messages %}{{ m.content }}{% endfor %}{{ '<think>\\n' }}"


@pytest.mark.parametrize("engine", ["native", "compatibility"])
def test_an_answer_includes_the_mark_by_which_its_prompt_opened_it(
    client: EngineClient, tiny_models: Write, engine: Literal["native", "compatibility"]
) -> None:
    client.load(str(tiny_models(TinyModel())), LoadOptions(threads=1, template=OPENS, engine=engine))
    request = GenerationRequest("a", (ChatMessage("user", "Hi"),), GREEDY, max_tokens=4)
    events = list(client.stream(request))
    assert text_of(events).startswith("<think>\n")
    finish = finish_of(events)
    assert finish.stats is not None
    assert finish.stats.generated_tokens == sum(event.tokens for event in only(events, TokenEvent)) == 4
    go_on = replace(request, request_id="b", answer_prefix=text_of(events))
    more = list(client.stream(go_on))
    assert "<think>" not in text_of(more)
    longer = finish_of(more).stats
    assert longer is not None and longer.reused_tokens >= finish.stats.prompt_tokens  # the mark is told once


def test_load_tells_progress_and_what_runs(client: EngineClient, tiny_models: Write) -> None:
    path = str(tiny_models(TinyModel("qwen3", "Q4_K_M")))
    client.send(LoadModel(path, LoadOptions(threads=1, isa_tier="scalar")))
    events = until(client, ModelLoaded)
    fractions = [event.fraction for event in only(events, ModelLoading)]
    assert fractions == sorted(fractions) and len(fractions) >= 2
    info = events[-1].info
    assert (info.quantization, info.isa_tier, info.threads, info.engine) == ("Q4_K_M", "scalar", 1, "native")


def test_without_a_model_a_request_fails_with_a_remedy(client: EngineClient) -> None:
    finish = finish_of(list(client.stream(raw("a", "Hello"))))
    assert finish.reason is FinishReason.ERROR and finish.error is not None and finish.error.remedy


def test_failed_load_keeps_the_old_model(tiny: EngineClient, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF but not for long")
    tiny.send(LoadModel(str(broken)))
    failed = until(tiny, ModelLoadFailed)[-1]
    assert failed.still_loaded is not None and "broken.gguf" in failed.error.cause
    assert finish_of(list(tiny.stream(raw("a", "Still there?")))).error is None


def test_a_new_model_takes_the_old_ones_place(tiny: EngineClient, tiny_models: Write) -> None:
    tiny.send(LoadModel(str(tiny_models(TinyModel("qwen2"))), LoadOptions(threads=1)))
    events = until(tiny, ModelLoaded)
    assert len(only(events, ModelUnloaded)) == 1
    assert events[-1].info.architecture == "qwen2"


def test_a_new_model_ends_answers_of_the_old_one(tiny: EngineClient, tiny_models: Write) -> None:
    tiny.send(Generate(raw("a", "Count", max_tokens=None, sampling=ENDLESS)))
    until(tiny, TokenEvent)
    tiny.send(LoadModel(str(tiny_models(TinyModel("qwen2"))), LoadOptions(threads=1)))
    events = until(tiny, ModelLoaded)
    kinds = [type(e) for e in events if isinstance(e, GenerationFinished | ModelUnloaded | ModelLoaded)]
    assert kinds == [GenerationFinished, ModelUnloaded, ModelLoaded]
    assert finish_of(events).reason is FinishReason.ABORTED


def test_a_load_that_fails_does_not_disturb_an_answer(tiny: EngineClient, tmp_path: Path) -> None:
    alone = text_of(list(tiny.stream(raw("a", "Count", max_tokens=40))))
    tiny.send(Generate(raw("b", "Count", max_tokens=40)))
    events = until(tiny, TokenEvent)
    tiny.send(LoadModel(str(tmp_path / "nothing.gguf")))
    events += until(tiny, GenerationFinished)
    assert len(only(events, ModelLoadFailed)) == 1
    assert text_of(events) == alone and finish_of(events).error is None


def test_abort_of_an_answer_that_waits_for_memory(client: EngineClient, tiny_models: Write) -> None:
    client.load(str(tiny_models(TinyModel())), LoadOptions(threads=1, context_length=256))
    for name in ("a", "b", "c"):
        client.send(Generate(raw(name, f"{name} " * 150, max_tokens=60)))
    until(client, TokenEvent)
    client.send(Abort("c"))
    events = until(client, GenerationFinished, 3)
    assert finish_of(events, "c").reason is FinishReason.ABORTED
    assert {finish_of(events, name).error for name in ("a", "b")} == {None}


def test_abort_while_decoding_keeps_what_was_said(tiny: EngineClient) -> None:
    tiny.send(Generate(raw("a", "Count", max_tokens=None, sampling=ENDLESS)))
    events = until(tiny, TokenEvent, 3)
    tiny.send(Abort("a"))
    events += until(tiny, GenerationFinished)
    finish = finish_of(events)
    assert finish.reason is FinishReason.ABORTED
    assert finish.stats is not None and finish.stats.generated_tokens >= 3


def test_abort_in_prefill_is_prompt(client: EngineClient, starter_model: Path) -> None:
    client.load(str(starter_model), LoadOptions(context_length=4096, threads=1))
    client.send(Generate(raw("a", "word " * 3000)))
    until(client, GenerationStarted)
    client.next_event(timeout=60)  # the first PrefillProgress: it computes for certain
    client.send(Abort("a"))
    assert finish_of(until(client, GenerationFinished)).reason is FinishReason.ABORTED
    assert finish_of(list(client.stream(raw("b", "And now?")))).error is None


def test_abort_of_an_unknown_or_finished_request_is_ignored(tiny: EngineClient) -> None:
    tiny.send(Abort("nobody"))
    assert finish_of(list(tiny.stream(raw("a", "Hello")))).error is None
    tiny.send(Abort("a"))
    assert finish_of(list(tiny.stream(raw("b", "Hello")))).error is None


def test_two_answers_at_once_equal_each_alone(tiny: EngineClient) -> None:
    alone = {name: text_of(list(tiny.stream(raw(name, name * 5, max_tokens=24)))) for name in ("Apple", "Stone")}
    for name in alone:
        tiny.send(Generate(raw(name, name * 5, max_tokens=24)))
    events = until(tiny, GenerationFinished, 2)
    assert {name: text_of(events, name) for name in alone} == alone
    kinds = [event.request_id for event in only(events, TokenEvent)]
    assert kinds != sorted(kinds), "the answers did not take turns"


def test_second_turn_reuses_the_first_and_answers_as_a_fresh_engine(tiny_models: Write) -> None:
    path, first = str(tiny_models(TinyModel())), "A conversation that goes on for a while. " * 4
    with EngineClient() as client:
        client.load(path, LoadOptions(threads=1))
        said = text_of(list(client.stream(raw("1", first))))
        events = list(client.stream(raw("2", first + said + " And then?", max_tokens=24)))
        assert events[0].reused_tokens > 20  # type: ignore[union-attr]
    with EngineClient() as client:
        client.load(path, LoadOptions(threads=1))
        fresh = list(client.stream(raw("2", first + said + " And then?", max_tokens=24)))
        assert fresh[0].reused_tokens == 0  # type: ignore[union-attr]
    assert text_of(events) == text_of(fresh)


def test_turns_and_conversations_read_only_what_is_new(starter_model: Path) -> None:
    """Counted in tokens, but for the last one that is known: its logits are needed."""
    system = ChatMessage("system", "You are a mason. You answer in a few words, and you like to talk about mosaics.")
    first = (system, ChatMessage("user", "What is grout?"))

    def ask(client: EngineClient, name: str, messages: tuple[ChatMessage, ...]) -> tuple[GenerationStarted, str, int]:
        events = list(client.stream(GenerationRequest(name, messages, GREEDY, max_tokens=24)))
        stats = finish_of(events).stats
        assert isinstance(events[0], GenerationStarted) and stats is not None
        return events[0], text_of(events), stats.generated_tokens

    with EngineClient() as client:
        client.load(str(starter_model), LoadOptions(threads=1, context_length=512))
        one, said, written = ask(client, "one", first)
        second = (*first, ChatMessage("assistant", said), ChatMessage("user", "And lime?"))
        two, again, _ = ask(client, "two", second)
        assert two.reused_tokens >= one.prompt_tokens + written - 2
        other = (system, ChatMessage("user", "Who laid the first mosaic?"))
        three, third, _ = ask(client, "three", other)
        (alone, *_) = client.stream(raw("four", system.content, max_tokens=1))
        assert isinstance(alone, GenerationStarted) and three.reused_tokens >= alone.prompt_tokens
    for messages, answer in ((second, again), (other, third)):
        with EngineClient() as client:
            client.load(str(starter_model), LoadOptions(threads=1, context_length=512))
            fresh, text, _ = ask(client, "fresh", messages)
            assert (fresh.reused_tokens, text) == (0, answer)


def test_prompt_longer_than_the_context_asks(client: EngineClient, tiny_models: Write) -> None:
    client.load(str(tiny_models(TinyModel())), LoadOptions(threads=1, context_length=64))
    messages = tuple(ChatMessage(role, "word " * 12) for role in ("user", "assistant", "user"))
    request = GenerationRequest("a", messages, GREEDY, max_tokens=4)
    finish = finish_of(list(client.stream(request)))
    assert finish.error is not None and finish.error.kind == "ContextOverflowError" and "64" in finish.error.cause


def test_trim_oldest_says_how_many_and_keeps_the_system_prompt(client: EngineClient, tiny_models: Write) -> None:
    client.load(str(tiny_models(TinyModel())), LoadOptions(threads=1, context_length=160))
    turns = [ChatMessage(role, f"{role} {i} " * 6) for i in range(4) for role in ("user", "assistant")]
    messages = (ChatMessage("system", "Be brief."), *turns, ChatMessage("user", "Last?"))
    request = GenerationRequest("a", messages, GREEDY, max_tokens=4, overflow=Overflow.TRIM_OLDEST)
    events = list(client.stream(request))
    started = only(events, GenerationStarted)[0]
    assert started.trimmed_messages > 0 and started.trimmed_messages % 2 == 0
    assert started.prompt_tokens < 160 and finish_of(events).error is None


def test_context_end_finishes_the_answer(client: EngineClient, tiny_models: Write) -> None:
    client.load(str(tiny_models(TinyModel(without=(), seed=3))), LoadOptions(threads=1, context_length=64))
    banned = raw("a", "Hello", max_tokens=None, sampling=ENDLESS)
    finish = finish_of(list(client.stream(banned)))
    assert finish.reason is FinishReason.CONTEXT_FULL
    assert finish.stats is not None
    assert finish.stats.prompt_tokens + finish.stats.generated_tokens == 64


def test_context_that_does_not_fit_memory_is_refused_with_a_number(client: EngineClient, tiny_models: Write) -> None:
    with pytest.raises(ReportedError, match="at most") as caught:
        client.load(str(tiny_models(TinyModel())), LoadOptions(context_length=1 << 40))
    assert caught.value.kind == "OutOfMemoryError"


def test_tier_of_another_processor_is_refused_with_a_remedy(client: EngineClient, tiny_models: Write) -> None:
    foreign = [tier for tier in ("avx2", "avx512", "avx512_vnni") if tier not in _cpu.tiers()]
    for tier in foreign:
        with pytest.raises(ReportedError, match=tier) as caught:
            client.load(str(tiny_models(TinyModel())), LoadOptions(isa_tier=tier))  # type: ignore[arg-type]
        assert "auto" in caught.value.remedy


@pytest.mark.parametrize("count", [0, -1])
def test_an_answer_of_no_tokens_is_refused(tiny, count):
    (finished,) = tiny.stream(raw("none", "Count", max_tokens=count))
    assert isinstance(finished, GenerationFinished)
    assert "at least one token" in finished.error.cause


def test_more_threads_than_there_can_be_are_refused(client, tiny_models, tmp_path):
    path = str(tiny_models(TinyModel()))
    with pytest.raises(ReportedError, match="from 1 to 1024"):
        client.load(path, LoadOptions(threads=1025))
    with pytest.raises(ReportedError, match="No trace can be written"):
        client.load(path, LoadOptions(threads=1, trace=str(tmp_path / "missing" / "trace.json")))
    with pytest.raises(ReportedError, match="No trace can be written"):
        client.load(path, LoadOptions(threads=1, trace=str(tmp_path)))


@pytest.mark.parametrize("options", [LoadOptions(threads=0), LoadOptions(context_length=0)], ids=["threads", "context"])
def test_senseless_options_are_refused(client: EngineClient, tiny_models: Write, options: LoadOptions) -> None:
    with pytest.raises(ReportedError, match=r"at least 1|from 1 to"):
        client.load(str(tiny_models(TinyModel())), options)


def test_text_held_back_is_not_lost_when_a_step_fails(tiny: EngineClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop string that begins like the answer holds text back; the step after that fails."""
    whole = text_of(list(tiny.stream(raw("a", "Tell me", max_tokens=6))))
    run, steps = Executor.run, iter(range(100))

    def fails_at_the_end(self: Executor, *arguments: Any) -> Any:
        if next(steps) == 6:
            raise MemoryError("for this test")
        return run(self, *arguments)

    monkeypatch.setattr(Executor, "run", fails_at_the_end)
    events = list(tiny.stream(raw("b", "Tell me", max_tokens=20, stop=(whole + "never",))))
    assert finish_of(events).reason is FinishReason.ERROR and text_of(events) == whole
    monkeypatch.undo()
    assert finish_of(list(tiny.stream(raw("c", "Tell me")))).error is None


def test_more_answers_than_memory_all_end(client: EngineClient, tiny_models: Write) -> None:
    """Each needs over half of the blocks: they are put back in line and continued."""
    client.load(str(tiny_models(TinyModel())), LoadOptions(threads=1, context_length=128))
    requests = [raw(str(i), f"Number {i} of three " * 4, max_tokens=60) for i in range(3)]
    alone = [text_of(list(client.stream(request))) for request in requests]
    for request in requests:
        client.send(Generate(request))
    events = until(client, GenerationFinished, 3)
    assert [text_of(events, request.request_id) for request in requests] == alone
    assert all(e.error is None for e in only(events, GenerationFinished))


def test_bad_grammar_is_an_error_of_that_answer_alone(tiny: EngineClient) -> None:
    bad = replace(GREEDY, grammar="root ::= (((")
    finish = finish_of(list(tiny.stream(raw("a", "Hello", sampling=bad))))
    assert finish.error is not None and finish.error.kind == "GrammarError"
    assert finish_of(list(tiny.stream(raw("b", "Hello")))).error is None


def test_stop_string_ends_and_is_not_shown(tiny: EngineClient) -> None:
    whole = text_of(list(tiny.stream(raw("a", "Tell me", max_tokens=16))))
    stop = whole[4:7]
    events = list(tiny.stream(raw("b", "Tell me", max_tokens=16, stop=(stop,))))
    assert text_of(events) == whole[: whole.index(stop)]
    assert finish_of(events).reason is FinishReason.STOP


def test_empty_prompt_is_refused(tiny: EngineClient) -> None:
    finish = finish_of(list(tiny.stream(raw("a", ""))))
    assert finish.error is not None and "empty" in finish.error.cause


def test_shutdown_ends_what_runs_and_says_so(tiny: EngineClient) -> None:
    tiny.send(Generate(raw("a", "Count", max_tokens=None, sampling=ENDLESS)))
    until(tiny, TokenEvent)
    tiny.send(Shutdown())
    events = until(tiny, EngineStopped)
    assert finish_of(events).reason is FinishReason.ABORTED
    assert isinstance(events[-1], EngineStopped) and events[-1].error is None


def test_prefill_tells_its_progress(client: EngineClient, tiny_models: Write) -> None:
    client.load(str(tiny_models(TinyModel())), LoadOptions(threads=1))
    progress = only(list(client.stream(raw("a", "word " * 300))), PrefillProgress)
    assert progress and all(event.done_tokens < event.total_tokens for event in progress)


def test_loading_and_unloading_keeps_memory_level(client: EngineClient, tiny_models: Write) -> None:
    import psutil

    path, process = str(tiny_models(TinyModel("qwen3moe"))), psutil.Process()

    def cycle() -> int:
        client.load(path, LoadOptions(threads=1))
        list(client.stream(raw("a", "Hello", max_tokens=4)))
        client.unload()
        return process.memory_info().rss

    before, files = [cycle() for _ in range(4)][-1], len(process.open_files())
    after = [cycle() for _ in range(20)][-1]
    assert after - before < 8 << 20
    assert len(process.open_files()) <= files  # other tests' may be among them


def test_unknown_architecture_runs_on_the_compatibility_engine(client: EngineClient, tiny_models: Write) -> None:
    path = str(tiny_models(RENAMED))
    info = client.load(path, LoadOptions(threads=1, context_length=128))
    assert info.engine == "compatibility"
    assert finish_of(list(client.stream(raw("a", "Hello")))).error is None
    with pytest.raises(ReportedError) as caught:
        client.load(path, LoadOptions(engine="native"))
    assert caught.value.kind == "UnsupportedError"


def test_compatibility_engine_on_request_and_back(client: EngineClient, tiny_models: Write) -> None:
    path = str(tiny_models(TinyModel()))
    options = LoadOptions(threads=1, context_length=128)
    assert client.load(path, replace(options, engine="compatibility")).engine == "compatibility"
    theirs = text_of(list(client.stream(raw("a", "Hello"))))
    assert client.load(path, options).engine == "native"
    assert text_of(list(client.stream(raw("b", "Hello")))) == theirs
