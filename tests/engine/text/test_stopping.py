from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.stopping import StopMatcher


def stream(stops: list[str], parts: list[str]) -> tuple[str, str | None]:
    matcher, shown = StopMatcher(stops), ""
    for part in parts:
        emit, hit = matcher.push(part)
        shown += emit
        if hit is not None:
            return shown, hit
    return shown + matcher.flush(), None


@pytest.mark.parametrize(
    ("stops", "parts", "shown", "hit"),
    [
        (["</s>"], ["Hel", "lo<", "/", "s", ">more"], "Hello", "</s>"),
        (["</s>"], ["a<", "/x", "<", "/s"], "a</x</s", None),
        (["User:", "\n\n"], ["one\n", "\nUser:"], "one", "\n\n"),
        (["ab", "abc"], ["xabc"], "x", "abc"),  # of two at one place, the longer
        (["aab"], ["a", "a", "a", "b"], "a", "aab"),
        ([""], ["anything"], "anything", None),
        ([], ["anything"], "anything", None),
        (["🙂"], ["ok🙂no"], "ok", "🙂"),
    ],
)
def test_examples(stops: list[str], parts: list[str], shown: str, hit: str | None) -> None:
    assert stream(stops, parts) == (shown, hit)


def test_nothing_follows_a_hit() -> None:
    matcher = StopMatcher(["!"])
    assert matcher.push("a!b") == ("a", "!")
    assert matcher.push("c") == ("", "!")
    assert matcher.flush() == ""


def test_only_what_may_become_a_stop_string_is_held_back() -> None:
    matcher = StopMatcher(["STOP"])
    assert matcher.push("text ST") == ("text ", None)
    assert matcher.push("ART") == ("START", None)


@given(
    st.lists(st.text("ab", min_size=1, max_size=3), max_size=3),
    st.lists(st.text("abc", max_size=4), max_size=12),
)
def test_as_if_the_text_came_at_once(stops: list[str], parts: list[str]) -> None:
    """What is shown never depends on where the text was cut, up to the first completed stop string."""
    shown, hit = stream(stops, parts)
    text = "".join(parts)
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    if not ends:
        assert (shown, hit) == (text, None)
    else:
        assert hit in stops
        assert text.startswith(shown + str(hit))
        assert not any(stop in shown for stop in stops)
