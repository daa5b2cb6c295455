"""Room for long runs of one kind of character.

llama.cpp splits text for some vocabularies (DeepSeek, Falcon) with std::regex, which recurses once per character
of a match: a pasted line of 50,000 equal signs overflows an ordinary stack and ends the process. So such texts are
split on a thread whose stack is large enough.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TypeVar

from engine.errors import EngineError

T = TypeVar("T")

# What pre-tokenizers' regular expressions match in one piece: white space, letters, digits, anything else.
_RUN = re.compile(r"\s+|[^\W\d_]+|\d+|(?:[^\w\s]|_)+")
_SAFE_CHARACTERS = 4096  # an ordinary thread's stack holds several times as many
_STACK_PER_CHARACTER = 640  # bytes; measured: 160 to 340 with libstdc++
_STACK_BASE = 16 << 20
_MAX_STACK = 1 << 30  # address space; only what is used becomes memory
_lock = threading.Lock()


def longest_run(text: str) -> int:
    """Characters in the longest run of one kind."""
    return max((match.end() - match.start() for match in _RUN.finditer(text)), default=0)


def with_stack_for(text: str, work: Callable[[], T]) -> T:
    """`work()`, on a thread with a large stack where `text` needs one. Raises EngineError for a run beyond that."""
    run = longest_run(text) if len(text) > _SAFE_CHARACTERS else 0
    if run <= _SAFE_CHARACTERS:
        return work()
    stack = _STACK_BASE + run * _STACK_PER_CHARACTER
    if stack > _MAX_STACK:
        raise EngineError(
            f"The text holds a run of {run:,} characters without a break, which is too long to tokenize.",
            done="Nothing was generated.",
            remedy="Shorten or remove that part.",
        )
    return _on_thread(work, stack)


def _on_thread(work: Callable[[], T], stack: int) -> T:
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as failure:
            failures.append(failure)

    with _lock:  # the stack size is a setting of the whole process
        before = threading.stack_size(stack // 4096 * 4096)
        try:
            thread = threading.Thread(target=run, name="long text")
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    if failures:
        raise failures[0]
    return results[0]
