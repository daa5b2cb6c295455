"""Hostile templates: stopped in time, within bounds, and without a way out of the sandbox."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Iterator

import pytest

from engine.errors import TemplateError
from engine.text.framed_child import read_frame
from engine.text.template_renderer import RaisedInTemplateError, TemplateRenderer

MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def renderer() -> Iterator[TemplateRenderer]:
    renderer = TemplateRenderer(max_seconds=20.0)
    yield renderer
    renderer.close()


def render(renderer: TemplateRenderer, source: str) -> str:
    return renderer.render(source, {"messages": MESSAGES})


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{% for i in range(10**9) %}{% endfor %}", "Range too big"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "line 1: it ran longer"),
        ("{{ 'a' * 10**12 }}", "memory"),
        ("{{ [1] * 10**12 }}", "memory"),
        ("{{ 'x' | center(10**11) }}", "memory"),
        ("{{ '%1000000000000d' % 1 }}", "memory"),
        ("{{ '{:>100000000000}'.format(1) }}", "memory"),
        ("{% for i in range(9999) %}{{ 'x' * 9999 }}{% endfor %}", "output is longer"),
        ("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}", "recurses"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "deeply"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ self.__init__.__globals__ }}", "unsafe"),
        ("{{ messages.__class__.__base__.__subclasses__() }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ raise_exception.__globals__['sys'] }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "no loader"),
        ("{% import 'os' as os %}{{ os }}", "no loader"),
        ("{{ lipsum(n=100000) }}", "undefined"),
    ],
)
def test_hostile_templates(renderer: TemplateRenderer, source: str, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason):
        render(renderer, source)
    assert render(renderer, "{{ messages[0].content }}") == "Hi"


def test_attributes_give_nothing_away(renderer: TemplateRenderer) -> None:
    source = "{{ ''|attr('__class__') }}{{ raise_exception.__globals__ }}{{ '{0.__class__}'.format(messages) }}"
    assert render(renderer, source) == ""


def test_an_uninterruptible_operation_is_killed() -> None:
    """A single long operation of C code heeds no timer: the process is ended, and the next template gets a new one."""
    renderer = TemplateRenderer(max_seconds=1.0)
    try:
        with pytest.raises(TemplateError, match="ran too long"):
            render(renderer, "{{ 7 ** (10 ** 9) }}")
        renderer._max_seconds = 20.0
        assert render(renderer, "{{ messages[0].content }}") == "Hi"
    finally:
        renderer.close()


def test_a_killed_worker_is_replaced(renderer: TemplateRenderer) -> None:
    render(renderer, "warm")
    process = renderer._worker.start()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert render(renderer, "again") == "again"


def test_refusals_are_told_from_failures(renderer: TemplateRenderer) -> None:
    with pytest.raises(RaisedInTemplateError, match="line 2: no system role"):
        render(renderer, "\n{{ raise_exception('no system role') }}")
    with pytest.raises(TemplateError) as caught:
        render(renderer, "{{ missing.x }}")
    assert not isinstance(caught.value, RaisedInTemplateError)


def test_a_large_template_and_a_large_conversation(renderer: TemplateRenderer) -> None:
    assert len(render(renderer, "x" * 1_000_000)) == 1_000_000
    messages = [{"role": "user", "content": "word " * 400}] * 1000
    text = renderer.render("{% for m in messages %}{{ m.content }}{% endfor %}", {"messages": messages})
    assert len(text) == 2_000_000


def test_any_characters(renderer: TemplateRenderer) -> None:
    odd = "\ud800 \0 \u2028 🙂 </s>"
    assert renderer.render("{{ text }}", {"text": odd}) == odd


@pytest.mark.parametrize("data", [b"", b"\1", b"\5\0\0\0ab"])
def test_frames_that_end_early(data: bytes) -> None:
    assert read_frame(io.BytesIO(data)) is None
