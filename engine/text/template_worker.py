"""Renders chat templates in a process of its own: `python -m engine.text.template_worker`.

A template is a program from a downloaded file. Here it runs sandboxed, with little memory and little processor
time, and its parent kills the process when that is not enough. Requests and replies are JSON, each after its
length in four bytes: {"source", "variables"} → {"text"} or {"error", "line", "raised"}.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache
from types import FrameType
from typing import Any, BinaryIO

from jinja2 import Template, TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError, UndefinedError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.text.framed_child import read_frame, write_frame

MAX_CPU_SECONDS = 2.0
MAX_MEMORY_BYTES = 512 << 20
MAX_OUTPUT_CHARACTERS = 32 << 20


class RaisedError(Exception):
    """The template called `raise_exception`."""


class LimitError(Exception):
    """The template went over a limit."""


class GenerationBlock(Extension):
    """`{% generation %}…{% endgeneration %}` marks an assistant's text for training; here it is its contents."""

    tags = {"generation"}  # noqa: RUF012  (declared so by jinja2)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def environment() -> ImmutableSandboxedEnvironment:
    """What chat templates are written against: transformers' `apply_chat_template`."""
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, GenerationBlock]
    )
    env.filters["tojson"] = _to_json
    env.globals["raise_exception"] = _raise_exception
    env.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    del env.globals["lipsum"]
    return env


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As transformers does: plain JSON, not escaped for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: object = "") -> None:
    raise RaisedError(str(message))


@lru_cache(maxsize=8)
def _compiled(source: str) -> Template:
    return environment().from_string(source)


def render(source: str, variables: dict[str, Any]) -> str:
    parts, size = [], 0
    for part in _compiled(source).generate(variables):
        size += len(part)
        if size > MAX_OUTPUT_CHARACTERS:
            raise LimitError(f"its output is longer than {MAX_OUTPUT_CHARACTERS:,} characters")
        parts.append(part)
    return "".join(parts)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        with _processor_limit():
            return {"text": render(request["source"], request["variables"])}
    except MemoryError as error:
        return _failure(error, "it needs too much memory")
    except RecursionError as error:
        return _failure(error, "it nests or recurses too deeply")
    except (SecurityError, UndefinedError, RaisedError, LimitError, TemplateSyntaxError) as error:
        return _failure(error, str(error))
    except Exception as error:
        return _failure(error, f"{type(error).__name__}: {error}")


def _failure(error: Exception, reason: str) -> dict[str, Any]:
    line = error.lineno if isinstance(error, TemplateSyntaxError) else None
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == "<template>":
            line = frame.lineno
    return {"error": reason[:1000], "line": line, "raised": isinstance(error, RaisedError)}


@contextlib.contextmanager
def _processor_limit() -> Iterator[None]:
    """Interrupts Python code; a single long operation is left to the parent, which kills the process."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _out_of_time(_signal: int, _frame: FrameType | None) -> None:
    raise LimitError(f"it ran longer than {MAX_CPU_SECONDS:g} s")


def _limit_process() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in a terminal is for the parent
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    if hasattr(signal, "SIGVTALRM"):
        signal.signal(signal.SIGVTALRM, _out_of_time)


def serve(source: BinaryIO, sink: BinaryIO, reply: Callable[[dict[str, Any]], dict[str, Any]] = answer) -> None:
    while (data := read_frame(source)) is not None:
        write_frame(sink, json.dumps(reply(json.loads(data))).encode())


if __name__ == "__main__":
    _limit_process()
    serve(sys.stdin.buffer, sys.stdout.buffer)
