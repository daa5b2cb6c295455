"""Times of tokens, counted and read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chat.answer_details import conversation_rows, detail_rows
from app.chat.answer_facts import summary
from app.chat.token_times import count_times, merged_counts, percentile
from app.store.records import Message

TIMES = st.lists(st.floats(1e-5, 1e3), min_size=1, max_size=60)


@settings(deadline=None)
@given(st.lists(TIMES, min_size=1, max_size=5), st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_percentiles_of_many_answers_are_those_of_all_their_times(answers, share):
    merged = merged_counts(json.loads(json.dumps(count_times(answer))) for answer in answers)
    times = sorted(time for answer in answers for time in answer)
    assert percentile(merged, share) == pytest.approx(times[round(share * (len(times) - 1))], rel=0.0102)


def test_an_answer_of_any_length_keeps_few_numbers():
    assert len(count_times(0.02 + 0.00001 * (n % 1000) for n in range(100_000))) < 40


def message(role: str, **details: object) -> Message:
    return Message(role, "c", None, role, "text", details=dict(details))


def test_rows_of_a_conversation():
    slow = count_times([0.1] * 10)
    fast = count_times([0.01] * 990)
    answers = [
        message("user"),
        message("assistant", generated_tokens=991, ttft=0.5, tpot_counts=fast),
        message("assistant", generated_tokens=11, ttft=2.0, tpot_counts=slow),
        message("assistant"),  # failed before its first token
    ]
    rows = dict(conversation_rows(answers))
    assert rows["Answers"] == "3"
    assert rows["Written"] == "1,002 tokens"
    assert rows["Time to first token, median"] == "2.0 s, at most 2.0 s"
    assert rows["Time per token, median"] == "10 ms"
    assert rows["Time per token, 99th percentile"] == "10 ms"
    assert dict(conversation_rows([message("user")])) == {"Answers": "0", "Written": "0 tokens"}


def test_each_answer_has_its_own_times():
    details = {"ttft": 0.25, "tpot_p50": 0.02, "tpot_p99": 0.08, "prompt_tokens": 4812, "reused_tokens": 4800}
    rows = dict(detail_rows(message("assistant", **details)))
    assert rows["Prompt"] == "12 of 4,812 tokens were new"
    assert rows["Time to first token"] == "250 ms"
    assert (rows["Time per token, median"], rows["Time per token, 99th percentile"]) == ("20 ms", "80 ms")


def test_prediction_stands_beside_what_was_measured():
    details = {"decode_speed": 25.0, "prefill_speed": 250.0, "predicted_decode": 27.44, "predicted_from": "measured"}
    rows = dict(detail_rows(message("assistant", **details)))
    assert rows["Decode"] == "25.0 tok/s, 27.4 predicted"
    assert rows["Prefill"] == "250 tok/s"
    assert rows["Prediction"] == "Predicted from rates measured on this machine"


def test_what_is_predicted_for_an_emulated_card_says_so():
    told = message("assistant", decode_speed=25.0, predicted_decode=443.0, predicted_from="emulated")
    assert "(443 predicted for the emulated card)" in summary(told)
    assert "emulated" in dict(detail_rows(told))["Prediction"]


def test_what_is_predicted_from_datasheets_says_so():
    told = message("assistant", decode_speed=25.0, predicted_decode=30.0, predicted_from="datasheet")
    assert "(30.0 predicted from datasheets)" in summary(told)
