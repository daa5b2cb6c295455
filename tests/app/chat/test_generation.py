"""What is measured about an answer, from the events alone."""

from __future__ import annotations

import pytest

from app.chat.answer_facts import ending_of, format_seconds, notes, progress, summary, tooltip
from app.chat.generation import Generation
from app.store.records import Message, Status
from engine.messages import (
    ErrorInfo,
    FinishReason,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    PrefillProgress,
    TokenEvent,
)


def generation() -> Generation:
    message = Message("a", "c", None, "assistant", "", status=Status.STREAMING)
    return Generation("a", message)


def test_speed_counts_the_tokens_that_came():
    one = generation()
    for number in range(101):
        one.take([(10 + number * 0.04, TokenEvent("a", "x"))])
    assert one.decode_speed == pytest.approx(25.0, rel=0.01)
    one.finished(GenerationFinished("a", FinishReason.STOP, None), 14.0)
    assert one.message.details["tpot_p50"] == pytest.approx(0.04)
    assert one.message.details["tpot_p99"] == pytest.approx(0.04)


def test_thinking_counts_as_tokens_and_has_its_time():
    one = generation()
    pieces = ["<think>", "let", " me", " see", "</think>", "\n\nYes"]
    for number, piece in enumerate(pieces):
        one.take([(float(number), TokenEvent("a", piece))])
    assert one.tokens == 6
    assert one.decode_speed == pytest.approx(1.0)
    assert one.message.details["reasoning_seconds"] == pytest.approx(4.0, abs=1.0)
    assert one.message.content == "".join(pieces)


def test_stopped_while_thinking_still_has_a_time():
    one = generation()
    one.take([(1.0, TokenEvent("a", "<think>hm"))])
    one.finished(GenerationFinished("a", FinishReason.ABORTED, None), 3.5)
    assert one.message.details["reasoning_seconds"] == pytest.approx(2.5)
    assert one.message.status is Status.STOPPED


@pytest.mark.parametrize(
    ("reason", "status", "words"),
    [
        (FinishReason.STOP, Status.COMPLETE, "complete"),
        (FinishReason.LENGTH, Status.COMPLETE, "ended at the token limit"),
        (FinishReason.CONTEXT_FULL, Status.COMPLETE, "ended: the context is full"),
        (FinishReason.ABORTED, Status.STOPPED, "stopped by you"),
        (FinishReason.ERROR, Status.FAILED, "ended by an error"),
    ],
)
def test_every_ending_has_a_status_and_words(reason, status, words):
    one = generation()
    one.take([(1.0, TokenEvent("a", "kept"))])
    error = ErrorInfo("X", "cause", detail="traceback") if reason is FinishReason.ERROR else None
    one.finished(GenerationFinished("a", reason, None, error), 2.0)
    assert (one.message.status, ending_of(one.message), one.message.content) == (status, words, "kept")
    assert "traceback" not in str(one.message.details)


def test_what_was_left_out_of_the_prompt_is_said_under_the_answer():
    one = generation()
    one.started(GenerationStarted("a", 900, 0, trimmed_messages=4), None)
    one.take([(1.0, TokenEvent("a", "kept"))])
    one.finished(GenerationFinished("a", FinishReason.STOP, None), 2.0)
    assert notes(one.message) == [("4 of the oldest messages were left out to fit the context.", False)]


def test_progress_from_waiting_to_writing():
    one = generation()
    assert progress(one) == "Waiting for the model…"
    one.started(GenerationStarted("a", 100, 40), None)
    one.prefill(PrefillProgress("a", 60, 100))
    assert progress(one) == "Reading the prompt: 60 of 100 tokens"
    one.take([(1.0, TokenEvent("a", "x"))])
    one.take([(1.0, TokenEvent("a", ""))])
    one.take([(2.0, TokenEvent("a", "y"))])
    assert progress(one) == "3 tokens  ·  2.0 tok/s"


def test_prefill_and_decode_stand_apart():
    one = generation()
    stats = GenerationStats(120, 20, 51, 0.5, 0.4, 2.0, 171)
    one.finished(GenerationFinished("a", FinishReason.STOP, stats), 1.0)
    text = summary(one.message)
    assert "prefill 250 tok/s" in text
    assert "decode 25.0 tok/s" in text
    assert "51 tokens" in text


def test_how_much_of_the_prompt_was_new_is_told():
    one = generation()
    one.started(GenerationStarted("a", 4812, 4800), None)
    one.finished(GenerationFinished("a", FinishReason.STOP, None), 1.0)
    assert "12 of 4,812 prompt tokens were new" in tooltip(one.message).split("\n")


@pytest.mark.parametrize(("seconds", "words"), [(0.0421, "42 ms"), (1.25, "1.2 s"), (250.4, "250 s")])
def test_times(seconds, words):
    assert format_seconds(seconds) == words


def test_thinking_in_a_channel_has_its_time():
    one = generation()
    start, message, end = "<|channel|>", "<|message|>", "<|end|>"
    pieces = [f"{start}analysis{message}", "hm", f"{end}<|start|>assistant{start}final{message}", "Yes"]
    for number, piece in enumerate(pieces):
        one.take([(float(number), TokenEvent("a", piece))])
    assert one.message.details["reasoning_seconds"] == pytest.approx(1.5, abs=1.0)


def test_an_answer_that_only_speaks_of_thinking_has_no_such_time():
    one = generation()
    for number, piece in enumerate(["Write ", "<think>", "hm", "</think>", " first."]):
        one.take([(float(number), TokenEvent("a", piece))])
    one.finished(GenerationFinished("a", FinishReason.STOP, None), 9.0)
    assert "reasoning_seconds" not in one.message.details
